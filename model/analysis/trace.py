"""What every sub-layer reads and adds while the model reads one sentence pair: the basis of the instruments.

Axis letters: S source length, T target length, Q rows of a stack (S or T), N keys, H heads, K head width,
D d_model, L layers, P parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.errors import Sentence, UserError
from model.network.attention import MultiHeadAttention
from model.network.config import ModelConfig
from model.network.layers import DecoderLayer, Embedding, EncoderLayer, Residual, SubLayerPass
from model.network.masks import causal_mask
from model.network.recurrence import Recurrence, shares
from model.network.transformer import Transformer, eval_mode

SubLayerKind = Literal["encoder", "decoder", "cross", "feed forward"]


class Attending(NamedTuple):
    """What the heads of one attention do, or the memories in the place of the decoder's self-attention."""

    module: MultiHeadAttention
    query: Float[Tensor, "H Q K"]
    key: Float[Tensor, "H N K"]
    value: Float[Tensor, "H N K"]
    allowed: Bool[Tensor, "Q N"]
    weights: Float[Tensor, "H Q N"]
    outputs: Float[Tensor, "H Q K"]  # weights times values, before W_O; of a memory, where positive

    @property
    def kept(self) -> Float[Tensor, "H Q N K"] | None:
        """The share of each value in what a memory gives, for every dimension; None for an attention.

        What is negative in the memory is not given, so none of its parts is.
        """
        if not isinstance(self.module, Recurrence):
            return None
        return shares(self.key) * (self.outputs > 0)[:, :, None]

    def added(self) -> Float[Tensor, "Q N D"]:
        """What each key adds to each row through all heads; the bias of W_O is left out."""
        write, kept = output_rows(self.module), self.kept
        if kept is None:
            return torch.einsum("hqn,hnd->qnd", self.weights, self.value @ write)
        return torch.einsum("hqnk,hkd->qnd", kept * self.value[:, None], write)

    def added_by_heads(self, rows: Int[Tensor, " E"], keys: Int[Tensor, " E"]) -> Float[Tensor, "H E D"]:
        """What these keys add to these rows, for each head."""
        write, kept = output_rows(self.module), self.kept
        if kept is None:
            return self.weights[:, rows, keys, None] * (self.value @ write)[:, keys]
        return (kept[:, rows, keys] * self.value[:, keys]) @ write

    def norms(self) -> Float[Tensor, "H Q N"]:
        """||a f(x)||: the norm of what each key adds to each row, for each head."""
        write, kept = output_rows(self.module), self.kept
        if kept is None:  # it is a ||f(x)||, without a vector for each cell
            norms: Tensor = (self.value @ write).norm(dim=-1)
            return self.weights * norms[:, None]
        parts = zip(kept * self.value[:, None], write, strict=True)
        return torch.stack([(part @ rows).norm(dim=-1) for part, rows in parts])  # one head after the other

    @property
    def bias(self) -> Float[Tensor, "H Q N"]:
        """What relative positions add to the scores; zeros without them."""
        bias = self.module.bias(*self.allowed.shape)
        return torch.zeros_like(self.weights) if bias is None else bias


class SubLayer(NamedTuple):
    """One sub-layer while it reads a sentence."""

    kind: SubLayerKind
    layer: int
    residual: Residual
    x: Float[Tensor, "Q D"]  # the residual stream that it reads
    y: Float[Tensor, "Q D"]  # what it adds
    heads: Attending | None  # None for a feed-forward network

    @property
    def after(self) -> Float[Tensor, "Q D"]:
        """The residual stream after the sub-layer."""
        return self.residual.post(self.x[None], self.y[None])[0]


@dataclass(frozen=True)
class Stack:
    """The encoder or the decoder while it reads a sentence."""

    tokens: Float[Tensor, "Q D"]  # embeddings times sqrt(D)
    positions: Float[Tensor, "Q D"]
    bias: Float[Tensor, " D"]  # of the norm after the embedding, which is frozen in the two above
    sublayers: tuple[SubLayer, ...]  # in the order of the computation
    norm: nn.Module  # after the last layer: a norm with pre-norm, nn.Identity with post-norm

    @property
    def layers(self) -> Float[Tensor, "L Q D"]:
        """The residual stream after each layer."""
        return torch.stack([one.after for one in self.sublayers if one.heads is None])

    @property
    def x(self) -> Float[Tensor, "Q D"]:
        """The residual stream after the last layer."""
        return self.sublayers[-1].after

    @property
    def hidden(self) -> Float[Tensor, "Q D"]:
        """The output of the stack."""
        return cast(Tensor, self.norm(self.x))


class Trace(NamedTuple):
    """Both stacks while the model reads one sentence pair."""

    encoder: Stack
    decoder: Stack

    def attention(self, kind: str, layer: int) -> tuple[Stack, int, Attending]:
        """The stack that has this attention, the index of the sub-layer in it, and what its heads do."""
        stack = self.encoder if kind == "encoder" else self.decoder
        place = next(i for i, one in enumerate(stack.sublayers) if (one.kind, one.layer) == (kind, layer))
        return stack, place, cast(Attending, stack.sublayers[place].heads)

    def attentions(self, kind: str) -> list[Attending]:
        """What the heads of this kind do, for each layer."""
        stack = self.encoder if kind == "encoder" else self.decoder
        return [cast(Attending, one.heads) for one in stack.sublayers if one.kind == kind]


@torch.inference_mode()
def trace(model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"]) -> Trace:
    """Run the model in eval mode, on the explicit path, and name every intermediate result.

    `source` ends with </s> and `read` begins with <s>, both without padding.
    """
    with eval_mode(model):
        encoded = model.encode(source[None], explicit=True)
        decoded = model.decode(read[None], encoded, explicit=True)
    everything = torch.ones(len(read), len(source), dtype=torch.bool, device=source.device)
    masks = {
        "encoder": everything[:1].expand(len(source), -1),
        "decoder": causal_mask(len(read), len(read), read.device),
        "cross": everything,
    }
    encoder = _stack(model.source_embedding, source, model.encoder, encoded.sublayers, masks)
    decoder = _stack(model.target_embedding, read, model.decoder, decoded.sublayers, masks)
    return Trace(Stack(*encoder, model.encoder_norm), Stack(*decoder, model.decoder_norm))


def _stack(
    embedding: Embedding,
    ids: Int[Tensor, " Q"],
    blocks: nn.ModuleList,
    passes: Sequence[SubLayerPass],
    masks: Mapping[str, Tensor],
) -> tuple[Tensor, Tensor, Tensor, tuple[SubLayer, ...]]:
    """The first four fields of a `Stack`."""
    sublayers = []
    parts = [(layer, *part) for layer, block in enumerate(blocks) for part in _parts(block)]
    for (layer, kind, residual, module), one in zip(parts, passes, strict=True):
        heads = None
        if module is not None and one.attention is not None:
            _, query, (key, value), weights, outputs = one.attention
            weights, outputs = cast(Tensor, weights)[0], cast(Tensor, outputs)[0]
            heads = Attending(module, query[0], key[0], value[0], masks[kind], weights, outputs)
        sublayers.append(SubLayer(kind, layer, residual, one.x[0], one.y[0], heads))
    vectors: Tensor = embedding.tokens(ids)
    tokens, positions = vectors * math.sqrt(vectors.shape[-1]), embedding.table(len(ids))[: len(ids)]
    bias = torch.zeros_like(tokens[0])
    if not isinstance(embedding.norm, nn.Identity):
        norm = FrozenNorm.at(embedding.norm, tokens + positions)
        tokens, positions, bias = norm.image(tokens), norm.image(positions), norm.bias
    return tokens, positions, bias, tuple(sublayers)


def _parts(block: nn.Module) -> list[tuple[SubLayerKind, Residual, MultiHeadAttention | None]]:
    """The sub-layers of one layer, in the order of the computation."""
    block = cast(EncoderLayer | DecoderLayer, block)
    last: tuple[SubLayerKind, Residual, None] = ("feed forward", block.feed_forward_residual, None)
    if isinstance(block, EncoderLayer):
        return [("encoder", block.self_residual, block.self_attention), last]
    return [
        ("decoder", block.self_residual, block.self_attention),
        ("cross", block.cross_residual, block.cross_attention),
        last,
    ]


# The residual stream as a sum of parts


class FrozenNorm(NamedTuple):
    """A norm with the mean and scale of one input: it is then linear, plus its bias.

    LN(x) = (x - mean(x)) * weight / sigma + bias; sigma stays the input's. The sum of the images of
    the parts of x, plus the bias, is LN(x) exactly. RMSNorm has neither mean nor bias.
    """

    scale: Float[Tensor, "*Q D"]  # weight / sigma
    bias: Float[Tensor, " D"]
    centred: bool  # whether the mean is taken off

    @classmethod
    def at(cls, norm: nn.Module, x: Float[Tensor, "*Q D"]) -> FrozenNorm:
        """Freeze the norm at x."""
        norm = cast(nn.LayerNorm | nn.RMSNorm, norm)
        centred = isinstance(norm, nn.LayerNorm)
        square = x.var(-1, unbiased=False, keepdim=True) if centred else x.square().mean(-1, keepdim=True)
        sigma = (square + cast(float, norm.eps)).sqrt()
        bias = norm.bias if isinstance(norm, nn.LayerNorm) else torch.zeros_like(norm.weight)
        return cls(norm.weight / sigma, bias, centred)

    def image(self, part: Float[Tensor, "*Q D"]) -> Float[Tensor, "*Q D"]:
        """The linear map of a part."""
        return self._centre(part) * self.scale

    def pulled_back(self, direction: Float[Tensor, "*Q D"]) -> Float[Tensor, "*Q D"]:
        """The direction whose product with a part equals the product of `direction` with the part's image."""
        return self._centre(direction * self.scale)

    def _centre(self, x: Float[Tensor, "*Q D"]) -> Float[Tensor, "*Q D"]:
        return x - x.mean(-1, keepdim=True) if self.centred else x


class Part(NamedTuple):
    """Something that writes to the residual stream."""

    name: Literal["token", "position", "head", "feed forward", "bias"]
    kind: str = ""  # of a head
    layer: int | None = None  # of a head or a feed-forward network
    head: int | None = None


def output_rows(module: MultiHeadAttention) -> Float[Tensor, "H K D"]:
    """W_O of each head: a head's output times it is what the head adds to the stream."""
    heads = module.output.weight.view(len(module.output.weight), module.n_heads, -1)
    return heads.permute(1, 2, 0)


def parts_before(stack: Stack, place: int, row: int) -> tuple[list[Part], Float[Tensor, "P D"]]:
    """What wrote the residual stream of one row before sub-layer `place`; the vectors sum to the stream.

    Earlier heads and feed-forward networks are parts of their own; all biases together are the last part.
    With post-norm the earlier norms are frozen. `place` may be the number of sub-layers: the whole stack.
    """
    names, vectors = [Part("token"), Part("position")], [stack.tokens[row], stack.positions[row]]
    bias = stack.bias
    for one in stack.sublayers[:place]:
        if one.heads is None:
            names.append(Part("feed forward", "", one.layer))
            vectors.append(one.y[row])
        else:
            names += [Part("head", one.kind, one.layer, head) for head in range(len(one.heads.outputs))]
            vectors += (one.heads.outputs[:, row, None] @ output_rows(one.heads.module))[:, 0].unbind()
            bias = bias + one.heads.module.output.bias
        if not one.residual.pre_norm:
            norm = FrozenNorm.at(one.residual.norm, one.x[row] + one.y[row])
            vectors = list(norm.image(torch.stack(vectors)).unbind())
            bias = norm.image(bias) + norm.bias
    return [*names, Part("bias")], torch.stack([*vectors, bias])


def parts_read(stack: Stack, place: int, row: int) -> tuple[list[Part], Float[Tensor, "P D"]]:
    """As `parts_before`, after the norm through which sub-layer `place` reads the stream, frozen.

    At the end of the stack this is the final norm, so the vectors sum to the output.
    """
    names, vectors = parts_before(stack, place, row)
    if place < len(stack.sublayers):
        one = stack.sublayers[place]
        norm, x = (one.residual.norm if one.residual.pre_norm else nn.Identity()), one.x[row]
    else:
        norm, x = stack.norm, stack.x[row]
    if isinstance(norm, nn.Identity):
        return names, vectors
    frozen = FrozenNorm.at(norm, x)
    vectors = frozen.image(vectors)
    vectors[-1] += frozen.bias
    return names, vectors


def norms_after(stack: Stack, place: int, row: int) -> list[FrozenNorm]:
    """The norms that what sub-layer `place` adds in this row passes up to the stack's output, frozen."""
    norms = [
        FrozenNorm.at(one.residual.norm, one.x[row] + one.y[row])
        for one in stack.sublayers[place:]
        if not one.residual.pre_norm
    ]
    if not isinstance(stack.norm, nn.Identity):
        norms.append(FrozenNorm.at(stack.norm, stack.x[row]))
    return norms


def check_attends(config: ModelConfig, kind: str) -> None:
    """Raise UserError for a kind that is a running memory, which has neither queries nor keys."""
    if kind == "decoder" and config.is_recurrent:
        raise UserError(
            Sentence(
                "This decoder has no self-attention; it keeps a running memory, which has no queries and "
                "keys. Choose a head of the encoder or of cross-attention."
            )
        )


def check_step(step: int, read: Int[Tensor, " T"]) -> None:
    """Raise UserError if the translation does not have this step."""
    if not 0 <= step < len(read):
        raise UserError(
            Sentence("There is no step {step}; the last one is {last}.", step=step, last=len(read) - 1)
        )
