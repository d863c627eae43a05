"""How many heads a model has, told from how sure it is of its own translations.

Its weights have the same shape for every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.errors import UserError
from model.network.config import LARGEST
from model.network.transformer import Transformer
from model.storage.checkpoint import Checkpoint
from model.translator import Translator

MOST_SENTENCES = 20


def find_heads(checkpoint: Checkpoint, sentences: Sequence[str]) -> dict[int, float]:
    """The mean log-probability, in nats, of the tokens that it writes with each number of heads, best first.

    Raises UserError if it can translate none of the sentences.
    """
    width = checkpoint.model.config.d_model
    numbers = [number for number in range(1, LARGEST["n_heads"] + 1) if width % number == 0]
    found = {number: _sureness(with_heads(checkpoint, number), sentences) for number in numbers}
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def with_heads(checkpoint: Checkpoint, number: int) -> Checkpoint:
    """The model whose weights are cut into so many heads."""
    model = Transformer(replace(checkpoint.model.config, n_heads=number)).eval()
    model.load_state_dict(checkpoint.model.state_dict())
    return replace(checkpoint, model=model)


def _sureness(checkpoint: Checkpoint, sentences: Sequence[str]) -> float:
    translator = Translator(checkpoint)
    values: list[float] = []
    for sentence in sentences[:MOST_SENTENCES]:
        try:
            values += translator.translate(sentence).log_probabilities
        except UserError:  # of another language, or too long
            continue
    if not values:
        raise UserError(
            "The model reads none of these sentences; give some of the language that it translates."
        )
    return sum(values) / len(values)
