"""The layouts of models that people trained themselves: one table of names, and what tells each apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.importing import toolkits
from model.importing.toolkits import Said
from model.network.config import Shape

# What a name may have before or in it, and how the table writes it.
SPELLINGS = (
    (r"^(module\.|_orig_mod\.)+", ""),  # what DataParallel and torch.compile put before
    (r"in_proj_(weight|bias)$", r"in_proj.\1"),
    (r"\.(alpha|a_2)$", ".weight"),
    (r"\.b_2$", ".bias"),
    (r"(pos_embedding|embed_positions)\.weight$", r"\1"),
)
# Our names in the order of the table's columns.
OUTSIDE = ("source_embedding.tokens", "target_embedding.tokens", "output", "encoder_norm", "decoder_norm")
SELF, CROSS = ("self_attention", "self_residual.norm"), ("cross_attention", "cross_residual.norm")
FEED_FORWARD = ("feed_forward.inner", "feed_forward.outer", "feed_forward_residual.norm")
COLUMNS = {"encoder": SELF + FEED_FORWARD, "decoder": SELF + CROSS + FEED_FORWARD}
ATTENTIONS = (SELF[0], CROSS[0])


@dataclass(frozen=True)
class Layout:
    """What tells the models of one tutorial or toolkit from others.

    `encoder` and `decoder` are where the layers stand, then the names of `COLUMNS`; `parts` are the queries,
    keys, values and output of an attention, or the first three in one; `memory` are the forget gates, values
    and output of what a decoder has in place of self-attention. The first name of `outside`, which has
    the names of `OUTSIDE`, tells the layout.
    """

    title: str
    outside: str
    encoder: str
    decoder: str
    parts: str
    shape: Shape = field(default_factory=Shape)  # of ModelConfig, if the same in every model
    specials: tuple[str, str, str, str] = ("<pad>", "<unk>", "<s>", "</s>")  # as its vocabulary spells them
    more: Mapping[str, str] = field(default_factory=dict)  # other names and ours
    buffers: str = r""  # names of what is computed and no weight
    sample_deviation: bool = False  # its norms divide by the deviation of a sample
    framed: bool = False  # a source begins with <s>
    starts_with_zeros: bool = False  # a translation; its vocabulary has neither <s> nor <pad>
    memory: str = ""
    counts_words: bool = False  # in its word lists, whose first four entries are not written
    # What the settings say, which lie in the file or in its folder.
    parse: Callable[[Mapping[str, Any], Path], Said] = lambda _, __: Said()
    assumed: str = ""  # what nothing says
    licence: str = "not stated in the checkpoint; ask its origin"

    @property
    def mark(self) -> str:
        """A weight that only such models have."""
        if self.memory:
            stack, module, *_ = self.decoder.split()
            return f"{stack}.0.{module}.{self.memory.split()[0]}.weight"
        return f"{self.outside.split()[0]}.weight"

    def rename(self, tensors: Mapping[str, Tensor], path: object) -> dict[str, Tensor]:
        """The weights under our names. Raises UserError for a weight that the table does not have."""
        found: dict[str, Tensor] = {}
        pieces: dict[str, dict[int, Tensor]] = {}
        outside = {**dict(zip(self.outside.split(), OUTSIDE, strict=False)), **self.more}
        layers = {side: self._layer_names(side) for side in COLUMNS}
        for written, tensor in tensors.items():
            name = spelled(written)
            if re.fullmatch(self.buffers, name):
                continue
            stem, kind = re.fullmatch(r"(.*?)(\.weight|\.bias|)", name).groups()  # type: ignore[union-attr]
            ours, part = outside.get(stem), None
            for side, (layer, names) in layers.items():
                if (match := layer.fullmatch(stem)) and match[2] in names:
                    inside, part = names[match[2]]
                    ours = f"{side}.{match[1]}.{inside}"
            if ours is None or not tensor.is_floating_point():
                raise UserError(
                    f"{path} has the weight {quote_untrusted(written)}, which no model of {self.title} has; "
                    "name another layout with --layout."
                )
            if part is None:
                found[ours + kind] = tensor
            else:
                pieces.setdefault(ours + kind, {})[part] = tensor
        for name, parts in pieces.items():
            count = len(self._parts(name).split()) - 1
            if len(parts) < count:
                raise UserError(f"{path} lacks queries, keys or values of {name}; copy it again.")
            found[name] = torch.cat([parts[place] for place in range(count)])
        return found

    def _parts(self, name: str) -> str:
        """The names in an attention, or in what stands in its place."""
        return self.memory if self.memory and re.match(r"decoder\..*self_attention", name) else self.parts

    def _layer_names(self, side: str) -> tuple[re.Pattern[str], dict[str, tuple[str, int | None]]]:
        """Where the layers stand, and by their names in a layer: ours, and which piece of it a weight is."""
        stack, *theirs = (self.encoder if side == "encoder" else self.decoder).split()
        names: dict[str, tuple[str, int | None]] = {}
        for module, ours in zip(theirs, COLUMNS[side], strict=True):
            if ours not in ATTENTIONS:
                names[module] = ours, None
                continue
            *inputs, output = self._parts(f"{side}.{ours}").split()
            names[f"{module}.{output}"] = f"{ours}.output", None
            for place, part in enumerate(inputs):
                names[f"{module}.{part}"] = f"{ours}.project", place if len(inputs) > 1 else None
        return re.compile(rf"{re.escape(stack)}\.(\d+)\.(.+)"), names


def spelled(name: str) -> str:
    """A name as the table has it."""
    for pattern, replacement in SPELLINGS:
        name = re.sub(pattern, replacement, name)
    return name


LAYOUTS: dict[str, Layout] = {
    "torch": Layout(
        "torch.nn.Transformer, as in the tutorial Language Translation",
        "src_tok_emb.embedding tgt_tok_emb.embedding generator transformer.encoder.norm "
        "transformer.decoder.norm",
        "transformer.encoder.layers self_attn norm1 linear1 linear2 norm2",
        "transformer.decoder.layers self_attn norm1 multihead_attn norm2 linear1 linear2 norm3",
        "in_proj out_proj",
        {"norm": "post"},
        ("<pad>", "<unk>", "<bos>", "<eos>"),
        buffers=r"positional_encoding\.pos_embedding",
        framed=True,
        assumed="norm_first and the activation are not in the file; Headlight takes False and relu.",
    ),
    "hkproj": Layout(
        "hkproj/pytorch-transformer",
        "src_embed.embedding tgt_embed.embedding projection_layer.proj encoder.norm decoder.norm",
        "encoder.layers self_attention_block residual_connections.0.norm feed_forward_block.linear_1 "
        "feed_forward_block.linear_2 residual_connections.1.norm",
        "decoder.layers self_attention_block residual_connections.0.norm cross_attention_block "
        "residual_connections.1.norm feed_forward_block.linear_1 feed_forward_block.linear_2 "
        "residual_connections.2.norm",
        "w_q w_k w_v w_o",
        {"norm": "pre"},
        ("[PAD]", "[UNK]", "[SOS]", "[EOS]"),
        buffers=r"(src|tgt)_pos\.pe",
        sample_deviation=True,
        framed=True,
    ),
    "annotated": Layout(
        "the Annotated Transformer",
        "src_embed.0.lut tgt_embed.0.lut generator.proj encoder.norm decoder.norm",
        "encoder.layers self_attn sublayer.0.norm feed_forward.w_1 feed_forward.w_2 sublayer.1.norm",
        "decoder.layers self_attn sublayer.0.norm src_attn sublayer.1.norm feed_forward.w_1 "
        "feed_forward.w_2 sublayer.2.norm",
        "linears.0 linears.1 linears.2 linears.3",
        {"norm": "pre"},
        ("<blank>", "<unk>", "<s>", "</s>"),
        buffers=r"(src|tgt)_embed\.1\.pe",
        sample_deviation=True,
        framed=True,
    ),
    "bentrevett": Layout(
        "bentrevett/pytorch-seq2seq, chapter 6",
        "encoder.tok_embedding decoder.tok_embedding decoder.fc_out",
        "encoder.layers self_attention self_attn_layer_norm positionwise_feedforward.fc_1 "
        "positionwise_feedforward.fc_2 ff_layer_norm",
        "decoder.layers self_attention self_attn_layer_norm encoder_attention enc_attn_layer_norm "
        "positionwise_feedforward.fc_1 positionwise_feedforward.fc_2 ff_layer_norm",
        "fc_q fc_k fc_v fc_o",
        {"norm": "post", "positions": "learned"},
        ("<pad>", "<unk>", "<sos>", "<eos>"),
        {
            "encoder.pos_embedding": "source_embedding.positions",
            "decoder.pos_embedding": "target_embedding.positions",
        },
        framed=True,
    ),
    "jadore801120": Layout(
        "jadore801120/attention-is-all-you-need-pytorch",
        "encoder.src_word_emb decoder.trg_word_emb trg_word_prj",
        "encoder.layer_stack slf_attn slf_attn.layer_norm pos_ffn.w_1 pos_ffn.w_2 pos_ffn.layer_norm",
        "decoder.layer_stack slf_attn slf_attn.layer_norm enc_attn enc_attn.layer_norm pos_ffn.w_1 "
        "pos_ffn.w_2 pos_ffn.layer_norm",
        "w_qs w_ks w_vs fc",
        {"norm": "post", "embedding_norm": True},
        ("<blank>", "<unk>", "<s>", "</s>"),
        {"encoder.layer_norm": "source_embedding.norm", "decoder.layer_norm": "target_embedding.norm"},
        r"(..coder)\.position_enc\.pos_table",
        framed=True,
        parse=toolkits.parse_jadore,
    ),
    "joeynmt": Layout(
        "JoeyNMT 2",
        "src_embed.lut trg_embed.lut decoder.output_layer encoder.layer_norm decoder.layer_norm",
        "encoder.layers src_src_att layer_norm feed_forward.pwff_layer.0 feed_forward.pwff_layer.3 "
        "feed_forward.layer_norm",
        "decoder.layers trg_trg_att x_layer_norm src_trg_att dec_layer_norm feed_forward.pwff_layer.0 "
        "feed_forward.pwff_layer.3 feed_forward.layer_norm",
        "q_layer k_layer v_layer output_layer",
        buffers=r"(..coder)\.pe\.pe",
        parse=toolkits.parse_joey,
    ),
    "opennmt": Layout(
        "OpenNMT-py 3",
        "encoder.embeddings.make_embedding.emb_luts.0 decoder.embeddings.make_embedding.emb_luts.0 generator "
        "encoder.layer_norm decoder.layer_norm",
        "encoder.transformer self_attn layer_norm feed_forward.w_1 feed_forward.w_2 feed_forward.layer_norm",
        "decoder.transformer_layers self_attn layer_norm_1 context_attn layer_norm_2 feed_forward.w_1 "
        "feed_forward.w_2 feed_forward.layer_norm",
        "linear_query linear_keys linear_values final_linear",
        {"norm": "pre"},
        ("<blank>", "<unk>", "<s>", "</s>"),
        buffers=r"(..coder)\.embeddings\.make_embedding\.pe\.pe",
        parse=toolkits.parse_opennmt,
    ),
    "eole": Layout(
        "eole",
        "src_emb.embeddings tgt_emb.embeddings generator encoder.layer_norm decoder.layer_norm",
        "encoder.transformer_layers self_attn input_layernorm mlp.gate_up_proj mlp.down_proj "
        "post_attention_layernorm",
        "decoder.transformer_layers self_attn input_layernorm context_attn precontext_layernorm "
        "mlp.gate_up_proj mlp.down_proj post_attention_layernorm",
        "linear_query linear_keys linear_values final_linear",
        {"norm": "pre"},
        ("<blank>", "<unk>", "<s>", "</s>"),
        buffers=r"(src|tgt)_emb\.pe\.pe|decoder\.transformer_layers\.\d+\.layer_scalar",
        parse=toolkits.parse_eole,
    ),
    "fairseq": Layout(
        "fairseq",
        "encoder.embed_tokens decoder.embed_tokens decoder.output_projection encoder.layer_norm "
        "decoder.layer_norm",
        "encoder.layers self_attn self_attn_layer_norm fc1 fc2 final_layer_norm",
        "decoder.layers self_attn self_attn_layer_norm encoder_attn encoder_attn_layer_norm fc1 fc2 "
        "final_layer_norm",
        "q_proj k_proj v_proj out_proj",
        more={
            "encoder.embed_positions": "source_embedding.positions",
            "decoder.embed_positions": "target_embedding.positions",
            "encoder.layernorm_embedding": "source_embedding.norm",
            "decoder.layernorm_embedding": "target_embedding.norm",
        },
        buffers=r"(..coder)\.(version|embed_positions\._float_tensor)",
        counts_words=True,
        parse=toolkits.parse_fairseq,
    ),
    "firefox": Layout(
        "Firefox's translator (Marian with an SSRU)",
        "encoder_Wemb decoder_Wemb decoder_ff_logit_out encoder_top_ln decoder_top_ln",
        "encoder self self_Wo_ln ffn_1 ffn_2 ffn_ffn_ln",
        "decoder rnn rnn_ffn_ln context context_Wo_ln ffn_1 ffn_2 ffn_ffn_ln",
        "q k v o",
        {"positions": "marian", "autoregression": "ssru"},
        starts_with_zeros=True,
        memory="f w o",
        parse=partial(toolkits.parse_marian, decoder="rnn"),
        licence="not stated in the files: Bergamot's models are CC-BY-SA 4.0, some for non-commercial "
        "use only, and Mozilla's MPL 2.0; ask where the files come from",
        assumed="Firefox also rounds what its matrices read to 8 bits; it words some sentences differently.",
    ),
    "marian": Layout(
        "Marian",
        "encoder_Wemb decoder_Wemb decoder_ff_logit_out encoder_top_ln decoder_top_ln",
        "encoder self self_Wo_ln ffn_1 ffn_2 ffn_ffn_ln",
        "decoder self self_Wo_ln context context_Wo_ln ffn_1 ffn_2 ffn_ffn_ln",
        "q k v o",
        {"positions": "marian"},
        starts_with_zeros=True,
        parse=toolkits.parse_marian,
    ),
}
