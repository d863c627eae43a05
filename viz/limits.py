"""The limits of requests, links and unasked work: each page gets the table `LIMITS` with its script."""

from __future__ import annotations

from model.decoding.kernels.model import N_LIKELIEST
from model.decoding.options import MORE_TARGET, PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY, TARGET_PER_SOURCE
from model.inputs import CHARACTERS_PER_TOKEN, MAX_TARGET_TOKENS, MAX_TOKENS

# The body of a request.
MAX_BODY = 1 << 17  # bytes; a sentence with every head and token named needs less than half
SMALL_BODY = 1 << 14  # bytes; parsed within a millisecond, and most sentences need less
MAX_TICKET_BODY = 1 << 10  # bytes; of a body about a request that waits, which it names by a number
MAX_DEPTH = 32  # levels of nested JSON
MAX_VALUES = 4000  # in JSON; naming every head takes 2,304 and every token some hundreds

# What it may ask for.
MAX_ADDRESS = 64_000  # characters: enough for the longest text and every head, percent-encoded
MAX_HEADS = 3 * 12 * 16  # every head of the largest model that the page supports
MAX_SENTENCES = 20  # of one request of the examples; the page asks several times
MAX_LIST_CHARACTERS = 8_000  # characters of all sentences of a list; de-en reads them in about ten seconds

# In short computes without being asked, half a second on one core at most: heads times parameters, and
# parameters.
MAX_HEAD_WORK = 5e9
MAX_WEIGHTS = 1e8

# By their names in viz/viewer/domain/limits.js.
LIMITS = {
    "address": MAX_ADDRESS,
    "heads": MAX_HEADS,
    "source_tokens": MAX_TOKENS,
    "target_tokens": MAX_TARGET_TOKENS,
    "target_per_source": TARGET_PER_SOURCE,
    "more_target": MORE_TARGET,
    "characters_per_token": CHARACTERS_PER_TOKEN,
    "alternatives": N_LIKELIEST,
    "head_work": MAX_HEAD_WORK,
    "weights": MAX_WEIGHTS,
    "beam": PAGE_MAX_BEAM,
    "penalty": PAGE_MAX_LENGTH_PENALTY,
    "sentences": MAX_SENTENCES,
    "listed": MAX_LIST_CHARACTERS,
}
