"""What In short says about one translation: the instruments that it asks, at once on every core."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any

from model.analysis.thresholds import THRESHOLDS
from model.decoding.options import LENGTH_PENALTY
from model.decoding.threads import ALL_THREADS, map_in_threads
from model.network.transformer import HeadGates
from model.results import KINDS, Head, HeadValues, Translation
from model.translator import Translator
from viz.instruments import leave_one_out_values, lens_values, rounded
from viz.limits import MAX_HEAD_WORK, MAX_WEIGHTS

N_NAMED = int(THRESHOLDS["named"])  # heads, and steps with another likely word


def summary_values(
    translator: Translator,
    text: str,
    ids: Sequence[int],
    beam_size: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    forced: Sequence[int] = (),
) -> Mapping[str, object]:
    """What the page says about a translation in short, beyond its record: the answers of other instruments.

    `heads` are those that the translation needs most, with the translation when one of them is muted.
    `rivals` are the likeliest other tokens of the least sure steps, with the word that the model makes of
    each when it goes on from there. For a model with too many heads and weights, `importance` is None and
    there are no heads and rivals; for one with too many weights, `leave_one_out` is None too.
    """
    source = translator.source(text)  # the sentence is tokenised once
    config, found = translator.checkpoint.model.config, None
    n_heads = config.n_heads * (config.n_encoder_layers + 2 * config.n_decoder_layers)
    if n_heads * config.n_parameters <= MAX_HEAD_WORK:
        found = translator.importance(source, ids)
    original = translator.score(source, ids)
    heads = _most_needed(found) if found else []
    rivals = _rivals(original, len(forced)) if found else []
    is_small = config.n_parameters <= MAX_WEIGHTS
    search = beam_size, length_penalty
    tasks: dict[str, Callable[[], Any]] = {
        "leave_one_out": lambda: leave_one_out_values(translator, source, ids) if is_small else None,
        "heads": lambda: [_muted(translator, original, head, *search, forced) for head in heads],
        "rivals": lambda: [
            _with_word(translator.translate(source, *search, forced=[*ids[:step], rival]), step)
            for step, rival in rivals
        ],
        "lens": lambda: lens_values(translator, source, ids),
    }
    # With the listener to its progress, which belongs to this thread.
    parts = [(copy_context(), task) for task in tasks.values()]
    threads = ALL_THREADS if translator.device.type == "cpu" else 1
    answers = map_in_threads(lambda part: part[0].run(part[1]), parts, threads)
    importance = found and {kind: rounded(getattr(found, kind)) for kind in KINDS}
    return {"importance": importance, **dict(zip(tasks, answers, strict=True))}


def _muted(
    translator: Translator,
    original: Translation,
    head: Head,
    beam_size: int,
    length_penalty: float,
    forced: Sequence[int],
) -> Mapping[str, object]:
    """The translation when one head is muted."""
    gates = HeadGates.ablating(translator.checkpoint.model.config, [head]).to(translator.device)
    found = translator.compare(original, (head,), gates, beam_size, length_penalty, forced)
    return {"head": list(head), "text": found.ablated.text}


def _rivals(original: Translation, n_forced: int) -> list[tuple[int, int]]:
    """The unsure steps of words, or else the least sure one, each with its likeliest other token."""
    steps = [
        step
        for step, token in enumerate(original.attention.predicted)
        if step >= n_forced and token.word is not None and any(map(str.isalnum, token.text))
    ]
    steps.sort(key=lambda step: original.log_probabilities[step])
    unsure = [step for step in steps if original.log_probabilities[step] < math.log(THRESHOLDS["unsure"])]
    others = {
        step: [one.token for one in original.alternatives[step] if one.token.id != original.ids[step]]
        for step in unsure[:N_NAMED] or steps[:1]
    }
    return [(step, found[0].id) for step, found in others.items() if found and not found[0].special]


def _with_word(forced: Translation, step: int) -> Mapping[str, object]:
    """The word of a step whose token was forced, with … if an apostrophe joins it with the next one."""
    predicted = forced.attention.predicted
    token = predicted[step]
    places = [place for place, one in enumerate(predicted) if one.word == token.word]
    joined = any(one.piece in "'’" for one in predicted[places[-1] + 1 :][:1])
    text = "".join(predicted[place].text for place in places).strip()
    return {"step": step, "id": token.id, "text": f"{text}…" if joined else text, "pieces": len(places)}


def _most_needed(importance: HeadValues) -> list[Head]:
    """The heads without which the translation becomes clearly less likely, the first one most."""
    values = {
        Head(kind, layer, head): value
        for kind in KINDS
        for layer, row in enumerate(rounded(getattr(importance, kind)))
        for head, value in enumerate(row)
    }
    needed = [head for head, change in values.items() if change <= -THRESHOLDS["needed"]]
    return sorted(needed, key=lambda head: values[head])[:N_NAMED]
