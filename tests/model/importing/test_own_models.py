"""Models of tutorials and toolkits, saved as these save them, give the numbers of the code that made them."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.errors import UserError
from model.importing.files.pickles import read_nested
from model.importing.importer import import_model, read_checkpoint
from model.importing.own_models import Told
from model.network.layers import sinusoids
from model.storage.checkpoint import load
from tests.model.helpers import assert_sentence, draw_weights
from tests.numerics import assert_float32

WIDTH, WORDS = 12, ["<unk>", "<pad>", "<bos>", "<eos>", "a", "b", "c", "d"]


class Tutorial(nn.Module):
    """The model of the tutorial, with the names of its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.Transformer(WIDTH, 3, 2, 2, 20, dropout=0.0, batch_first=True)
        self.src_tok_emb, self.tgt_tok_emb = (
            nn.ModuleDict({"embedding": nn.Embedding(len(WORDS), WIDTH)}) for _ in range(2)
        )
        self.generator = nn.Linear(WIDTH, len(WORDS))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = (
            part["embedding"](ids) * math.sqrt(WIDTH) + sinusoids(ids.shape[1], WIDTH)
            for part, ids in ((self.src_tok_emb, source), (self.tgt_tok_emb, target))
        )
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=x.dtype)
        logits: Tensor = self.generator(self.transformer(x, y, tgt_mask=mask))
        return logits


def write(folder: Path, value: Any, words: list[str] = WORDS) -> Path:
    folder.mkdir(exist_ok=True)
    torch.save(value, folder / "model.pt")
    for side in ("source", "target"):
        (folder / f"{side}.json").write_text(json.dumps(words))
    return folder


@torch.no_grad()
def test_the_tutorial_of_torch_gives_equal_logits(tmp_path: Path) -> None:
    theirs = draw_weights(Tutorial().double().eval())
    folder = write(
        tmp_path / "run", {"epoch": 3, "model_state_dict": theirs.state_dict(), "optimizer": {"a": [1]}}
    )
    checkpoint = read_checkpoint(str(folder), Told(heads=3))
    ours = checkpoint.model
    order = [WORDS.index(word) for word in ("<pad>", "<unk>", "<bos>", "<eos>", "a", "b", "c", "d")]
    source, target = torch.tensor([[2, 4, 7, 5, 3]]), torch.tensor([[2, 6, 4]])
    rows = torch.tensor(order)
    expected = theirs(rows[source], rows[target])[..., rows]
    assert_float32(expected, lambda model: model(source, target), ours)
    assert checkpoint.source_tokenizer.source_tokens("a d b")[0].id == 2
    assert "Recognised torch.nn.Transformer" in checkpoint.notes[0]
    import_model(str(folder), tmp_path / "out", 32, Told(heads=3))
    assert torch.equal(load(tmp_path / "out").model(source, target), ours(source, target))


def test_what_the_file_does_not_say_is_asked_for(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", Tutorial().state_dict())
    for told, message in ((Told(), "--heads 8"), (Told(heads=5), "multiple"), (Told("x", 3), "no layout")):
        with pytest.raises(UserError, match=message) as caught:
            read_checkpoint(str(folder), told)
        assert_sentence(caught.value)
    (folder / "source.json").write_text(json.dumps(WORDS[:-1]))
    with pytest.raises(UserError, match="7 entries but the model has 8"):
        read_checkpoint(str(folder), Told(heads=3))
    (folder / "source.json").unlink()
    with pytest.raises(UserError, match="--source-vocabulary"):
        read_checkpoint(str(folder), Told(heads=3))


def test_a_namespace_is_data_and_a_whole_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.chkpt"
    settings = argparse.Namespace(n_head=3, parts=[1, (2.5, "a")], other=argparse.Namespace(d_k=4))
    torch.save({"model": {"a": torch.ones(2)}, "settings": settings, "optimizer": {"b": torch.ones(3)}}, path)
    tensors, values = read_nested(path)
    assert list(tensors) == ["a"]
    assert values == {"settings": {"n_head": 3, "parts": [1, [2.5, "a"]], "other": {"d_k": 4}}}
    torch.save(nn.Linear(2, 2), path)
    with pytest.raises(UserError, match="save its weights alone") as caught:
        read_checkpoint(str(path), Told())
    assert_sentence(caught.value)
    shared: Any = [1]
    for _ in range(40):
        shared = [shared, shared]
    torch.save({"model": {"a": torch.ones(2)}, "settings": shared}, path)
    with pytest.raises(UserError, match="too many values|memory or time"):
        read_checkpoint(str(path), Told())


# From the names of torch.nn.Transformer to the names of each layout; "{part}" is q, k and v in turn.
NAMES: dict[str, dict[str, str]] = {
    "hkproj": {
        "source": "src_embed.embedding",
        "target": "tgt_embed.embedding",
        "output": "projection_layer.proj",
        "self_attn": "self_attention_block.w_{}",
        "multihead_attn": "cross_attention_block.w_{}",
        "parts": "qkvo",
        "linear1": "feed_forward_block.linear_1",
        "linear2": "feed_forward_block.linear_2",
        "norms": "residual_connections.0.norm residual_connections.1.norm residual_connections.2.norm",
        "suffixes": "alpha bias",
    },
    "annotated": {
        "source": "src_embed.0.lut",
        "target": "tgt_embed.0.lut",
        "output": "generator.proj",
        "self_attn": "self_attn.linears.{}",
        "multihead_attn": "src_attn.linears.{}",
        "parts": "0123",
        "linear1": "feed_forward.w_1",
        "linear2": "feed_forward.w_2",
        "norms": "sublayer.0.norm sublayer.1.norm sublayer.2.norm",
        "suffixes": "a_2 b_2",
    },
    "bentrevett": {
        "source": "encoder.tok_embedding",
        "target": "decoder.tok_embedding",
        "output": "decoder.fc_out",
        "self_attn": "self_attention.fc_{}",
        "multihead_attn": "encoder_attention.fc_{}",
        "parts": "qkvo",
        "linear1": "positionwise_feedforward.fc_1",
        "linear2": "positionwise_feedforward.fc_2",
        "norms": "self_attn_layer_norm enc_attn_layer_norm ff_layer_norm",
        "suffixes": "weight bias",
    },
    "jadore801120": {
        "source": "encoder.src_word_emb",
        "target": "decoder.trg_word_emb",
        "output": "trg_word_prj",
        "layers": "layer_stack",
        "self_attn": "slf_attn.{}",
        "multihead_attn": "enc_attn.{}",
        "parts": "w_qs w_ks w_vs fc",
        "linear1": "pos_ffn.w_1",
        "linear2": "pos_ffn.w_2",
        "norms": "slf_attn.layer_norm enc_attn.layer_norm pos_ffn.layer_norm",
        "suffixes": "weight bias",
    },
}


def saved_as(names: dict[str, str], network: nn.Transformer, sample: bool) -> dict[str, Tensor]:
    """The layers of torch's network as another layout names them; `sample` if its norms divide otherwise."""
    state: dict[str, Tensor] = {}
    parts = names["parts"].split() if " " in names["parts"] else list(names["parts"])
    norms = names["norms"].split()
    suffixes = dict(zip(("weight", "bias"), names["suffixes"].split(), strict=True))

    def save_norm(stem: str, kind: str, value: Tensor) -> None:
        larger = math.sqrt(WIDTH / (WIDTH - 1)) if sample and kind == "weight" else 1.0
        state[f"{stem}.{suffixes[kind]}"] = value * larger

    for side in ("encoder", "decoder"):
        stack = getattr(network, side)
        used = norms if side == "decoder" else [norms[0], norms[2 if "ff" in norms[2] else 1]]
        for place, layer in enumerate(stack.layers):
            stem = f"{side}.{names.get('layers', 'layers')}.{place}"
            for name, value in layer.named_parameters():
                module, _, kind = name.rpartition(".")
                if module in ("linear1", "linear2"):
                    state[f"{stem}.{names[module]}.{kind}"] = value
                elif module.startswith("norm"):
                    save_norm(f"{stem}.{used[int(module[-1]) - 1]}", kind, value)
                elif module.endswith("out_proj"):
                    state[f"{stem}.{names[module.split('.')[0]].format(parts[3])}.{kind}"] = value
                else:  # in_proj
                    for part, third in zip(parts, value.chunk(3), strict=False):
                        state[f"{stem}.{names[module].format(part)}.{kind.removeprefix('in_proj_')}"] = third
        if stack.norm is not None:
            for kind, value in stack.norm.named_parameters():
                save_norm(f"{side}.norm", kind, value)
    return state


@pytest.mark.parametrize("layout", NAMES)
@torch.no_grad()
def test_each_tutorial_gives_the_logits_of_torchs_own_network(layout: str, tmp_path: Path) -> None:
    names, pre = NAMES[layout], layout in ("hkproj", "annotated")
    network = nn.Transformer(WIDTH, 3, 2, 2, 20, dropout=0.0, batch_first=True, norm_first=pre).double()
    if not pre:
        network.encoder.norm = network.decoder.norm = None
    draw_weights(network).eval()
    embeddings = draw_weights(
        nn.ParameterDict({n: torch.zeros(8, WIDTH) for n in ("s", "t", "o", "ps", "pt")})
    )
    embeddings = embeddings.double()
    values: dict[str, Any] = saved_as(names, network, pre)
    source, target = torch.tensor([[2, 4, 7, 5, 3]]), torch.tensor([[2, 6, 4]])
    inputs = []
    output, scale, told = embeddings["o"], math.sqrt(WIDTH), Told(heads=3)
    if layout == "jadore801120":
        output, scale, told = (
            embeddings["t"] * WIDTH**-0.5,
            1.0,
            Told(),
        )  # the output is the target's embedding
    for ids, key in ((source, "s"), (target, "t")):
        positions = embeddings["p" + key] if layout == "bentrevett" else sinusoids(8, WIDTH).double()
        x = embeddings[key][ids] * scale + positions[: ids.shape[1]]
        if layout == "jadore801120":
            norm = draw_weights(nn.LayerNorm(WIDTH)).double()
            x, side = norm(x), "encoder" if key == "s" else "decoder"
            values |= {f"{side}.layer_norm.{kind}": value for kind, value in norm.named_parameters()}
        inputs.append(x)
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    expected = network(*inputs, tgt_mask=mask) @ output.t()
    values |= {f"{names['source']}.weight": embeddings["s"], f"{names['target']}.weight": embeddings["t"]}
    values[f"{names['output']}.weight"] = embeddings["t" if layout == "jadore801120" else "o"]
    if layout == "bentrevett":
        values |= {
            f"{side}.pos_embedding.weight": embeddings["p" + side[0].replace("e", "s").replace("d", "t")]
            for side in ("encoder", "decoder")
        }
    values = {name: value.detach() for name, value in values.items()}
    saved: Any = values
    if layout == "jadore801120":
        shape = {"n_head": 3, "d_k": 4, "d_v": 4, "d_model": WIDTH, "scale_emb_or_prj": "prj"}
        saved = {"model": values, "settings": argparse.Namespace(proj_share_weight=True, **shape)}
    spelled = {"hkproj": "[PAD] [UNK] [SOS] [EOS]", "bentrevett": "<pad> <unk> <sos> <eos>"}
    words = [*spelled.get(layout, "<blank> <unk> <s> </s>").split(), *"abcd"]
    checkpoint = read_checkpoint(str(write(tmp_path / "run", saved, words)), told)
    assert_float32(expected, lambda model: model(source, target), checkpoint.model)
    assert checkpoint.notes[0].startswith("Recognised")
