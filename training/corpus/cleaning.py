"""Cleaning: drops sentence pairs that are useless for training, by named rules."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from datasets import Dataset

from model.text.scripts import count_words
from training.corpus.links import linked_share
from training.hardware import forget_mapped_pages, worker_processes

NOT_TEXT = ("\ufffd", "\x00")  # from bytes that are not UTF-8, and from UTF-16
RULES = ("empty", "not_text", "length_ratio", "copy", "unaligned", "duplicate")
SAMPLES, SAMPLE = 10, 1000  # parts of a corpus, and pairs of each, that show its usual ratio of lengths
NEAR_ONE, LEAST_PAIRS = 1.5, 5  # fewer pairs say nothing about the usual ratio
LEAST_LINKED = 0.4  # share of the words of a side


def clean(pairs: Dataset) -> tuple[Dataset, dict[str, int], str]:
    """The pairs that no rule drops, how many each rule dropped, and a digest of the rest.

    empty: a side has no text. not_text: a side has a character that comes from a decoding error.
    length_ratio: one side has over three times the characters of the other and over 20 more, after the usual
    ratio of the corpus (`usual_ratio`). copy: the target equals a source of over three words.
    unaligned: under LEAST_LINKED of the words of a side have a link, if the pairs have a column of links.
    duplicate: the same pair came before.
    """
    judged = pairs.map(
        _judge,
        batched=True,
        remove_columns=pairs.column_names,
        num_proc=worker_processes(len(pairs)),
        fn_kwargs={"ratio": usual_ratio(pairs)},
    )
    verdict = np.asarray(judged.with_format("numpy")["verdict"][:])
    digest = np.asarray(judged.with_format("numpy")["digest"][:])
    first = np.zeros(len(verdict), dtype=bool)
    first[np.unique(digest, return_index=True)[1]] = True
    verdict = np.where((verdict == -1) & ~first, RULES.index("duplicate"), verdict)
    counts = {rule: int((verdict == i).sum()) for i, rule in enumerate(RULES)}
    kept = np.flatnonzero(verdict == -1)
    return pairs.select(kept), counts, hashlib.sha256(digest[kept].tobytes()).hexdigest()


def usual_ratio(pairs: Dataset) -> float:
    """Characters of a target for each of its source: 1 for two alphabets, 0.3 from English to Chinese.

    The median of a sample of the pairs; where it is near 1, it is taken for 1.
    """
    ratios: list[float] = []
    for start in np.unique(np.linspace(0, max(len(pairs) - SAMPLE, 0), SAMPLES).astype(int)).tolist():
        batch = pairs[start : start + SAMPLE]
        sides = zip(batch["source"], batch["target"], strict=True)
        ratios += [len(target) / len(source) for source, target in sides if source and target]
    median = float(np.median(ratios)) if len(ratios) >= LEAST_PAIRS else 1.0
    return 1.0 if 1 / NEAR_ONE <= median <= NEAR_ONE else median


def _judge(batch: Mapping[str, list[str]], ratio: float) -> dict[str, list[int]]:
    forget_mapped_pages()
    pairs = list(zip(batch["source"], batch["target"], strict=True))
    digests = [hashlib.blake2b("\n".join(p).encode(), digest_size=8).digest() for p in pairs]
    verdicts = [_verdict(*pair, ratio) for pair in pairs]
    if "links" in batch:
        for place, (line, pair) in enumerate(zip(batch["links"], pairs, strict=True)):
            if verdicts[place] == -1 and linked_share(line, *pair) < LEAST_LINKED:
                verdicts[place] = RULES.index("unaligned")
    return {
        "verdict": verdicts,
        "digest": [int.from_bytes(digest, "big", signed=True) for digest in digests],
    }


def _verdict(source: str, target: str, ratio: float) -> int:
    if not source or not target:
        return RULES.index("empty")
    # As many characters as the side with more of them would have.
    shorter, longer = sorted((len(source) * max(ratio, 1), len(target) / min(ratio, 1)))
    if any(sign in source + target for sign in NOT_TEXT):
        return RULES.index("not_text")
    if longer > 3 * shorter and longer - shorter > 20:
        return RULES.index("length_ratio")
    if source == target and count_words(source) > 3:
        return RULES.index("copy")
    return -1
