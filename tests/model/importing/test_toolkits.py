"""Models of toolkits, in the folders that these write, give the logits that the toolkits' own code gave.

toolkits.json has the names and shapes of the weights, the settings, and the logits that the code of each
toolkit computed for one sentence pair with the weights of `drawn`.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor, nn

from model.errors import UserError
from model.files import read_yaml
from model.importing.files.npz import SETTINGS
from model.importing.importer import import_model, read_checkpoint
from model.importing.own_models import Told
from model.storage.checkpoint import load
from tests.model.helpers import assert_sentence, draw_weights
from tests.model.importing.test_own_models import WIDTH, Tutorial
from tests.numerics import assert_float32

FOUND: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("toolkits.json").read_text("utf-8"))
DATA = {"src": {"lang": "de"}, "trg": {"lang": "en"}}
EPS = {"joeynmt": 1e-6, "opennmt": 1e-6, "eole": 1e-5, "fairseq": 1e-5}  # of the norms
SOURCE, TARGET = list("abcdefgh"), list("abcdefghij")
FIRST = {
    "joeynmt": ["<unk>", "<pad>", "<s>", "</s>"],
    "opennmt": ["<unk>", "<blank>", "<s>", "</s>"],
    "eole": ["<unk>", "<blank>", "<s>", "</s>"],
    "fairseq": ["<s>", "<pad>", "</s>", "<unk>"],
}


def drawn(name: str) -> dict[str, Tensor]:
    """The weights of a model, the same as those that the toolkit's code was given."""
    found = FOUND[name]
    state: dict[str, Tensor] = {}
    for place, (weight, shape) in enumerate(sorted(found["weights"].items())):
        values = (torch.arange(math.prod(shape)) * 7919 + place * 104729) % 1009 - 504
        state[weight] = (values / 1009).reshape(shape) * 0.9
    state |= {other: state[weight] for other, weight in found["tied"].items()}
    return state | {buffer: torch.ones(1) for buffer in found["buffers"]}


def write(name: str, folder: Path) -> Path:
    """The folder that the toolkit leaves."""
    folder.mkdir()
    toolkit, state, settings = name.partition("-")[0], drawn(name), FOUND[name]["settings"]
    source, target = FIRST[toolkit] + SOURCE, FIRST[toolkit] + TARGET
    if toolkit == "joeynmt":
        saved = {"model_state": state, "optimizer_state": {"state": {}}, "train_iter_state": torch.ones(3)}
        torch.save(saved, folder / "best.ckpt")
        (folder / "config.yaml").write_text(yaml.safe_dump(settings | {"data": DATA}))
        for side, words in (("src", source), ("trg", target)):
            (folder / f"{side}_vocab.txt").write_text("".join(f"{word}\n" for word in words))
    elif toolkit == "opennmt":
        output = {key.removeprefix("generator."): state.pop(key) for key in list(state) if "generator" in key}
        vocabulary = {"src": source, "tgt": target, "decoder_start_token": "<s>"}
        saved = {"model": state, "generator": output, "vocab": vocabulary, "optim": {"state": {}}}
        torch.save(saved | {"opt": argparse.Namespace(**settings)}, folder / "model_step_5.pt")
    elif toolkit == "eole":
        step = folder / "step_5"
        step.mkdir()
        save_file({key: value.clone() for key, value in state.items()}, step / "model.00.safetensors")
        (step / "config.json").write_text(json.dumps({"model": settings, "training": {}}))
        vocabulary = {"src": source, "tgt": target, "decoder_start_token": "<s>"}
        (step / "vocab.json").write_text(json.dumps(vocabulary))
        for path in step.iterdir():  # the folder has links to the last step
            (folder / path.name).symlink_to(f"step_5/{path.name}")
    else:
        model = argparse.Namespace(**settings)
        task = {"source_lang": "de", "target_lang": "en"}
        told = {"args": model} if name == "fairseq-pre" else {"cfg": {"model": model, "task": task}}
        torch.save(told | {"model": state, "last_optimizer_state": {}}, folder / "checkpoint_best.pt")
        for language, words in (("de", SOURCE), ("en", TARGET)):
            # Filled up to a multiple of eight words, as fairseq does.
            rows = len(FOUND[name]["logits"][0]) if language == "en" else 16
            filled = words + [f"madeupword{place:04}" for place in range(rows - 4 - len(words))]
            (folder / f"dict.{language}.txt").write_text("".join(f"{word} 1\n" for word in filled))
    return folder


@pytest.mark.parametrize("name", FOUND)
@torch.no_grad()
def test_a_model_of_a_toolkit_gives_the_logits_of_its_own_code(name: str, tmp_path: Path) -> None:
    toolkit, found = name.partition("-")[0], FOUND[name]
    folder = write(name, tmp_path / "run")
    checkpoint = read_checkpoint(str(folder))
    for module in checkpoint.model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = EPS[toolkit]
    vocabulary = list(checkpoint.target_tokenizer.pieces(range(len(checkpoint.target_tokenizer))))
    source = [token.id for token in checkpoint.source_tokenizer.source_tokens(" ".join(found["source"]))]
    target = [2, *map(vocabulary.index, found["target"])]
    theirs = FIRST[toolkit] + TARGET
    known = {"<blank>": "<pad>"}
    # The start of fairseq's decoder is its </s>; the <s> that it has is another entry.
    columns = [
        len(vocabulary) - 1 - vocabulary[::-1].index(known.get(word, word))
        if word == "<s>"
        else vocabulary.index(known.get(word, word))
        for word in theirs
    ]
    expected = torch.tensor(found["logits"], dtype=torch.float64)[:, : len(theirs)]

    def logits(model: nn.Module) -> Tensor:
        return model(torch.tensor([source]), torch.tensor([target]))[0][:, columns]

    assert_float32(expected, logits, checkpoint.model)
    assert checkpoint.notes[0].startswith("Recognised")
    assert checkpoint.info.title.startswith("German → English") == (toolkit in ("joeynmt", "fairseq"))
    import_model(str(folder), tmp_path / "out", 32)
    assert load(tmp_path / "out").model.config == checkpoint.model.config


def marian_arrays(network: nn.Transformer) -> dict[str, Tensor]:
    """The layers of torch's network as Marian names them: rows times matrices, vectors as matrices."""
    arrays: dict[str, Tensor] = {}
    kinds = {"self_attn": "self", "multihead_attn": "context"}
    for side in ("encoder", "decoder"):
        norms = ["self_Wo", "context_Wo", "ffn_ffn"] if side == "decoder" else ["self_Wo", "ffn_ffn"]
        for place, layer in enumerate(getattr(network, side).layers):
            stem = f"{side}_l{place + 1}"
            for name, kind in kinds.items():
                attention = getattr(layer, name, None)
                if attention is None:
                    continue
                weights, biases = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
                for part, weight, vector in zip("qkv", weights, biases, strict=True):
                    arrays |= {f"{stem}_{kind}_W{part}": weight.t(), f"{stem}_{kind}_b{part}": vector[None]}
                out = attention.out_proj
                arrays |= {f"{stem}_{kind}_Wo": out.weight.t(), f"{stem}_{kind}_bo": out.bias[None]}
            for number in (1, 2):
                linear = getattr(layer, f"linear{number}")
                arrays |= {f"{stem}_ffn_W{number}": linear.weight.t()}
                arrays |= {f"{stem}_ffn_b{number}": linear.bias[None]}
            for number, norm in enumerate(norms, 1):
                module = getattr(layer, f"norm{number}")
                arrays |= {f"{stem}_{norm}_ln_scale": module.weight[None]}
                arrays |= {f"{stem}_{norm}_ln_bias": module.bias[None]}
    return arrays


@torch.no_grad()
def test_a_model_of_marian_computes_as_its_formulas_say(tmp_path: Path) -> None:
    theirs = draw_weights(Tutorial().double().eval())
    theirs.transformer.encoder.norm = theirs.transformer.decoder.norm = None
    words = ["</s>", "<unk>", *"abcd"]
    shared = theirs.src_tok_emb["embedding"].weight[: len(words)]
    bias = theirs.generator.bias[: len(words)]
    arrays = marian_arrays(theirs.transformer) | {"Wemb": shared, "decoder_ff_logit_out_b": bias[None]}
    settings = {"type": "transformer", "transformer-heads": 3, "transformer-ffn-activation": "relu"}
    settings |= {"transformer-preprocess": "", "transformer-postprocess": "dan"}
    folder = tmp_path / "run"
    folder.mkdir()
    save_marian(
        folder / "model.npz", {name: value.float().numpy() for name, value in arrays.items()}, settings
    )
    (folder / "vocab.deen.yml").write_text(yaml.safe_dump({word: id_ for id_, word in enumerate(words)}))
    checkpoint = read_checkpoint(str(folder))
    # Half the dimensions are sines, the others cosines, and the first input of the decoder is zero.
    half = WIDTH // 2
    angles = torch.arange(5)[:, None] * 10000.0 ** (-torch.arange(half) / (half - 1))
    positions = torch.cat([angles.sin(), angles.cos()], 1).double()
    embedded = shared * math.sqrt(WIDTH)
    source, target = torch.tensor([[words.index(word) for word in ("b", "d", "a", "</s>")]]), [3, 2]
    x = embedded[source] + positions[:4]
    y = torch.cat([embedded.new_zeros(1, WIDTH), embedded[target]])[None] + positions[:3]
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    expected = theirs.transformer(x, y, tgt_mask=mask) @ shared.t() + bias
    tokenizer = checkpoint.source_tokenizer
    ids = [token.id for token in tokenizer.source_tokens("b d a")]
    order = [tokenizer.pieces(range(len(tokenizer))).index(word) for word in words if word != "<unk>"]
    kept = [place for place, word in enumerate(words) if word != "<unk>"]

    def logits(model: nn.Module) -> Tensor:
        return model(torch.tensor([ids]), torch.tensor([[2, *tokenizer.encode("b a")]]))[0]

    assert_float32(expected[0][:, kept], lambda model: logits(model)[:, order], checkpoint.model)
    assert logits(checkpoint.model)[:, :3].max() < -1000  # <pad>, <unk> and <s> are never written


def save_marian(path: Path, arrays: dict[str, np.ndarray[Any, Any]], settings: dict[str, Any]) -> None:
    text = yaml.safe_dump(settings).encode() + b"\0"
    np.savez(path, allow_pickle=False, **{SETTINGS: np.frombuffer(text, np.int8)}, **arrays)


def test_dictionaries_of_fairseq_may_lie_with_its_data(tmp_path: Path) -> None:
    """fairseq finds the languages in the names of the data, and saves them only if they were given."""
    folder = write("fairseq-post", tmp_path / "run")
    expected = read_checkpoint(str(folder)).model.state_dict()
    saved = torch.load(folder / "checkpoint_best.pt", weights_only=False)
    saved["cfg"]["task"] = {"source_lang": None, "target_lang": None}
    torch.save(saved, folder / "checkpoint_best.pt")
    with pytest.raises(UserError, match="fairseq keeps them with its data, so give --source-vocab") as caught:
        read_checkpoint(str(folder))
    assert_sentence(caught.value)
    lists = (folder / f"dict.{language}.txt" for language in ("de", "en"))
    given = read_checkpoint(str(folder), Told("", 0, *lists))
    assert all(torch.equal(weight, expected[name]) for name, weight in given.model.state_dict().items())


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("joeynmt-pre", {"alpha": 0.5}, "alpha 0.5"),
        ("joeynmt-pre", {"num_heads": 2}, "another num_heads"),
        ("joeynmt-pre", {"activation": "tanh"}, "another activation"),
        ("opennmt-a", {"max_relative_positions": 20}, "max_relative_positions 20"),
        ("opennmt-a", {"position_encoding_type": "Rotary"}, "positions .Rotary"),
        ("opennmt-a", {"heads": "many"}, "heads .many"),
        ("eole-a", {"heads_kv": 2}, "heads_kv 2"),
        ("fairseq-post", {"adaptive_input": True}, "adaptive_input"),
        ("fairseq-post", {"decoder_attention_heads": 2}, "another attention_heads"),
    ],
)
def test_settings_that_headlight_does_not_compute_are_named(
    name: str, change: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = json.loads(json.dumps(FOUND[name]["settings"]))
    inner = settings["model"]["encoder"] if "model" in settings else settings.get("encoder", settings)
    inner.update(change)
    monkeypatch.setitem(FOUND, name, FOUND[name] | {"settings": settings})
    with pytest.raises(UserError, match=message) as caught:
        read_checkpoint(str(write(name, tmp_path / "run")))
    assert_sentence(caught.value)


@pytest.mark.parametrize(
    "text", ["a: &x [1]\nb: *x\n", "- 1\n", "a: [", "[" * 5000, "a: !!python/object/apply:os.system [ls]"]
)
def test_yaml_is_read_as_data(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_yaml(tmp_path / "config.yaml")
    assert_sentence(caught.value)


@pytest.mark.parametrize("damage", ["cut", "object", "integers", "no settings", "compressed"])
def test_a_hostile_file_of_arrays_is_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    arrays: dict[str, Any] = {"Wemb": np.zeros((4, 4), np.float32)}
    if damage == "object":
        np.savez(path, Wemb=np.array([{}], dtype=object))
    elif damage == "no settings":
        np.savez(path, **arrays)
    elif damage == "compressed":
        np.savez_compressed(path, Wemb=np.zeros((4000, 4000), np.int8))
    else:
        if damage == "integers":
            arrays["Wemb"] = np.zeros((4, 4), np.int64)
        save_marian(path, arrays, {"type": "transformer"})
        if damage == "cut":
            path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError) as caught:
        read_checkpoint(str(path), Told())
    assert_sentence(caught.value)
