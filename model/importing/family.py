"""Family: what tells one family of models from another, and Plan: how one of its checkpoints becomes ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from model.importing.files.settings import Settings, learned_positions, read_settings, shape_of
from model.importing.files.tokenizers import Side, Sides
from model.importing.files.weights import Weights
from model.network.config import ModelConfig, Shape
from model.network.transformer import Transformer
from model.text.tokenizer import BOS_ID

NEVER_LOGIT = -1e4  # the bias of tokens that are never predicted; e^-10000 is 0, and 16 bits can hold it
# Settings that change the arithmetic, with the only value that Headlight computes.
REQUIRED: Settings = {"is_encoder_decoder": True, "quantization_config": None}


@dataclass(frozen=True)
class Plan:
    """How a checkpoint becomes a model of ours."""

    config: ModelConfig
    sides: Sides
    convert: Callable[[Weights, Transformer], Iterator[tuple[str, Tensor]]]  # our weights with their names
    prompts: tuple[str, ...] = ()  # beginnings of a text that name a task, as T5 reads them


@dataclass(frozen=True)
class Family:
    """The differences between one family of models and the others."""

    title: str  # in the card
    defaults: Settings  # settings that are read, with their values where config.json leaves them out
    shape: Shape  # arguments of ModelConfig that are the same in every model
    plan: Callable[[Path, Settings, Shape], Plan]  # from the settings and the shape
    required: Settings = field(default_factory=Settings)  # besides REQUIRED

    def read_plan(self, directory: Path) -> Plan:
        """Read what describes a checkpoint. Raises UserError."""
        return self.plan(
            directory, read_settings(directory, self.defaults, REQUIRED | self.required), self.shape
        )


def tied(
    read_sides: Callable[[Path, Settings], Sides],
    convert: Callable[[Weights, Transformer, Side, bool], Iterator[tuple[str, Tensor]]],
) -> Callable[[Path, Settings, Shape], Plan]:
    """How a family plans whose models have one matrix for both embeddings and the output.

    `convert` gets the target side, whose `order` says which row of the matrix is which token, and whether
    embeddings are scaled.
    """

    def plan(directory: Path, values: Settings, shape: Shape) -> Plan:
        size, scaled = values["vocab_size"], values["scale_embedding"]
        if shape.get("positions") == "learned":
            shape = shape | {"n_positions": learned_positions(values, directory)}
        # Check the sizes before anything of such a size is read.
        config = ModelConfig(size + 1, size + 1, **(shape | shape_of(values)))
        sides = read_sides(directory, values)
        return Plan(
            tied_config(config, sides.target, scaled),
            sides,
            lambda weights, model: convert(weights, model, sides.target, scaled),
        )

    return plan


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
