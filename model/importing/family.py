"""Plan: what the module of a model family returns to the importer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from model.importing.files.tokenizers import Side
from model.importing.files.weights import Weights
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.tokenizer import BOS_ID

NEVER_LOGIT = -1e4  # the bias of tokens that are never predicted; e^-10000 is 0, and 16 bits can hold it


@dataclass(frozen=True)
class Plan:
    """How a checkpoint becomes a model of ours."""

    config: ModelConfig
    source: Side
    target: Side
    convert: Callable[[Weights, Transformer], Iterator[tuple[str, Tensor]]]  # our weights with their names
    prompts: tuple[str, ...] = ()  # beginnings of a text that name a task, as T5 reads them
    languages: tuple[str, str] | None = None  # codes of source and target; None: those that the files name


def tied_config(shape: ModelConfig, side: Side, scaled: bool) -> ModelConfig:
    """The config of a model of this shape with one matrix for both embeddings and the output."""
    size = len(side.order)
    return replace(
        shape,
        source_vocabulary=size,
        target_vocabulary=size,
        # Embeddings that are not scaled are divided by sqrt(d_model); then the output is a matrix of its own.
        separate_output=not scaled,
        output_bias=True,  # a <s> that is the copy of another token is never predicted
    )


def output_bias(weights: Weights, side: Side) -> Tensor:
    """The bias of the output in our order; a <s> that is the copy of another token is never predicted."""
    size = int(side.order.max()) + 1
    bias = weights.take("final_logits_bias", (1, size), default=0.0)[0][side.order]
    if (side.order == side.order[BOS_ID]).sum() > 1:
        bias[BOS_ID] = NEVER_LOGIT
    return bias
