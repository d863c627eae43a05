"""Omissions: the words of a sentence that seem to be missing from its translation.

Axis letters: T target tokens, S source tokens, U source words.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.alignment import merge_to_words, target_words
from model.analysis.measures import focus_offset, source_focus
from model.analysis.thresholds import THRESHOLDS
from model.results import AttentionRecord, Translation

N_FREE = 2  # heads that decide together in a model without a head that was taught to align


def missing_words(translation: Translation) -> tuple[int, ...]:
    """The source words that seem to be missing, the clearest one first.

    Measured on 3,392 translations of another system that people judged (Guerreiro, Voita and Martins
    2023, "Looking for a Needle in a Haystack"): docs/reading-the-page.md has the table.
    A sentence of one word is not judged.
    """
    record = translation.attention
    name = "missing" if record.taught else "missing_free"
    found = absence(record, surprise_of_end(translation))
    order = torch.argsort(found, descending=True, stable=True).tolist()
    return tuple(word for word in order if found[word] >= THRESHOLDS[name]) if len(found) > 1 else ()


def surprise_of_end(translation: Translation) -> float:
    """Minus the log-probability of </s>, in nats: much where the model expected more; 0 without an end."""
    ended = translation.attention.predicted[-1].text == "</s>"
    return -translation.log_probabilities[-1] if ended else 0.0


def absence(record: AttentionRecord, surprise: float = 0.0) -> Float[Tensor, " U"]:
    """How little the translation looks each source word up, in nats; -inf for a word without letters.

    The negative logarithm of the largest weight that a word of the translation gives to the word (the mean
    over its tokens, by the head that was taught to align or by the two heads with the highest source focus),
    plus a term for its letters: short words, such as articles, are often left out rightly; plus a term for
    the surprise of the end.
    """
    words = [token.word for token in record.source]
    read = _largest_weights(record)
    sizes = merge_to_words(torch.ones(1, len(words)), [0], words)[0]
    mean = merge_to_words(read[None], [0], words)[0] / sizes.clamp(min=1)
    letters = torch.zeros(len(mean))
    for word in range(len(mean)):
        text = "".join(token.text for token in record.source if token.word == word).strip()
        letters[word] = len(text) if any(map(str.isalpha, text)) else -torch.inf
    letters = letters.clamp(max=THRESHOLDS["letters"])
    looked_up = (mean + THRESHOLDS["unread"]).log()
    return THRESHOLDS["letter"] * letters - looked_up + THRESHOLDS["early_end"] * surprise


def _largest_weights(record: AttentionRecord) -> Float[Tensor, " S"]:
    """The largest weight of each source token in the rows that align a word of the translation."""
    is_word = torch.tensor([token.word is not None for token in record.source])
    offsets, n_heads = focus_offset(record.cross, is_word), record.cross.shape[1]
    if record.taught:
        heads = [record.taught]
    else:
        focus = source_focus(record.cross, is_word).flatten()
        best = focus.argsort(descending=True, stable=True)[:N_FREE]
        heads = [divmod(int(place), n_heads) for place in best]
    found = []
    for layer, head in heads:
        queries = target_words(record, shifted=bool(offsets[layer, head] < 0))
        rows = [row for row, word in enumerate(queries) if word is not None]
        weights = record.cross[layer, head, rows]
        found.append(weights.amax(0) if rows else weights.new_zeros(len(is_word)))
    return torch.stack(found).mean(0)
