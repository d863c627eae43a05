"""What the settings beside the weights say: of JoeyNMT, OpenNMT-py, eole, fairseq, Marian and a tutorial."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.errors import UserError, quote_untrusted
from model.files import read_json, read_yaml
from model.importing.files.settings import ACTIVATIONS
from model.network.config import Shape

Words = Sequence[str] | Path  # in the order of their ids, or the file that lists them
LANGUAGES = re.compile(r"\.([a-z]{2})([a-z]{2})\.")
# By their names in OpenNMT-py and eole.
POSITIONS = {"SinusoidalInterleaved": "sinusoidal", "SinusoidalConcat": "marian"}
SAVED_WORDS = (
    "save them with json.dump(vocab.get_itos(), open('source.json', 'w')) and give "
    "--source-vocabulary source.json --target-vocabulary target.json"
)
FAIRSEQ_WORDS = (
    "fairseq keeps them with its data, so give --source-vocabulary data-bin/dict.de.txt "
    "--target-vocabulary data-bin/dict.en.txt"
)


@dataclass(frozen=True)
class Said:
    """What the settings of a model say of it."""

    heads: int = 0
    shape: Shape = field(default_factory=Shape)
    scales: tuple[float, float, float] = (1.0, 1.0, 1.0)  # of both embeddings and the output
    words: tuple[Words, Words] | None = None
    specials: tuple[str, str, str, str] | None = None  # how its vocabulary spells <pad> <unk> <s> </s>
    start: str = ""  # what the decoder reads first, if not <s>
    has_end: bool = True  # whether a source ends with </s>
    spare_positions: int = 0  # the first learned ones, which no token has
    languages: tuple[str, str] | None = None  # their codes
    asks_for_words: str = SAVED_WORDS  # what the user does where no words are found


def require(settings: Mapping[str, Any], wanted: Mapping[str, Any], title: str) -> None:
    """Raise UserError for a setting that changes the arithmetic in a way that Headlight does not compute."""
    for name, value in wanted.items():
        found = settings.get(name, value)
        if found is not None and found != value:
            raise UserError(
                f"The model of {title} has {name} {quote_untrusted(found)}; only models with {name} "
                f"{quote_untrusted(value)} can be imported."
            )


def _section(values: Mapping[str, Any], name: str, title: str) -> Mapping[str, Any]:
    found = values.get(name)
    if not isinstance(found, dict):
        raise UserError(f"The settings of {title} lack {name}; copy the whole folder again.")
    return found


def _number(settings: Mapping[str, Any], name: str, title: str) -> int:
    found = settings.get(name)
    if type(found) is not int or found < 1:
        raise UserError(f"The settings of {title} have {name} {quote_untrusted(found)}; correct it.")
    return found


def _same(values: Sequence[Any], name: str, title: str) -> Any:
    if any(value != values[0] for value in values):
        raise UserError(
            f"The model of {title} has another {name} in its encoder than in its decoder; only models "
            "with one can be imported."
        )
    return values[0]


def _activation(name: object, title: str) -> str:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UserError(
            f"The model of {title} has the activation {quote_untrusted(name)}; only {known} can be imported."
        )
    return ACTIVATIONS[name]


def _within(values: object, section: str, name: str) -> Any:
    """A setting of a section, None if one of them is missing."""
    found = values.get(section) if isinstance(values, dict) else None
    return found.get(name) if isinstance(found, dict) else None


def _languages(codes: Sequence[object]) -> tuple[str, str] | None:
    source, target = (code if isinstance(code, str) and code.isalnum() else "" for code in codes)
    return (source, target) if source and target else None


def _lists(values: Mapping[str, Any], title: str) -> tuple[Words, Words]:
    found = [values.get(side) for side in ("src", "tgt")]
    for words in found:
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UserError(f"The vocabulary of {title} is not two lists of words; copy it again.")
    source, target = found
    return source, target  # type: ignore[return-value]


def parse_jadore(values: Mapping[str, Any], _: Path) -> Said:
    """The settings in a checkpoint of jadore801120's Transformer."""
    title = "jadore801120"
    settings = _section(values, "settings", title)
    heads, key, width = (_number(settings, name, title) for name in ("n_head", "d_k", "d_model"))
    require(settings, {"d_v": key}, title)
    shared = settings.get("proj_share_weight", False)
    scaling = settings.get("scale_emb_or_prj", "prj") if shared else "none"
    embedding = 1.0 if scaling == "emb" else width**-0.5
    output = width**-0.5 if scaling == "prj" else 1.0
    shape: Shape = {} if key * heads == width else {"d_key": key}
    return Said(heads, shape, (embedding, embedding, output))


def parse_joey(_: Mapping[str, Any], folder: Path) -> Said:
    """config.yaml and the word lists beside a checkpoint of JoeyNMT."""
    title = "JoeyNMT"
    values = read_yaml(folder / "config.yaml")
    model = _section(values, "model", title)
    sides = [_section(model, side, title) for side in ("encoder", "decoder")]
    for side in sides:
        require(side, {"type": "transformer", "alpha": 1.0}, title)
    heads = _same([_number(side, "num_heads", title) for side in sides], "num_heads", title)
    activation = _same([side.get("activation", "relu") for side in sides], "activation", title)
    # The defaults of its layers differ.
    norms = [side.get("layer_norm", usual) for side, usual in zip(sides, ("pre", "post"), strict=True)]
    scales = []
    for side in sides:
        embedding = _section(side, "embeddings", title)
        width = _number(side, "hidden_size", title)
        scales.append(1.0 if embedding.get("scale", False) else width**-0.5)
    if model.get("tied_embeddings", False):
        scales[1] = scales[0]
    data = values.get("data")
    symbols = _within({"data": data}, "data", "special_symbols")
    symbols = symbols if isinstance(symbols, dict) else {}
    pad, unknown, start, end = (
        str(symbols.get(f"{name}_token", usual))
        for name, usual in (("pad", "<pad>"), ("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>"))
    )
    return Said(
        heads,
        {"norm": norms[0], "decoder_norm": norms[1], "activation": _activation(activation, title)},
        (scales[0], scales[1], 1.0),
        (folder / "src_vocab.txt", folder / "trg_vocab.txt"),
        (pad, unknown, start, end),
        languages=_languages([_within(data, side, "lang") for side in ("src", "trg")]),
    )


def _of_opennmt(
    settings: Mapping[str, Any],
    positions: object,
    activation: object,
    vocabulary: Mapping[str, Any],
    title: str,
) -> Said:
    """What OpenNMT-py and eole share."""
    if not isinstance(positions, str) or positions not in POSITIONS:
        raise UserError(
            f"The model of {title} has positions {quote_untrusted(positions)}; only "
            f"{' and '.join(POSITIONS)} can be imported."
        )
    start = vocabulary.get("decoder_start_token") or "<s>"
    return Said(
        _number(settings, "heads", title),
        {"positions": POSITIONS[positions], "activation": _activation(activation, title)},
        words=_lists(vocabulary, title),
        start=str(start),
        has_end=False,
    )


def parse_opennmt(values: Mapping[str, Any], _: Path) -> Said:
    """The options and the vocabulary in a checkpoint of OpenNMT-py."""
    title = "OpenNMT-py"
    options = _section(values, "opt", title)
    wanted = {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "self_attn_type": "scaled-dot",
        "layer_norm": "standard",
        "max_relative_positions": 0,
        "num_kv": 0,
        "parallel_residual": False,
        "copy_attn": False,
        "num_experts": 0,
    }
    if options.get("self_attn_type") == "scaled-dot-flash":  # the same numbers
        del wanted["self_attn_type"]
    require(options, wanted, title)
    return _of_opennmt(
        options,
        options.get("position_encoding_type", "SinusoidalInterleaved"),
        options.get("pos_ffn_activation_fn", "relu"),
        _section(values, "vocab", title),
        title,
    )


def parse_eole(_: Mapping[str, Any], folder: Path) -> Said:
    """config.json and vocab.json of a folder of eole."""
    title = "eole"
    values, vocabulary = read_json(folder / "config.json"), read_json(folder / "vocab.json")
    if not isinstance(values, dict) or not isinstance(vocabulary, dict):
        raise UserError(f"{folder} has settings that are no JSON objects; copy it again.")
    model = _section(values, "model", title)
    wanted = {
        "layer_norm": "standard",
        "parallel_residual": False,
        "ffn_layernorm": False,
        "query_norm": False,
        "key_norm": False,
        "num_experts": 0,
    }
    sides = []
    for side in ("encoder", "decoder"):
        settings = {**model, **_section(model, side, title)}
        require(settings, wanted | {f"{side}_type": "transformer", "encoder_layer_style": "standard"}, title)
        heads = _number(settings, "heads", title)
        width = _number(settings, "hidden_size", title)
        require(settings, {"heads_kv": heads, "head_dim": width // heads}, title)
        sides.append(settings)
    heads = _same([side.get("heads") for side in sides], "heads", title)
    activation = _same([side.get("mlp_activation_fn", "relu") for side in sides], "mlp_activation_fn", title)
    embeddings = _section(model, "embeddings", title)
    positions = embeddings.get("position_encoding_type", "SinusoidalInterleaved")
    return _of_opennmt({"heads": heads}, positions, activation, vocabulary, title)


def parse_fairseq(values: Mapping[str, Any], folder: Path) -> Said:
    """The settings in a checkpoint of fairseq, and the dictionaries beside it."""
    title = "fairseq"
    if isinstance(values.get("cfg"), dict):
        model, task = (_section(values["cfg"], name, title) for name in ("model", "task"))
    else:
        model = task = _section(values, "args", title)
    languages = _languages([task.get(f"{side}_lang") for side in ("source", "target")])
    require(
        model, {"adaptive_input": False, "no_cross_attention": False, "cross_self_attention": False}, title
    )
    require(model, {"no_token_positional_embeddings": False, "adaptive_softmax_cutoff": None}, title)

    def of_both(name: str, usual: Any = False) -> Any:
        return _same([model.get(f"{side}_{name}", usual) for side in ("encoder", "decoder")], name, title)

    heads = of_both("attention_heads", 8)
    width = _number(model, "encoder_embed_dim", title)
    scale = width**-0.5 if model.get("no_scale_embedding", False) else 1.0
    shape: Shape = {
        "norm": "pre" if of_both("normalize_before") else "post",
        "positions": "learned" if of_both("learned_pos") else "fairseq",
        "embedding_norm": bool(model.get("layernorm_embedding", False)),
        "activation": _activation(model.get("activation_fn", "relu"), title),
    }
    source, target = (folder / f"dict.{language}.txt" for language in languages or ("", ""))
    return Said(
        heads,
        shape,
        (scale, scale, 1.0),
        (source, target) if source.exists() and target.exists() else None,
        asks_for_words=FAIRSEQ_WORDS,
        start="</s>",
        spare_positions=2,
        languages=languages,
    )


def parse_marian(values: Mapping[str, Any], folder: Path, decoder: str = "self-attention") -> Said:
    """special:model.yml of a model of Marian."""
    title = "Marian"
    wanted: dict[str, object] = {
        "type": "transformer",
        "transformer-decoder-autoreg": decoder,
        "dec-cell": "ssru" if decoder == "rnn" else values.get("dec-cell"),
        "transformer-rnn-projection": False,
        "transformer-train-position-embeddings": False,
        "transformer-no-projection": False,
        "transformer-tied-layers": [],
        "transformer-ffn-depth": 2,
        "transformer-dim-aan": values.get("transformer-dim-aan"),
        "lemma-dim-emb": 0,
    }
    require(values, wanted, title)
    processing = tuple(str(values.get(f"transformer-{name}", "")) for name in ("preprocess", "postprocess"))
    norms = {("", "dan"): "post", ("n", "da"): "pre"}
    if processing not in norms:
        raise UserError(
            f"The model of Marian has transformer-preprocess and -postprocess {quote_untrusted(processing)}; "
            'only "" with "dan", or "n" with "da", can be imported.'
        )
    activation = _activation(values.get("transformer-ffn-activation", "swish"), title)
    shape: Shape = {"norm": norms[processing], "activation": activation}
    words, languages = _vocabularies(folder), _named_languages(folder)
    return Said(_number(values, "transformer-heads", title), shape, words=words, languages=languages)


def _named_languages(folder: Path) -> tuple[str, str] | None:
    """The languages in the name of a vocabulary, as in vocab.enpt.spm."""
    names = (each.name for each in folder.iterdir() if "vocab" in each.name)
    return next(((match[1], match[2]) for name in names if (match := LANGUAGES.search(name))), None)


def _vocabularies(folder: Path) -> tuple[Words, Words] | None:
    """The files of both sides in a folder of Marian: one, or two whose names say which is which."""
    found = [each for each in folder.iterdir() if each.suffix in (".spm", ".yml") and "vocab" in each.name]
    if len(found) == 1:
        return found[0], found[0]
    of_side = {each.name[:3]: each for each in found}
    return (of_side["src"], of_side["trg"]) if of_side.keys() == {"src", "trg"} else None
