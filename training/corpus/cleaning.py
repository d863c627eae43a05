"""Cleaning: drops sentence pairs that are useless for training, by named rules."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from datasets import Dataset

from training.corpus.links import linked_share
from training.hardware import forget_mapped_pages, worker_processes

NOT_TEXT = ("\ufffd", "\x00")  # from bytes that are not UTF-8, and from UTF-16
RULES = ("empty", "not_text", "length_ratio", "copy", "unaligned", "duplicate")
LEAST_LINKED = 0.4  # share of the words of a side


def clean(pairs: Dataset) -> tuple[Dataset, dict[str, int], str]:
    """The pairs that no rule drops, how many each rule dropped, and a digest of the rest.

    empty: a side has no text. not_text: a side has a character that comes from a decoding error.
    length_ratio: one side has over three times the characters of the other and over 20 more. copy: the
    target equals a source of over three words. unaligned: under LEAST_LINKED of the words of a side have a
    link, if the pairs have a column of links. duplicate: the same pair came before.
    """
    judged = pairs.map(
        _judge, batched=True, remove_columns=pairs.column_names, num_proc=worker_processes(len(pairs))
    )
    verdict = np.asarray(judged.with_format("numpy")["verdict"][:])
    digest = np.asarray(judged.with_format("numpy")["digest"][:])
    first = np.zeros(len(verdict), dtype=bool)
    first[np.unique(digest, return_index=True)[1]] = True
    verdict = np.where((verdict == -1) & ~first, RULES.index("duplicate"), verdict)
    counts = {rule: int((verdict == i).sum()) for i, rule in enumerate(RULES)}
    kept = np.flatnonzero(verdict == -1)
    return pairs.select(kept), counts, hashlib.sha256(digest[kept].tobytes()).hexdigest()


def _judge(batch: Mapping[str, list[str]]) -> dict[str, list[int]]:
    forget_mapped_pages()
    pairs = list(zip(batch["source"], batch["target"], strict=True))
    digests = [hashlib.blake2b("\n".join(p).encode(), digest_size=8).digest() for p in pairs]
    verdicts = [_verdict(*pair) for pair in pairs]
    if "links" in batch:
        for place, (line, pair) in enumerate(zip(batch["links"], pairs, strict=True)):
            if verdicts[place] == -1 and linked_share(line, *pair) < LEAST_LINKED:
                verdicts[place] = RULES.index("unaligned")
    return {
        "verdict": verdicts,
        "digest": [int.from_bytes(digest, "big", signed=True) for digest in digests],
    }


def _verdict(source: str, target: str) -> int:
    shorter, longer = sorted((len(source), len(target)))
    if not shorter:
        return RULES.index("empty")
    if any(sign in source + target for sign in NOT_TEXT):
        return RULES.index("not_text")
    if longer > 3 * shorter and longer - shorter > 20:
        return RULES.index("length_ratio")
    if source == target and source.count(" ") >= 3:
        return RULES.index("copy")
    return -1
