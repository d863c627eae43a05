"""What the states after each layer say: by the output matrix alone, or through the Jacobian lens first.

Axis letters: S source length, T target length, Q rows of a stack (S or T), L layers of a stack, M decoder
layers, J layers before the last, D d_model, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.trace import Stack, trace
from model.network.transformer import Transformer

N_WORDS = 5  # likeliest words of each layer and step


@dataclass(frozen=True)
class Lens:
    """The words that each layer and step leads to; N likeliest, the first leads."""

    words: Int[Tensor, "M T N"]  # token ids, the likeliest first
    log_probabilities: Float[Tensor, "M T N"]  # of `words`, natural logarithm
    chosen: Float[Tensor, "M T"]  # log-probability of the word of the translation
    leads_from: tuple[int | None, ...]  # T: the first layer from which on the word of the translation leads
    # and stays, counted from 0; None where the last layer prefers another word


def lens(
    model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], predicted: Int[Tensor, " T"]
) -> Lens:
    """Apply the final norm and the output matrix to the residual stream after each decoder layer.

    nostalgebraist 2020, "interpreting GPT: the logit lens"; here for the decoder of a translator. With
    post-norm each layer ends with its own norm, and there is no final norm. The last layer says exactly
    the words of the model. Limit: early layers need not write in the output's basis, so an
    unlikely word there does not prove that the model does not know it yet (Belrose et al. 2023,
    "Eliciting Latent Predictions from Transformers with the Tuned Lens"). `source` ends with </s>,
    `read` begins with <s>, and row t predicts `predicted[t]`; none has padding.
    """
    return words_of(model, trace(model, source, read).decoder, predicted)


@torch.inference_mode()
def words_of(
    model: Transformer,
    decoder: Stack,
    predicted: Int[Tensor, " T"],
    matrices: Float[Tensor, "J D D"] | None = None,
) -> Lens:
    """As `lens`; `matrices` of a Jacobian lens first carry the states to the last layer."""
    found = log_probabilities(model, decoder, matrices)
    best = found.topk(min(N_WORDS, found.shape[-1]), dim=-1)
    chosen = found.gather(-1, predicted.expand(len(found), -1)[..., None])[..., 0]
    leads = best.indices[..., 0] == predicted
    stays = leads.flip(0).cumprod(0).sum(0).tolist()  # the number of last layers in which it leads
    return Lens(
        best.indices, best.values, chosen, tuple(len(found) - count if count else None for count in stays)
    )


@torch.inference_mode()
def log_probabilities(
    model: Transformer, decoder: Stack, matrices: Float[Tensor, "J D D"] | None = None
) -> Float[Tensor, "M T V"]:
    """Log-probabilities of all words after each decoder layer, natural logarithm."""
    logits: Tensor = model.output(decoder.norm(carried(decoder, matrices)))
    return logits.log_softmax(-1)


@torch.inference_mode()
def nearness(stack: Stack, matrices: Float[Tensor, "J D D"] | None = None) -> Float[Tensor, "L Q"]:
    """How near each state is to the last state of its row: the cosine of both after the final norm."""
    found: Tensor = stack.norm(carried(stack, matrices))
    return F.cosine_similarity(found, found[-1:], dim=-1)


def carried(stack: Stack, matrices: Float[Tensor, "J D D"] | None) -> Float[Tensor, "L Q D"]:
    """The states after each layer, all but the last times their matrices."""
    states = stack.layers
    return states if matrices is None else torch.cat((states[:-1] @ matrices.mT, states[-1:]))
