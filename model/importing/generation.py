"""The settings of generation in a checkpoint: which are applied, and how the others are reported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from model.decoding.search import NEVER_PREDICTED
from model.errors import UserError, quote_untrusted
from model.importing.family import NEVER_LOGIT
from model.importing.files.settings import CONFIG, GENERATION, settings_of
from model.network.transformer import Transformer

# Settings that change which token is chosen and that Headlight lacks, with the values that do nothing.
NOT_DONE: dict[str, tuple[Any, ...]] = {
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "repetition_penalty": (None, 1, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1, 1.0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "begin_suppress_tokens": (None, []),
    "forced_decoder_ids": (None, []),
    "force_words_ids": (None, []),
    "sequence_bias": (None, []),
    "exponential_decay_length_penalty": (None,),
    "diversity_penalty": (None, 0, 0.0),
    "num_beam_groups": (None, 1),
    "guidance_scale": (None, 1, 1.0),
    "do_sample": (None, False),
    "penalty_alpha": (None, 0, 0.0),
    "forced_bos_token_id": (None,),
}


@dataclass(frozen=True)
class Generation:
    """What a checkpoint asks of a search."""

    never: tuple[int, ...] = ()  # ids in the checkpoint of tokens that are never predicted
    notes: tuple[str, ...] = ()  # sentences about what Headlight does in another way

    def apply(self, model: Transformer, order: Int[Tensor, " V"]) -> None:
        """Give the tokens that are never predicted no probability; `order` has their ids by ours."""
        if self.never:
            banned = torch.isin(order, torch.tensor(self.never))
            banned[NEVER_PREDICTED] = False  # by no search here, so they keep their probability
            with torch.no_grad():
                model.output.bias[banned] = NEVER_LOGIT


def read_generation(directory: Path) -> Generation:
    """The settings of generation_config.json, or of config.json, as earlier versions wrote them.

    Raises UserError if they are of another form.
    """
    path = directory / GENERATION
    settings = settings_of(path)
    if not settings:
        path = directory / CONFIG
        settings = settings_of(path)
    words = _words(settings.get("bad_words_ids"), path)
    never = {row[0] for row in words if len(row) == 1}
    never.update(*_words([settings.get("suppress_tokens") or []], path))
    notes = []
    if any(len(row) > 1 for row in words):
        notes.append("bad_words_ids has sequences of tokens, which Headlight can predict.")
    for name, nothing in NOT_DONE.items():
        if settings.get(name) not in nothing:
            notes.append(f"{name} is {quote_untrusted(settings[name])}, which Headlight does not do.")
    beams, penalty = settings.get("num_beams"), settings.get("length_penalty")
    if beams not in (None, 1):
        notes.append(
            f"num_beams is {quote_untrusted(beams)}; Headlight searches with 1 unless you ask for more."
        )
    if penalty not in (None, 1, 1.0):
        notes.append(
            f"length_penalty is {quote_untrusted(penalty)}, a power of the length; Headlight's is a power of "
            "(5 + length) / 6."
        )
    if settings.get("forced_eos_token_id") is not None:
        notes.append(
            "forced_eos_token_id ends a translation at max_length; Headlight has a limit of its own."
        )
    return Generation(tuple(sorted(never)), tuple(notes))


def _words(value: object, path: Path) -> list[list[int]]:
    """Lists of ids. Raises UserError for anything else."""
    rows = [] if value is None else value
    if not isinstance(rows, list) or any(
        not isinstance(row, list) or any(type(each) is not int for each in row) for row in rows
    ):
        raise UserError(f"{path} has {quote_untrusted(value)} where ids of tokens belong; correct it.")
    return rows
