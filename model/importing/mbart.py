"""mBART-50 (Tang et al. 2020): pre-norm, learned positions, and a norm after the embedding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from model.config import ModelConfig
from model.errors import UserError
from model.importing.family import Plan, tied_config
from model.importing.files.settings import CONFIG, SHAPE, TOKENIZER, read_settings, settings_of, shape_of
from model.importing.files.spm import read_spm
from model.importing.files.tokenizer_json import read_tokenizer
from model.importing.files.tokenizers import SPM, TOKENIZER_JSON, Side, SpecialIds, side_of
from model.importing.files.weights import Weights
from model.importing.language_codes import with_languages
from model.importing.weight_names import axis_of, convert_embeddings, convert_tied
from model.inputs import MAX_TARGET_TOKENS
from model.network.transformer import Transformer

# What the settings of an MBartConfig are when its file leaves them out.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 50265,
    **SHAPE,
    "activation_function": "gelu",
    "scale_embedding": False,
    "max_position_embeddings": 1024,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
REQUIRED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "tie_word_embeddings": True,
    "decoder_start_token_id": 2,  # </s>; in mBART-25 it is the code of the target language
    "quantization_config": None,
}
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
# Languages of mBART-50 in the order of their ids, which no file of a checkpoint lists.
LANGUAGES = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP
nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN
mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
"""


def read(directory: Path) -> Plan:
    """Read what describes a checkpoint of mBART-50. Raises UserError."""
    _check_version(directory)
    values = read_settings(directory, DEFAULTS, REQUIRED)
    size, positions = values["vocab_size"], values["max_position_embeddings"]
    if positions < MAX_TARGET_TOKENS:
        raise UserError(
            f"{directory / CONFIG} has {positions} positions; Headlight needs {MAX_TARGET_TOKENS}, because "
            "a translation may be so long."
        )
    # Check the sizes before anything of such a size is read.
    shape = ModelConfig(
        size + 1,
        size + 1,
        norm="pre",
        positions="learned",
        n_positions=positions,
        embedding_norm=True,
        **shape_of(values),
    )
    ids = SpecialIds.of(values)
    side = _read_side(directory, size, ids)
    config = tied_config(shape, side, values["scale_embedding"])
    source, target = with_languages(side, directory, usual="en_XX")
    return Plan(config, source, target, partial(_convert, side=side, scaled=values["scale_embedding"]))


def _check_version(directory: Path) -> None:
    """Raise UserError for mBART-25, which reads the code of its language after the sentence."""
    for name in (TOKENIZER, CONFIG):
        tokenizer = settings_of(directory / name).get("tokenizer_class")
        if isinstance(tokenizer, str) and not tokenizer.startswith("MBart50"):
            raise UserError(f"{directory / name} is of mBART-25; of mBART only mBART-50 can be imported.")


def _read_side(directory: Path, size: int, ids: SpecialIds) -> Side:
    """The tokenizer with the names of the languages as they are in the checkpoint."""
    if (directory / TOKENIZER_JSON).exists():
        return read_tokenizer(directory, size, ids)
    segmenter = read_spm(directory / SPM)
    entries = [*SPECIALS, *segmenter.scores, *LANGUAGES.split(), "<mask>"]
    return side_of(segmenter, dict(enumerate(entries)), size, ids, directory)


def _convert(weights: Weights, model: Transformer, side: Side, scaled: bool) -> Iterator[tuple[str, Tensor]]:
    """Our weights with their names."""
    yield from convert_tied(weights, model, side, scaled)
    yield from convert_embeddings(weights, model, axis_of(model.config.d_model))
