"""Label-smoothed cross-entropy over real tokens, computed in chunks to save memory."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.network.masks import padding_mask
from model.network.transformer import Transformer
from model.text.tokenizer import PAD_ID
from training.corpus.batching import Batch

CHUNK, GPU_CHUNK = 512, 8192  # tokens whose logits are in memory at the same time; a GPU needs long products


@functools.cache
def compiled_kernels(device: torch.device) -> ModuleType | None:
    """`training.fused`, or None on a GPU and where numba or torch's threads cannot be used."""
    if device.type != "cpu":
        return None
    try:
        from training import fused  # not earlier: this takes a second, ten when it is compiled
    except ImportError:
        return None
    return fused


def cross_entropy_(
    logits: Float[Tensor, "N V"], labels: Int[Tensor, " N"], smoothing: float
) -> Float[Tensor, ""]:
    """The summed label-smoothed loss in nats; its gradient replaces the logits. Labels below 0 add 0."""
    counted = labels >= 0
    gold, wide = labels.clamp_min(0)[:, None], logits.float()
    # Loss and softmax share one pass of exp; torch's logsumexp would need another.
    wanted = (1 - smoothing) * wide.gather(1, gold)
    if smoothing:
        wanted += smoothing * wide.mean(-1, keepdim=True)
    highest = wide.amax(-1, keepdim=True)
    softmax = (wide - highest).exp_()
    normaliser = softmax.sum(-1, keepdim=True)
    # d loss / d logits = softmax - smoothed one-hot
    gradient = softmax.mul_(1 / normaliser).sub_(smoothing / logits.shape[1])
    gradient.scatter_add_(1, gold, torch.full_like(wanted, smoothing - 1))
    gradient[~counted] = 0
    logits.copy_(gradient)
    return (normaliser.log() + highest - wanted)[counted].sum()


class LinearCrossEntropy(torch.autograd.Function):
    """Output projection and label-smoothed cross-entropy in one (Szegedy et al. 2016, section 7).

    The gradients of a chunk are computed together with its logits, so no logit is computed twice
    or stored. torch.nn.functional.linear_cross_entropy supports chunks only without smoothing.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        labels: Int[Tensor, " N"],
        smoothing: float,
        dtype: torch.dtype,
    ) -> Float[Tensor, ""]:
        """Sum over N tokens, in nats. Products run in `dtype`, everything else in float32."""
        narrow = weight.detach().to(dtype)
        d_hidden = torch.empty_like(hidden, dtype=torch.float32)
        d_weight = torch.zeros_like(weight, dtype=torch.float32)
        total = torch.zeros((), device=hidden.device)
        # All chunks use the same memory: new pages cost more than the arithmetic on them.
        chunk = CHUNK if hidden.device.type == "cpu" else GPU_CHUNK
        memory = torch.empty(min(chunk, len(hidden)), len(weight), device=hidden.device, dtype=dtype)
        for start in range(0, len(hidden), chunk):
            rows = slice(start, start + chunk)
            x, gold = hidden[rows].to(dtype), labels[rows]
            logits = torch.mm(x, narrow.T, out=memory[: len(x)])
            total += cross_entropy_(logits, gold, smoothing)
            if any(ctx.needs_input_grad[:2]):
                d_hidden[rows] = logits @ narrow
                d_weight += logits.T @ x
        ctx.save_for_backward(d_hidden.to(hidden.dtype), d_weight.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """Scale the gradients that forward computed."""
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * gradients[0], d_weight * gradients[0], None, None, None


def token_loss(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    labels: Int[Tensor, " N"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """Label-smoothed cross-entropy in nats, summed over N real tokens; exclude padding before."""
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    if not torch.is_grad_enabled():
        weight = weight.detach()  # otherwise its gradient would be computed and never used
    loss: Tensor = LinearCrossEntropy.apply(hidden, weight, labels, smoothing, dtype)  # type: ignore[no-untyped-call]
    return loss


def alignment_loss(
    query: Float[Tensor, "B T K"],
    key: Float[Tensor, "B S K"],
    mask: Bool[Tensor, "B 1 S"],
    links: Float[Tensor, "B T S"],
) -> Float[Tensor, ""]:
    """Cross-entropy of one head's attention to the links, in nats, summed over the rows that have links.

    Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models", equation 4.
    Unlike there, a row learns the links of the token that it reads and not of the token that it predicts
    (Chen et al. 2020).
    """
    scores = (query @ key.mT).float() * query.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    loss: Tensor = -(links * scores.log_softmax(-1)).sum()
    return loss


class LossTerms(NamedTuple):
    """Losses of a batch in nats, each summed over its target tokens."""

    translation: Float[Tensor, ""]
    alignment: Float[Tensor, ""]  # 0 without links


class DecoderOutput(NamedTuple):
    """What the losses of a batch read. A label below 0 does not count."""

    hidden: Float[Tensor, "N D"]
    labels: Int[Tensor, " N"]
    taught: tuple[Float[Tensor, "B T K"], Float[Tensor, "B S K"]] | None  # query and key of that head


def decoder_output(model: Transformer, batch: Batch) -> DecoderOutput:
    """The decoder's output at the real target tokens."""
    source = batch.source
    mask = None if bool((source != PAD_ID).all()) else padding_mask(source, PAD_ID)
    encoded = model.encode(source, mask)
    decoded = model.decode(batch.read, encoded)
    real = batch.labels != PAD_ID
    taught = None
    if model.config.taught_head is not None:
        layer, head = model.config.taught_head
        taught = decoded.cross_queries[layer][:, head], encoded.cross_kv[layer].key[:, head]
    return DecoderOutput(decoded.hidden[real], batch.labels[real], taught)


class SequenceLoss(nn.Module):
    """Model and loss in one module, because the wrapper of a parallel run must see every gradient."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, batch: Batch) -> LossTerms:
        """Summed losses of the real target tokens; without smoothing in eval mode."""
        fused = compiled_kernels(batch.source.device)
        if self.training and fused and not self.model.config.only_torch:
            output = DecoderOutput(*fused.forward_pass(self.model, batch))
        else:
            output = decoder_output(self.model, batch)
        hidden, weight, bias = output.hidden, self.model.output.weight, self.model.output.bias
        if bias is not None:  # as one more column of the matrix, whose input is always 1
            hidden = torch.cat((hidden, hidden.new_ones(len(hidden), 1)), 1)
            weight = torch.cat((weight, bias[:, None]), 1)
        smoothing = self.smoothing if self.training else 0.0
        translation = token_loss(hidden, weight, output.labels, smoothing)
        if batch.links is None or output.taught is None:
            return LossTerms(translation, translation.new_zeros(()))
        mask = (batch.source != PAD_ID)[:, None]
        return LossTerms(translation, alignment_loss(*output.taught, mask, batch.links))
