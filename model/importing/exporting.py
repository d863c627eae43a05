"""Writes models that were trained here in the forms of transformers and CTranslate2."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import decoders, normalizers, processors
from torch import Tensor

from model.decoding.options import SearchOptions
from model.decoding.search import NEVER_PREDICTED
from model.errors import UserError
from model.files import write_json
from model.importing.files.settings import CONFIG, GENERATION, README
from model.importing.files.settings import TOKENIZER as TOKENIZER_SETTINGS
from model.importing.files.tokenizers import TOKENIZER_JSON
from model.importing.files.weights import SAFETENSORS
from model.importing.weight_names import LAYERS, READS, SHARED, sublayers
from model.inputs import MAX_TOKENS
from model.network.layers import sinusoids
from model.network.transformer import Transformer
from model.storage.card import Card, readme
from model.storage.checkpoint import Checkpoint
from model.storage.hub import OnHub
from model.text.languages import language_names
from model.text.tokenizer import BOS, BOS_ID, EOS, EOS_ID, PAD, PAD_ID, SPACE, UNK, UNK_ID

Form = Literal["transformers", "ctranslate2"]
POSITIONS = 512  # of the table that is written; Headlight reads at most 128 tokens
# Of the model's class in transformers, by the place of its norms.
CLASSES = {"pre": ("pegasus", "PegasusForConditionalGeneration"), "post": ("marian", "MarianMTModel")}


def export(checkpoint: Checkpoint, form: Form, output: Path) -> None:
    """Write the directory `output`, which must not exist, in the form of another program.

    Raises UserError if it exists, for a model that the form cannot hold, and if the other program is needed
    and not installed.
    """
    if output.exists():
        raise UserError(f"{output} exists already; delete it or name another folder with --output.")
    _check(checkpoint)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=output.parent) as folder:
            written = Path(folder) / output.name
            write_transformers(checkpoint, written)
            if form == "ctranslate2":
                written = _convert_to_ctranslate2(written, Path(folder) / "converted")
            written.rename(output)
    except OSError as error:
        raise UserError(
            f"{output} cannot be written ({error.strerror}); free space on its disk or name another folder "
            "with --output."
        ) from error


class Exported(OnHub):
    """A model in the form of transformers, for the hub."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        _check(checkpoint)
        self.checkpoint = checkpoint

    def _save_pretrained(self, save_directory: Path) -> None:
        write_transformers(self.checkpoint, save_directory)


def _check(checkpoint: Checkpoint) -> None:
    """Raise UserError unless this is a model of one vocabulary that was trained here."""
    config = checkpoint.model.config
    if checkpoint.info.origin:
        raise UserError(f"This model was imported from {checkpoint.info.origin}; use that one.")
    one = checkpoint.source_tokenizer is checkpoint.target_tokenizer
    if not one or not config.tied or config.separate_output:
        raise UserError("Only a model with one vocabulary and tied weights can be exported; train one.")
    if config.positions != "sinusoidal" or config.embedding_norm:
        raise UserError("Only a model with the paper's positions can be exported; train one with them.")
    if config.final_norm != "pre" or config.of_decoder != config:
        raise UserError(
            "Only a model whose sides have the same form can be exported; train one without these."
        )
    if config.is_recurrent:
        raise UserError("A model whose decoder has no self-attention cannot be exported; train one with it.")
    if config.has_parts_of_t5:
        raise UserError(
            "A model with gated, rms_norm or d_key cannot be exported; train one without these settings."
        )


def write_transformers(checkpoint: Checkpoint, directory: Path) -> None:
    """Write a directory that AutoModelForSeq2SeqLM and AutoTokenizer of transformers load."""
    directory.mkdir(exist_ok=True)
    write_json(directory / CONFIG, _config(checkpoint.model))
    write_json(directory / GENERATION, _generation())
    save_file(dict(_weights(checkpoint.model)), directory / SAFETENSORS, metadata={"format": "pt"})
    (directory / TOKENIZER_JSON).write_text(_tokenizer(checkpoint), encoding="utf-8")
    names = {"pad_token": PAD, "unk_token": UNK, "bos_token": BOS, "eos_token": EOS}
    rules = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": MAX_TOKENS}
    # A special token that a user types is text, and a token type is not read by the model.
    rules |= {"split_special_tokens": True, "model_input_names": ["input_ids", "attention_mask"]}
    languages = {
        "source_lang": checkpoint.info.source_language,
        "target_lang": checkpoint.info.target_language,
    }
    write_json(directory / TOKENIZER_SETTINGS, names | rules | languages)
    (directory / README).write_text(readme(export_card(checkpoint)), encoding="utf-8")


def _config(model: Transformer) -> dict[str, object]:
    config = model.config
    family, name = CLASSES[config.norm]
    both = {"layers": config.n_encoder_layers, "ffn_dim": config.d_ff, "attention_heads": config.n_heads}
    sides = {f"{side}_{each}": value for side in ("encoder", "decoder") for each, value in both.items()}
    return {
        "architectures": [name],
        "model_type": family,
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocabulary,
        "d_model": config.d_model,
        **sides,
        "decoder_layers": config.n_decoder_layers,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": True,
        "share_encoder_decoder_embeddings": True,
        # The loaders of other programs ask for these three.
        "normalize_before": config.norm == "pre",
        "add_final_layer_norm": config.norm == "pre",
        "normalize_embedding": False,
        **_special_ids(),
        "forced_eos_token_id": None,
    }


def _special_ids() -> dict[str, int]:
    ids = {"pad": PAD_ID, "unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID, "decoder_start": BOS_ID}
    return {f"{name}_token_id": index for name, index in ids.items()}


def _generation() -> dict[str, object]:
    """What Headlight's search does by default: greedy, with its length limit for the longest source."""
    limit = SearchOptions().limit(MAX_TOKENS) + 1  # their length has <s> too
    ids = _special_ids()
    del ids["unk_token_id"]
    return {**ids, "max_length": limit, "num_beams": 1, "suppress_tokens": NEVER_PREDICTED}


def _weights(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    width = model.config.d_model
    # Theirs are all sines, then all cosines; ours take turns.
    axis = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
    yield SHARED, model.source_embedding.tokens.weight.detach()[:, axis].contiguous()
    bias = model.output.bias
    yield (
        "final_logits_bias",
        torch.zeros(1, model.config.target_vocabulary) if bias is None else bias.detach()[None].clone(),
    )
    for side in LAYERS:
        yield f"model.{side}.embed_positions.weight", sinusoids(POSITIONS, width)[:, axis].contiguous()
        for _, module, names, role in sublayers(model, side):
            for part, parameter in (("weight", module.weight), ("bias", module.bias)):
                weight = parameter.detach()
                if role != READS:
                    weight = weight[axis]
                elif part == "weight":
                    weight = weight[:, axis]
                for name, block in zip(names, weight.chunk(len(names)), strict=True):
                    yield f"{name}.{part}", block.contiguous().clone()


def _tokenizer(checkpoint: Checkpoint) -> str:
    """tokenizer.json with what `model.text.tokenizer` does around it: normalising, </s>, joining."""
    tokenizer = tokenizers.Tokenizer.from_str(checkpoint.source_tokenizer.to_json())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(SPACE, " "),
            normalizers.NFC(),
            normalizers.Replace(tokenizers.Regex(r"[\s\x1c-\x1f]+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=f"$A {EOS} $B {EOS}", special_tokens=[(EOS, EOS_ID)]
    )
    ends = decoders.Replace(tokenizers.Regex("^ +| +$"), "")  # decoders.Strip aborts on an empty text
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse(), ends])
    return str(tokenizer.to_str())


def export_card(checkpoint: Checkpoint) -> Card:
    """The model's card, with how to load it by transformers."""
    info, own = checkpoint.info, checkpoint.card
    pair = f"{language_names(info.source_language)} to {language_names(info.target_language)}"
    introduction = [
        f"A Transformer that translates {pair}, trained by Headlight and exported for transformers:",
        "```python\n"
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer\n\n"
        'name = "USER/NAME"  # or this folder\n'
        'model = AutoModelForSeq2SeqLM.from_pretrained(name, attn_implementation="eager")\n'
        "tokenizer = AutoTokenizer.from_pretrained(name)\n"
        'ids = model.generate(**tokenizer("...", return_tensors="pt"))\n'
        "print(tokenizer.decode(ids[0], skip_special_tokens=True))\n"
        "```",
        "Headlight opens it too: `python -m model import USER/NAME`.",
    ]
    if own:
        introduction += [f"# {own['title']}", *own.get("introduction", ())]
    front = {name: value for name, value in own.get("front", {}).items() if name != "library_name"}
    return {
        **own,
        "front": {"library_name": "transformers", **front},
        "title": info.title,
        "introduction": introduction,
    }


def _convert_to_ctranslate2(directory: Path, output: Path) -> Path:
    """Convert a directory of transformers by the converter of CTranslate2. Raises UserError."""
    if json.loads((directory / CONFIG).read_text("utf-8"))["model_type"] != "pegasus":
        # Its loader of MarianMT drops the last entry and begins with zeros in place of <s>.
        raise UserError("CTranslate2 can hold pre-norm models only; export this one to transformers.")
    try:
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(directory)).convert(str(output))
    except ImportError as error:
        raise UserError(
            "CTranslate2's converter needs ctranslate2 and transformers; install both with pip."
        ) from error
    settings = json.loads((output / CONFIG).read_text("utf-8"))
    # The loader takes <pad> for the token that the decoder reads first, as Google's Pegasus does.
    write_json(output / CONFIG, settings | {"bos_token": BOS, "decoder_start_token": BOS})
    return output
