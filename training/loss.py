"""Label-smoothed cross-entropy over real tokens, computed in chunks to save memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.network.masks import padding_mask
from model.network.transformer import Decoded, Encoded, Transformer
from model.tokenizer import PAD_ID
from training.corpus.batching import Batch

CHUNK = 512  # tokens whose logits are in memory at the same time


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
        uniform = smoothing / len(weight)
        # All chunks use the same memory: new pages cost more than the arithmetic on them.
        shape = min(CHUNK, len(hidden)), len(weight)
        logits_memory = torch.empty(shape, device=hidden.device, dtype=torch.float32)
        narrow_memory = torch.empty(shape, device=hidden.device, dtype=dtype)
        for start in range(0, len(hidden), CHUNK):
            rows = slice(start, start + CHUNK)
            x, gold = hidden[rows].to(dtype), labels[rows, None]
            narrow_logits = torch.mm(x, narrow.T, out=narrow_memory[: len(x)])
            logits = logits_memory[: len(x)].copy_(narrow_logits)
            # Loss and softmax share one pass of exp; torch's logsumexp would need another.
            wanted = (1 - smoothing) * logits.gather(1, gold)
            if smoothing:
                wanted += smoothing * logits.mean(-1, keepdim=True)
            highest = logits.amax(-1, keepdim=True)
            softmax = logits.sub_(highest).exp_()
            normaliser = softmax.sum(-1, keepdim=True)
            total += (normaliser.log() + highest - wanted).sum()
            if not any(ctx.needs_input_grad[:2]):
                continue
            # d loss / d logits = softmax - smoothed one-hot
            gradient = softmax.mul_(1 / normaliser)
            if smoothing:
                gradient.sub_(uniform)
            gradient.scatter_add_(1, gold, torch.full_like(wanted, smoothing - 1))
            narrow_gradient = narrow_logits.copy_(gradient)
            d_hidden[rows] = narrow_gradient @ narrow
            d_weight += narrow_gradient.T @ x
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
    mask: Bool[Tensor, "B 1 S"] | None,
    links: Float[Tensor, "B T S"],
) -> Float[Tensor, ""]:
    """Cross-entropy of one head's attention to the links, in nats, summed over the rows that have links.

    Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models", equation 4; here a
    row learns the links of the token that it reads (Chen et al. 2020), so it sees that token.
    """
    scores = (query @ key.mT).float() * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    loss: Tensor = -(links * scores.log_softmax(-1)).sum()
    return loss


class LossTerms(NamedTuple):
    """Losses of a batch in nats, each summed over its target tokens."""

    translation: Float[Tensor, ""]
    alignment: Float[Tensor, ""]  # 0 without links


class SequenceLoss(nn.Module):
    """Model and loss in one module, because the wrapper of a parallel run must see every gradient."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, batch: Batch) -> LossTerms:
        """Summed losses of the real target tokens; without smoothing in eval mode."""
        source = batch.source
        mask = None if bool((source != PAD_ID).all()) else padding_mask(source, PAD_ID)
        encoded = self.model.encode(source, mask)
        decoded = self.model.decode(batch.read, encoded)
        real = batch.labels != PAD_ID
        smoothing = self.smoothing if self.training else 0.0
        output = self.model.output.weight
        translation = token_loss(decoded.hidden[real], output, batch.labels[real], smoothing)
        return LossTerms(translation, self._alignment(batch, encoded, decoded))

    def _alignment(self, batch: Batch, encoded: Encoded, decoded: Decoded) -> Float[Tensor, ""]:
        taught = self.model.config.taught_head
        if batch.links is None or taught is None:
            return decoded.hidden.new_zeros(())
        layer, head = taught
        query, key = decoded.cross_queries[layer][:, head], encoded.cross_kv[layer].key[:, head]
        mask = None if encoded.mask is None else encoded.mask[:, 0]
        return alignment_loss(query, key, mask, batch.links)
