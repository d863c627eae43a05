"""The layouts of models that people trained themselves: one table each, of names and what tells it apart.

A line of `names` is a regular expression of their names, without .weight and .bias, and our name. A part of
`project` follows our name: its queries, keys or values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from model.errors import UserError, quote_untrusted

# Names of weights as all lines expect them.
SPELLINGS = (
    (r"^(module\.|_orig_mod\.)+", ""),  # what DataParallel and torch.compile put before
    (r"in_proj_(weight|bias)$", r"in_proj.\1"),
    (r"\.(alpha|a_2)$", ".weight"),
    (r"\.b_2$", ".bias"),
    (r"pos_embedding\.weight$", "pos_embedding"),
)
PARTS = {"q": 0, "0": 0, "k": 1, "1": 1, "v": 2, "2": 2}
EMBEDDING = re.compile(r"(source|target)_embedding\.tokens\.weight")
NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Layout:
    """What tells the models of one tutorial or toolkit from others."""

    title: str
    mark: str  # a weight that only such models have
    names: str
    buffers: str  # names of what is computed and no weight
    shape: Mapping[str, Any]  # of ModelConfig, where neither the weights nor the settings say it
    specials: tuple[str, str, str, str]  # how its vocabulary spells <pad> <unk> <s> </s>
    sample_deviation: bool = False  # its norms divide by the deviation of a sample
    # Arguments of ModelConfig, and "scale" of the embedding and the output, from the settings in the file.
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _: {}
    assumed: str = ""  # what the file does not say
    names_of_both: tuple[tuple[re.Pattern[str], str], ...] = field(init=False)

    def __post_init__(self) -> None:
        lines = (line.split() for line in self.names.strip().splitlines())
        object.__setattr__(
            self, "names_of_both", tuple((re.compile(theirs), " ".join(ours)) for theirs, *ours in lines)
        )

    def rename(self, tensors: Mapping[str, Tensor], path: object) -> dict[str, Tensor]:
        """The weights under our names. Raises UserError for one that no line has."""
        found: dict[str, Tensor] = {}
        thirds: dict[str, dict[int, Tensor]] = {}
        for written, tensor in tensors.items():
            name = spelled(written)
            if re.fullmatch(self.buffers, name):
                continue
            stem, kind = re.fullmatch(r"(.*?)(\.weight|\.bias|)", name).groups()  # type: ignore[union-attr]
            ours = next(
                (m.expand(to) for each, to in self.names_of_both if (m := each.fullmatch(stem))), None
            )
            if ours is None or not tensor.is_floating_point():
                raise UserError(
                    f"{path} has the weight {quote_untrusted(written)}, which no model of {self.title} has; "
                    "name another layout with --layout."
                )
            ours, _, part = ours.partition(" ")
            if part:
                thirds.setdefault(ours + kind, {})[PARTS[part]] = tensor
            else:
                found[ours + kind] = tensor
        for name, parts in thirds.items():
            if len(parts) < 3:
                raise UserError(f"{path} lacks queries, keys or values of {name}; copy it again.")
            found[name] = torch.cat([parts[place] for place in range(3)])
        return found


def spelled(name: str) -> str:
    for pattern, replacement in SPELLINGS:
        name = re.sub(pattern, replacement, name)
    return name


def _jadore(values: Mapping[str, Any]) -> dict[str, Any]:
    settings = values.get("settings") or NOTHING
    heads = settings.get("n_head")
    if settings.get("d_k") != settings.get("d_v"):
        raise UserError("The model has values of another width than queries (d_v, d_k); Headlight needs one.")
    shared = settings.get("proj_share_weight", False)
    scaling = settings.get("scale_emb_or_prj", "prj") if shared else "none"
    width = float(settings.get("d_model") or 1)
    return {
        "n_heads": heads,
        "d_key": settings.get("d_k"),
        "scale": (1.0 if scaling == "emb" else width**-0.5, width**-0.5 if scaling == "prj" else 1.0),
    }


LAYOUTS: dict[str, Layout] = {
    "torch": Layout(
        "torch.nn.Transformer, as in the tutorial Language Translation",
        "src_tok_emb.embedding.weight",
        r"""
        src_tok_emb\.embedding source_embedding.tokens
        tgt_tok_emb\.embedding target_embedding.tokens
        generator output
        transformer\.(..coder)\.norm \1_norm
        transformer\.(..coder)\.layers\.(\d+)\.self_attn\.in_proj \1.\2.self_attention.project
        transformer\.(..coder)\.layers\.(\d+)\.self_attn\.out_proj \1.\2.self_attention.output
        transformer\.(..coder)\.layers\.(\d+)\.multihead_attn\.in_proj \1.\2.cross_attention.project
        transformer\.(..coder)\.layers\.(\d+)\.multihead_attn\.out_proj \1.\2.cross_attention.output
        transformer\.(..coder)\.layers\.(\d+)\.linear1 \1.\2.feed_forward.inner
        transformer\.(..coder)\.layers\.(\d+)\.linear2 \1.\2.feed_forward.outer
        transformer\.(..coder)\.layers\.(\d+)\.norm1 \1.\2.self_residual.norm
        transformer\.encoder\.layers\.(\d+)\.norm2 encoder.\1.feed_forward_residual.norm
        transformer\.decoder\.layers\.(\d+)\.norm2 decoder.\1.cross_residual.norm
        transformer\.decoder\.layers\.(\d+)\.norm3 decoder.\1.feed_forward_residual.norm
        """,
        r"positional_encoding\.pos_embedding",
        {"norm": "post"},
        ("<pad>", "<unk>", "<bos>", "<eos>"),
        assumed="norm_first and the activation are not in the file; Headlight takes False and relu.",
    ),
    "hkproj": Layout(
        "hkproj/pytorch-transformer",
        "projection_layer.proj.weight",
        r"""
        src_embed\.embedding source_embedding.tokens
        tgt_embed\.embedding target_embedding.tokens
        projection_layer\.proj output
        (..coder)\.norm \1_norm
        (..coder)\.layers\.(\d+)\.self_attention_block\.w_([qkv]) \1.\2.self_attention.project \3
        (..coder)\.layers\.(\d+)\.self_attention_block\.w_o \1.\2.self_attention.output
        (..coder)\.layers\.(\d+)\.cross_attention_block\.w_([qkv]) \1.\2.cross_attention.project \3
        (..coder)\.layers\.(\d+)\.cross_attention_block\.w_o \1.\2.cross_attention.output
        (..coder)\.layers\.(\d+)\.feed_forward_block\.linear_1 \1.\2.feed_forward.inner
        (..coder)\.layers\.(\d+)\.feed_forward_block\.linear_2 \1.\2.feed_forward.outer
        (..coder)\.layers\.(\d+)\.residual_connections\.0\.norm \1.\2.self_residual.norm
        encoder\.layers\.(\d+)\.residual_connections\.1\.norm encoder.\1.feed_forward_residual.norm
        decoder\.layers\.(\d+)\.residual_connections\.1\.norm decoder.\1.cross_residual.norm
        decoder\.layers\.(\d+)\.residual_connections\.2\.norm decoder.\1.feed_forward_residual.norm
        """,
        r"(src|tgt)_pos\.pe",
        {"norm": "pre"},
        ("[PAD]", "[UNK]", "[SOS]", "[EOS]"),
        sample_deviation=True,
    ),
    "annotated": Layout(
        "the Annotated Transformer",
        "src_embed.0.lut.weight",
        r"""
        src_embed\.0\.lut source_embedding.tokens
        tgt_embed\.0\.lut target_embedding.tokens
        generator\.proj output
        (..coder)\.norm \1_norm
        (..coder)\.layers\.(\d+)\.self_attn\.linears\.([012]) \1.\2.self_attention.project \3
        (..coder)\.layers\.(\d+)\.self_attn\.linears\.3 \1.\2.self_attention.output
        (..coder)\.layers\.(\d+)\.src_attn\.linears\.([012]) \1.\2.cross_attention.project \3
        (..coder)\.layers\.(\d+)\.src_attn\.linears\.3 \1.\2.cross_attention.output
        (..coder)\.layers\.(\d+)\.feed_forward\.w_1 \1.\2.feed_forward.inner
        (..coder)\.layers\.(\d+)\.feed_forward\.w_2 \1.\2.feed_forward.outer
        (..coder)\.layers\.(\d+)\.sublayer\.0\.norm \1.\2.self_residual.norm
        encoder\.layers\.(\d+)\.sublayer\.1\.norm encoder.\1.feed_forward_residual.norm
        decoder\.layers\.(\d+)\.sublayer\.1\.norm decoder.\1.cross_residual.norm
        decoder\.layers\.(\d+)\.sublayer\.2\.norm decoder.\1.feed_forward_residual.norm
        """,
        r"(src|tgt)_embed\.1\.pe",
        {"norm": "pre"},
        ("<blank>", "<unk>", "<s>", "</s>"),
        sample_deviation=True,
    ),
    "bentrevett": Layout(
        "bentrevett/pytorch-seq2seq, chapter 6",
        "encoder.tok_embedding.weight",
        r"""
        encoder\.tok_embedding source_embedding.tokens
        decoder\.tok_embedding target_embedding.tokens
        encoder\.pos_embedding source_embedding.positions
        decoder\.pos_embedding target_embedding.positions
        decoder\.fc_out output
        (..coder)\.layers\.(\d+)\.self_attention\.fc_([qkv]) \1.\2.self_attention.project \3
        (..coder)\.layers\.(\d+)\.self_attention\.fc_o \1.\2.self_attention.output
        (..coder)\.layers\.(\d+)\.encoder_attention\.fc_([qkv]) \1.\2.cross_attention.project \3
        (..coder)\.layers\.(\d+)\.encoder_attention\.fc_o \1.\2.cross_attention.output
        (..coder)\.layers\.(\d+)\.self_attn_layer_norm \1.\2.self_residual.norm
        (..coder)\.layers\.(\d+)\.enc_attn_layer_norm \1.\2.cross_residual.norm
        (..coder)\.layers\.(\d+)\.ff_layer_norm \1.\2.feed_forward_residual.norm
        (..coder)\.layers\.(\d+)\.positionwise_feedforward\.fc_1 \1.\2.feed_forward.inner
        (..coder)\.layers\.(\d+)\.positionwise_feedforward\.fc_2 \1.\2.feed_forward.outer
        """,
        r"",
        {"norm": "post", "positions": "learned"},
        ("<pad>", "<unk>", "<sos>", "<eos>"),
    ),
    "jadore801120": Layout(
        "jadore801120/attention-is-all-you-need-pytorch",
        "encoder.src_word_emb.weight",
        r"""
        encoder\.src_word_emb source_embedding.tokens
        decoder\.trg_word_emb target_embedding.tokens
        trg_word_prj output
        encoder\.layer_norm source_embedding.norm
        decoder\.layer_norm target_embedding.norm
        (..coder)\.layer_stack\.(\d+)\.slf_attn\.w_([qkv])s \1.\2.self_attention.project \3
        (..coder)\.layer_stack\.(\d+)\.slf_attn\.fc \1.\2.self_attention.output
        (..coder)\.layer_stack\.(\d+)\.slf_attn\.layer_norm \1.\2.self_residual.norm
        (..coder)\.layer_stack\.(\d+)\.enc_attn\.w_([qkv])s \1.\2.cross_attention.project \3
        (..coder)\.layer_stack\.(\d+)\.enc_attn\.fc \1.\2.cross_attention.output
        (..coder)\.layer_stack\.(\d+)\.enc_attn\.layer_norm \1.\2.cross_residual.norm
        (..coder)\.layer_stack\.(\d+)\.pos_ffn\.w_1 \1.\2.feed_forward.inner
        (..coder)\.layer_stack\.(\d+)\.pos_ffn\.w_2 \1.\2.feed_forward.outer
        (..coder)\.layer_stack\.(\d+)\.pos_ffn\.layer_norm \1.\2.feed_forward_residual.norm
        """,
        r"(..coder)\.position_enc\.pos_table",
        {"norm": "post", "embedding_norm": True},
        ("<blank>", "<unk>", "<s>", "</s>"),
        read=_jadore,
    ),
}
