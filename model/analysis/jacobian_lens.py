"""The Jacobian lens: what all later layers make of a state on average, a matrix for each layer.

Gurnee et al. 2026, "Verbalizable Representations Form a Global Workspace in Language Models", for both
stacks of a translator: the encoder's matrices lead to its own last state.

Axis letters: S source length, T target length, Q rows of a stack (S or T), D d_model, J layers of
a stack before the last.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from model.analysis.lens import log_probabilities, nearness
from model.analysis.trace import trace
from model.errors import UserError
from model.files import open_tensors, write_atomically
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.masks import causal_mask
from model.network.transformer import Transformer, eval_mode
from model.storage.checkpoint import dequantise_rows, quantise_rows

LENS = "lens.safetensors"  # in the directory of the model
MAX_BYTES = 64 << 20  # of that file; a shipped model has 0.4 MB of it
STACKS = ("encoder", "decoder")
TOGETHER = 64  # rows of a Jacobian that one pass backwards computes
VERSION = 1
DIGITS = 3

logger = logging.getLogger("headlight")
Pair = tuple[Tensor, Tensor]  # ids of the source, and ids that the decoder reads
Translated = tuple[Tensor, Tensor, Tensor]  # the same, and what the decoder predicts


class Ways(TypedDict):
    """A figure for each layer, without the matrices and with them."""

    direct: list[float]
    jacobian: list[float]


class Measured(TypedDict):
    """What both lenses find over a corpus.

    `decoder`: how often the likeliest word is the word of the translation; `encoder`: how near the states
    are to the last ones (`lens.nearness`).
    """

    sentences: int
    encoder: Ways
    decoder: Ways
    version: NotRequired[int]  # of the file
    fitted: NotRequired[int]  # sentences whose mean Jacobian is the lens


class JacobianLens(NamedTuple):
    """What the file of a model holds.

    The encoder has no matrices there: what they make of its states is farther from the last ones than the
    states themselves, which `measured` says too.
    """

    decoder: Float[Tensor, "J D D"]  # of every layer but the last, to whose state they lead
    measured: Measured


def states(model: Transformer, pair: Pair) -> dict[str, list[Float[Tensor, "1 Q D"]]]:
    """The residual stream after the embedding and after each layer, by stack; every state has a gradient."""
    source, read = (ids.clone()[None] for ids in pair)
    with torch.no_grad():
        cross_kv = model.encode(source, explicit=True).cross_kv
    encoder = [model.source_embedding(source).detach().requires_grad_()]
    for block in model.encoder:
        encoder.append(cast(EncoderLayer, block)(encoder[-1], None, None, True).x)
    decoder = [model.target_embedding(read).detach().requires_grad_()]
    causal = causal_mask(read.shape[1], read.shape[1], read.device)
    for block, keys_values in zip(model.decoder, cross_kv, strict=True):
        decoder.append(cast(DecoderLayer, block)(decoder[-1], causal, keys_values, None, None, None, True).x)
    return {"encoder": encoder, "decoder": decoder}


def mean_jacobians(model: Transformer, pairs: Iterable[Pair]) -> dict[str, Tensor]:
    """The mean of d last state / d state over the rows of each sentence, then over sentences, by stack.

    The effect of a row is summed over all rows of the last state, as in the paper. The model is in eval mode.
    """
    means: dict[str, Tensor] = {}
    with torch.inference_mode(False), torch.enable_grad(), eval_mode(model):
        for sentences, pair in enumerate(pairs, start=1):
            for stack, found in states(model, pair).items():
                each = _jacobians(found)
                mean = means.get(stack, torch.zeros_like(each))
                means[stack] = mean + (each - mean) / sentences
    return means


def _jacobians(found: Sequence[Float[Tensor, "1 Q D"]]) -> Float[Tensor, "J D D"]:
    *inner, last = found[1:]
    width = last.shape[-1]
    if not inner:
        return last.new_zeros(0, width, width)
    outputs, blocks = torch.eye(width, dtype=last.dtype, device=last.device), []
    for start in range(0, width, TOGETHER):
        rows = outputs[start : start + TOGETHER]
        cotangents = rows[:, None, None].expand(-1, *last.shape[:2], -1)  # one output, in every row
        gradients = torch.autograd.grad(last, inner, cotangents, retain_graph=True, is_grads_batched=True)
        blocks.append(torch.stack([gradient[:, 0].mean(1) for gradient in gradients]))
    return torch.cat(blocks, 1)


@torch.inference_mode()
def measure(model: Transformer, matrices: Mapping[str, Tensor], pairs: Iterable[Translated]) -> Measured:
    words: dict[str, list[Tensor]] = {"direct": [], "jacobian": []}
    nearby: dict[str, list[Tensor]] = {"direct": [], "jacobian": []}
    for source, read, predicted in pairs:
        encoder, decoder = trace(model, source, read)
        for name, given in (("direct", {}), ("jacobian", matrices)):
            leading = log_probabilities(model, decoder, given.get("decoder")).argmax(-1)
            words[name].append(leading == predicted)
            nearby[name].append(nearness(encoder, given.get("encoder")))
    return {
        "sentences": len(words["direct"]),
        "decoder": _ways(words),
        "encoder": _ways(nearby),
    }


def _ways(parts: Mapping[str, Sequence[Tensor]]) -> Ways:
    return {"direct": _means(parts["direct"]), "jacobian": _means(parts["jacobian"])}


def _means(parts: Sequence[Tensor]) -> list[float]:
    return [round(value, DIGITS) for value in torch.cat(list(parts), 1).double().mean(1).tolist()]


def save_lens(decoder: Float[Tensor, "J D D"], measured: Measured, directory: Path) -> Path:
    """Write the decoder's matrices in 8 bits, and what was measured, into the directory of the model."""
    path = directory / LENS
    named = {f"decoder.{layer}": each for layer, each in enumerate(decoder)}
    metadata = {"lens": json.dumps({"version": VERSION, **measured})}
    write_atomically(path, lambda part: save_file(quantise_rows(named), part, metadata))
    return path


def load_lens(directory: Path | None, model: Transformer) -> JacobianLens | None:
    """What `save_lens` wrote; None without such a file that fits the model.

    The file may come from a stranger with the model.
    """
    if directory is None or not (directory / LENS).is_file():
        return None
    weight = model.output.weight
    shape = (weight.shape[-1], weight.shape[-1])
    try:
        with open_tensors(directory / LENS, MAX_BYTES) as file:
            measured = _checked(json.loads(file.metadata()["lens"]), model)
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        matrices = dequantise_rows(stored)
        found = [matrices[f"decoder.{layer}"].to(weight) for layer in range(len(model.decoder) - 1)]
        if not all(each.shape == shape and each.isfinite().all() for each in found):
            raise ValueError("matrices that do not fit the model")
        return JacobianLens(torch.stack(found), measured)
    except (UserError, SafetensorError, OSError, LookupError, TypeError, ValueError, RuntimeError) as error:
        logger.warning("lens: %s", error)
        return None


def _checked(measured: Any, model: Transformer) -> Measured:
    """What the page shows of the figures. Raises an error if it could not."""
    counts = {name: measured[name] for name in ("version", "sentences", "fitted")}
    if counts["version"] != VERSION or not all(type(count) is int for count in counts.values()):
        raise ValueError("another version")
    found = {stack: {way: measured[stack][way] for way in ("direct", "jacobian")} for stack in STACKS}
    for stack, ways in found.items():
        for values in ways.values():
            numbers = [value for value in values if type(value) in (int, float) and -1 <= value <= 1]
            if len(numbers) != len(values) or len(values) != len(getattr(model, stack)):
                raise ValueError("figures of another model")
    return cast(Measured, counts | found)
