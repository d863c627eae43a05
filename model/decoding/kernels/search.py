"""Greedy and beam search in one compiled call: the loop around `model.decoding.kernels.network.decode`.

The rules of `model.decoding.search`, the reference, apply. The search records each step in a
`History`, from which `model.decoding.kernels.model` reads the hypotheses, last token first.

Axis letters: T steps, R rows, N sentences, k hypotheses of each, A likeliest tokens kept of each row, C
extensions considered of each sentence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from model.decoding.kernels.jit import START, ZERO, compiled, entry
from model.decoding.kernels.layers import exp
from model.decoding.kernels.network import decode
from model.decoding.kernels.packed import (
    DecoderWeights,
    Doubles,
    Floats,
    Gates,
    Integers,
    Memory,
    Reading,
    Scratch,
)
from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

FIRST_PREDICTED = max(PAD_ID, UNK_ID, BOS_ID) + 1
NEVER = -np.inf


class Rules(NamedTuple):
    """How to search."""

    forced: Integers  # [N, F]: the first tokens of each translation
    beam_size: int
    n_best: int
    limits: Integers  # [N]: the longest translation of each sentence
    penalty: Doubles  # [T + 1]: the length penalty of a translation of so many tokens


class History(NamedTuple):
    """The rows of each step, and what the model says after them."""

    rows: Integers  # [T + 1]: how many there are at each step
    token: Integers  # [T + 1, R]: what the row reads
    sentence: Integers  # [T + 1, R]
    parent: Integers  # [T + 1, R]: the row of the step before
    rank: Integers  # [T + 1, R]: among the extensions of its sentence
    log_probability: Floats  # [T + 1, R]: of `token`
    total: Doubles  # [T + 1, R]: log-probability of all tokens so far
    top_token: Integers  # [T, R, A]: the likeliest next tokens; -1: there are no more
    top_log_probability: Floats  # [T, R, A]
    self_weights: Floats  # [T or 1, R, M, H, T]: of all steps or of the last one alone
    cross_weights: Floats  # [T or 1, R, M, H, S]


class Extensions(NamedTuple):
    """The best extensions of each sentence's hypotheses at each step, the best first."""

    number: Integers  # [T or 1, N]
    width: Integers  # [T or 1, N]: how many could be taken
    row: Integers  # [T or 1, N, C]: of the hypothesis that is extended
    place: Integers  # [T or 1, N, C]: in `History.top_token`
    total: Doubles  # [T or 1, N, C]


class Record(NamedTuple):
    """What the model computed at each token of one given translation."""

    self_weights: Floats  # [T, M, H, T]
    cross_weights: Floats  # [T, M, H, S]
    log_probability: Floats  # [T]
    top_token: Integers  # [T, A]: the likeliest tokens; -1: there are no more
    top_log_probability: Floats  # [T, A]


class Ends(NamedTuple):
    """The hypotheses that ended."""

    number: Integers  # [N]
    step: Integers  # [N, k]
    row: Integers  # [N, k]: that predicted the last token
    token: Integers  # [N, k]: the last
    log_probability: Floats  # [N, k]: of the last token
    total: Doubles  # [N, k]
    score: Doubles  # [N, k]


def new_history(
    steps: int, kept: int, rows: int, likeliest: int, layers: int, heads: int, source: int
) -> History:
    """A history to be filled in; the attention weights of so many steps are kept: of all of them or of 1."""
    shape = (steps + 1, rows)
    return History(
        rows=np.empty(steps + 1, np.int64),
        token=np.empty(shape, np.int64),
        sentence=np.empty(shape, np.int64),
        parent=np.empty(shape, np.int64),
        rank=np.empty(shape, np.int64),
        log_probability=np.empty(shape, np.float32),
        total=np.empty(shape),
        top_token=np.empty((steps, rows, likeliest), np.int64),
        top_log_probability=np.empty((steps, rows, likeliest), np.float32),
        self_weights=np.empty((kept, rows, layers, heads, steps), np.float32),
        cross_weights=np.empty((kept, rows, layers, heads, source), np.float32),
    )


def new_record(steps: int, layers: int, heads: int, source: int, likeliest: int) -> Record:
    """A record to be filled in; the weights of the future are 0."""
    return Record(
        self_weights=np.zeros((steps, layers, heads, steps), np.float32),
        cross_weights=np.zeros((steps, layers, heads, source), np.float32),
        log_probability=np.empty(steps, np.float32),
        top_token=np.empty((steps, likeliest), np.int64),
        top_log_probability=np.empty((steps, likeliest), np.float32),
    )


def new_extensions(steps: int, sentences: int, most: int) -> Extensions:
    """Extensions to be filled in, of each step or of the last one alone."""
    shape = (steps, sentences, most)
    return Extensions(
        number=np.empty(shape[:2], np.int64),
        width=np.empty(shape[:2], np.int64),
        row=np.empty(shape, np.int64),
        place=np.empty(shape, np.int64),
        total=np.empty(shape),
    )


def new_ends(sentences: int, beam_size: int) -> Ends:
    """No hypothesis has ended."""
    shape = (sentences, beam_size)
    return Ends(
        number=np.zeros(sentences, np.int64),
        step=np.empty(shape, np.int64),
        row=np.empty(shape, np.int64),
        token=np.empty(shape, np.int64),
        log_probability=np.empty(shape, np.float32),
        total=np.empty(shape),
        score=np.empty(shape),
    )


@entry
def search(
    weights: DecoderWeights,
    memory: Memory,
    gates: Gates,
    scratch: Scratch,
    rules: Rules,
    history: History,
    extensions: Extensions,
    ends: Ends,
) -> int:
    """Fill `history` and `ends`; return the number of steps."""
    rows, slots, step = len(rules.limits), len(scratch.x), START
    history.rows[0] = rows
    for n in range(rows):
        begin(history, step, n, START + BOS_ID, n, START, n, ZERO, 0.0)
    while rows > 0:
        for r in range(rows):
            scratch.positions[r] = step
        tokens, sentences, places = history.token[step], history.sentence[step], scratch.places[step % 2]
        reading = Reading(tokens, sentences, scratch.positions, places, step * slots)
        kept = min(step, len(history.self_weights) - 1)
        self_weights, cross_weights = history.self_weights[kept], history.cross_weights[kept]
        decode(weights, memory, gates, scratch, reading, rows, self_weights, cross_weights)
        for r in range(rows):
            top_tokens, values = history.top_token[step, r], history.top_log_probability[step, r]
            scratch.log_sum_exp[r] = likeliest(scratch.logits[r], top_tokens, values)
        if step < rules.forced.shape[1]:
            force(rules, history, scratch, step)
        else:
            rows = extend(rules, history, extensions, ends, scratch.places, step, rows)
        step += 1
        history.rows[step] = rows
    return step


@entry
def score(
    weights: DecoderWeights,
    memory: Memory,
    gates: Gates,
    scratch: Scratch,
    reading: Reading,
    target: Integers,
    record: Record,
) -> None:
    """Score one translation [T] in one pass; row t reads the token before `target[t]`."""
    rows = len(target)
    decode(weights, memory, gates, scratch, reading, rows, record.self_weights, record.cross_weights)
    for t in range(rows):
        log_sum_exp = likeliest(scratch.logits[t], record.top_token[t], record.top_log_probability[t])
        record.log_probability[t] = scratch.logits[t, target[t]] - log_sum_exp


@compiled
def begin(
    history: History,
    step: int,
    row: int,
    token: int,
    sentence: int,
    rank: int,
    parent: int,
    log_probability: np.float32,
    total: float,
) -> None:
    """Write a row of a step."""
    history.token[step, row] = token
    history.sentence[step, row] = sentence
    history.parent[step, row] = parent
    history.rank[step, row] = rank
    history.log_probability[step, row] = log_probability
    history.total[step, row] = total


@compiled
def likeliest(logits: Floats, tokens: Integers, values: Floats) -> np.float32:
    """Fill in the likeliest tokens and their log-probabilities; return the log of the sum of exponentials."""
    most, found = len(tokens), 0
    for token in range(len(logits)):
        logit = logits[token]
        if found == most and not logit > values[most - 1]:
            continue
        place = min(found, most - 1)
        while place > 0 and logit > values[place - 1]:
            values[place], tokens[place] = values[place - 1], tokens[place - 1]
            place -= 1
        values[place], tokens[place] = logit, token
        found = min(found + 1, most)
    largest, total = values[0], ZERO
    for token in range(len(logits)):
        total += exp(logits[token] - largest)
    log_sum_exp: np.float32 = largest + np.log(total)
    for place in range(most):
        if place < found:
            values[place] -= log_sum_exp
        else:
            values[place], tokens[place] = np.float32(NEVER), -1
    return log_sum_exp


@compiled
def force(rules: Rules, history: History, scratch: Scratch, step: int) -> None:
    """Continue each sentence with its next forced token."""
    for n in range(len(rules.limits)):
        token = rules.forced[n, step]
        log_probability = scratch.logits[n, token] - scratch.log_sum_exp[n]
        total = history.total[step, n] + log_probability
        begin(history, step + 1, n, token, n, START, n, log_probability, total)
        keep_places(scratch.places, step, n, n)


@compiled
def extend(
    rules: Rules,
    history: History,
    extensions: Extensions,
    ends: Ends,
    places: Integers,
    step: int,
    rows: int,
) -> int:
    """Replace the hypotheses of each sentence by their best extensions; return the number of rows."""
    first, following, kept = START, START, min(step, len(extensions.number) - 1)
    while first < rows:
        n, last = history.sentence[step, first], first
        while last < rows and history.sentence[step, last] == n:
            last += 1
        row, place, total = extensions.row[kept, n], extensions.place[kept, n], extensions.total[kept, n]
        count = best(history, step, first, last, row, place, total)
        width = rules.beam_size - ends.number[n]
        extensions.number[kept, n], extensions.width[kept, n] = count, width
        alive, start = NEVER, following
        for rank in range(min(count, width)):
            parent = row[rank]
            token = history.top_token[step, parent, place[rank]]
            value = history.top_log_probability[step, parent, place[rank]]
            if token == EOS_ID or step + 1 >= rules.limits[n]:
                end(rules, ends, n, step, parent, token, value, total[rank])
                continue
            begin(history, step + 1, following, token, n, rank, parent, value, total[rank])
            keep_places(places, step, parent, following)
            following += 1
            alive = max(alive, total[rank])
        # As a hypothesis grows its score stays below this bound: see `model.decoding.search`.
        if alive / rules.penalty[rules.limits[n]] <= threshold(ends, n, rules.n_best):
            following = start
        first = last
    return following


@compiled
def keep_places(places: Integers, step: int, parent: int, row: int) -> None:
    """Let a row of the next step read what `parent` has read."""
    for t in range(step + 1):
        places[(step + 1) % 2, row, t] = places[step % 2, parent, t]


@compiled
def best(
    history: History, step: int, first: int, last: int, row: Integers, place: Integers, total: Doubles
) -> int:
    """Fill in the best extensions of rows `first` to `last`; return their number."""
    most, found = len(total), 0
    for r in range(first, last):
        for a in range(history.top_token.shape[2]):
            token = history.top_token[step, r, a]
            value = history.total[step, r] + history.top_log_probability[step, r, a]
            if found == most and not value > total[most - 1]:
                break
            if token < FIRST_PREDICTED:
                continue
            at = min(found, most - 1)
            while at > 0 and value > total[at - 1]:
                total[at], row[at], place[at] = total[at - 1], row[at - 1], place[at - 1]
                at -= 1
            total[at], row[at], place[at] = value, r, a
            found = min(found + 1, most)
    return found


@compiled
def end(
    rules: Rules,
    ends: Ends,
    n: int,
    step: int,
    row: int,
    token: int,
    log_probability: np.float32,
    total: float,
) -> None:
    """Record a complete hypothesis of sentence n."""
    at = ends.number[n]
    ends.step[n, at], ends.row[n, at], ends.token[n, at] = step, row, token
    ends.log_probability[n, at], ends.total[n, at] = log_probability, total
    ends.score[n, at] = total / rules.penalty[step + 1]
    ends.number[n] += 1


@compiled
def threshold(ends: Ends, n: int, n_best: int) -> float:
    """The score of the worst of the n best finished hypotheses; -inf while there are fewer."""
    count = ends.number[n]
    worst = NEVER
    for i in range(count if count >= n_best else 0):
        better = 0
        for j in range(count):
            better += ends.score[n, j] > ends.score[n, i]
        if better < n_best and (worst == NEVER or ends.score[n, i] < worst):
            worst = ends.score[n, i]
    return worst
