"""Measures what the heads of a model do on sentences of the development sets; see model/analysis/study.py.

Axis letters: L layers, H heads, Q queries, S keys; N heads of all kinds in the order of `Study.heads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple, cast, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from model.analysis.ablation import gradient_importance, importance
from model.analysis.alignment import GoldAlignment, alignment_error_rate
from model.analysis.measures import (
    ROLE_OF_OFFSET,
    ROLES,
    HeadMeasures,
    Kind,
    Positional,
    Role,
    head_roles,
    measure_heads,
)
from model.analysis.study import THRESHOLDS, AblationCurve, Aligner, HeadFindings, Study
from model.config import ModelConfig
from model.decoding.search import SearchOptions
from model.errors import UserError
from model.network.masks import causal_mask
from model.network.transformer import HeadGates
from model.results import AttentionRecord, Head, Token
from model.translator import Translator
from training.corpus.sources import VALIDATION_NAMES
from training.corpus.splits import read_corpus
from training.evaluation.align import Strongest, align_pairs, all_heads, best_head, read_gold
from training.evaluation.evaluate import read_pairs
from training.evaluation.metrics import score
from training.recipes import REVERSE_WORDS_SMALL

KINDS: tuple[Kind, ...] = get_args(Kind)
WORDS = (REVERSE_WORDS_SMALL.source_language, REVERSE_WORDS_SMALL.target_language)
GOLD_LANGUAGES = ("de", "en")
FAR = 5  # points that the score has fallen by when nothing more is silenced

Pair = tuple[str, str]


class Sample(NamedTuple):
    """Pairs that training has never seen, and the names of the sets that they come from."""

    pairs: list[Pair]
    sets: tuple[str, ...]


class Reading(NamedTuple):
    """What the model did with one pair, its reference given."""

    record: AttentionRecord
    measures: dict[Kind, HeadMeasures]
    cost: Float[Tensor, " N"]
    gradient: Float[Tensor, " N"]


def study(translator: Translator, corpora: Path, gold: Path | None = None, size: int = 300) -> Study:
    """Measure every head on so many development pairs, and on gold links where these fit the model.

    `corpora` holds a folder for each corpus, `gold` holds test.de, test.en and gold.talp. Raises
    UserError when no corpus has a development set in the model's languages.
    """
    info = translator.checkpoint.info
    languages = info.source_language, info.target_language
    pairs, sets = sample(corpora, languages, size)
    readings = [read(translator, pair) for pair in tqdm(pairs, translator.name, disable=None)]
    heads = findings(readings)
    exact = languages == WORDS
    found = Study(
        model=translator.name,
        title=info.title,
        score="exact match" if exact else "BLEU",
        sets=sets,
        pairs=len(pairs),
        heads=heads,
        silencing=(
            silence(translator, pairs, heads, [head.cost for head in heads], "cost when silent", exact),
            silence(translator, pairs, heads, [head.gradient for head in heads], "gradient", exact),
        ),
    )
    return found if gold is None or languages != GOLD_LANGUAGES else with_alignment(found, translator, gold)


# The sample -----------------------------------------------------------------------------------


def sample(corpora: Path, languages: tuple[str, str], size: int) -> Sample:
    """Pairs spread evenly over all development sets in these languages."""
    if languages == WORDS:
        folders = sorted({path.parent for path in corpora.glob("*/*.txt")})
        validation = read_corpus(REVERSE_WORDS_SMALL, folders).validation
        pairs, sets = list(zip(validation["source"], validation["target"], strict=True)), ["held-out words"]
    else:
        pairs, sets = [], []
        for folder, name in product(sorted(corpora.glob("*/")), VALIDATION_NAMES):
            files = [folder / f"{name}.{language}" for language in languages]
            if all(file.is_file() for file in files):
                pairs += zip(*read_pairs(files[0], files[1]), strict=True)
                sets.append(f"{folder.name}/{name}")
    if not pairs:
        wanted = " and ".join(f"dev.{language}" for language in languages)
        raise UserError(
            f"No folder in {corpora} has {wanted}; give --data the folder that holds the corpora."
        )
    count = min(size, len(pairs))
    return Sample([pairs[place * len(pairs) // count] for place in range(count)], tuple(sets))


# Heads ----------------------------------------------------------------------------------------


def read(translator: Translator, pair: Pair) -> Reading:
    """Let the model read a pair and measure every head. Raises UserError when it cannot read it."""
    model, record = translator.checkpoint.model, translator.score(*pair).attention
    source, reading, predicted = (_ids(tokens) for tokens in (record.source, record.read, record.predicted))
    silent = importance(model, source[None], predicted[None])
    gradients = gradient_importance(model, source, reading, predicted)
    return Reading(
        record,
        # Ids rank words from frequent to rare.
        measure_heads(record, source),
        torch.cat([-change.flatten() for change in silent]),
        torch.cat([gradient.flatten() for gradient in gradients]),
    )


def findings(readings: Sequence[Reading]) -> tuple[HeadFindings, ...]:
    """Each head by its measures over all sentences, every row counting the same."""
    cost, gradient = (
        torch.stack(values).mean(0).tolist()
        for values in ([each.cost for each in readings], [each.gradient for each in readings])
    )
    heads: list[HeadFindings] = []
    for kind in KINDS:
        pooled = pool(kind, readings)
        roles = head_roles(pooled)
        alone = torch.stack([head_roles(each.measures[kind]) for each in readings])
        agreement = (alone == roles).float().mean(0)
        for layer, head in product(*map(range, roles.shape)):
            role, place = ROLES[roles[layer, head]], len(heads)
            leaning, evidence = nearest_role(pooled, layer, head, role)
            heads.append(
                HeadFindings(
                    kind=kind,
                    layer=layer,
                    head=head,
                    role=role,
                    leaning=leaning,
                    evidence=evidence,
                    agreement=agreement[layer, head].item(),
                    entropy=pooled.entropy[layer, head].item(),
                    cost=cost[place],
                    gradient=gradient[place],
                )
            )
    return tuple(heads)


def pool(kind: Kind, readings: Sequence[Reading]) -> HeadMeasures:
    """The measures of one kind over the rows of all sentences."""
    each = [reading.measures[kind] for reading in readings]
    rows = torch.tensor([measures.queries for measures in each])

    def mean(values: Sequence[Tensor | None]) -> Float[Tensor, "L H"] | None:
        if any(value is None for value in values):
            return None
        return (torch.stack(cast(list[Tensor], values)) * rows[:, None, None]).sum(0) / rows.sum()

    return HeadMeasures(
        kind=kind,
        queries=int(rows.sum()),
        entropy=cast(Tensor, mean([measures.entropy for measures in each])),
        confidence=cast(Tensor, mean([measures.confidence for measures in each])),
        positional=pooled_positions(kind, [reading.record for reading in readings]),
        sink_mass=cast(Tensor, mean([measures.sink_mass for measures in each])),
        rare_share=mean([measures.rare_share for measures in each]),
        source_focus=mean([measures.source_focus for measures in each]),
    )


def pooled_positions(kind: Kind, records: Sequence[AttentionRecord]) -> Positional:
    """The most common of the offsets that are a role, over all sentences; see `measures.positional`."""
    offsets = torch.tensor(list(ROLE_OF_OFFSET))
    votes = [offset_votes(getattr(record, kind), kind, offsets.tolist()) for record in records]
    given = torch.stack([counts for counts, _ in votes]).sum(0)  # O L H
    able = torch.stack([possible for _, possible in votes]).sum(0)[:, None, None]
    share, best = (given / able.clamp(min=1)).max(0)
    return Positional(offsets[best], share, able.expand_as(given).gather(0, best[None])[0])


def offset_votes(
    weights: Float[Tensor, "L H Q S"], kind: Kind, offsets: Sequence[int]
) -> tuple[Int[Tensor, "O L H"], Int[Tensor, " O"]]:
    """For each offset the queries whose strongest key is there, and those that had it as one of several."""
    n_queries, n_keys = weights.shape[-2:]
    keys = torch.arange(n_keys) - torch.arange(n_queries)[:, None]  # as offsets
    allowed = causal_mask(n_queries, n_keys) if kind == "decoder" else torch.ones_like(keys, dtype=torch.bool)
    allowed &= allowed.sum(-1, keepdim=True) > 1
    strongest = weights.argmax(-1)
    votes, able = [], []
    for offset in offsets:
        can = ((keys == offset) & allowed).any(-1)
        votes.append(((strongest - torch.arange(n_queries) == offset) & can).sum(-1))
        able.append(can.sum())
    return torch.stack(votes), torch.stack(able)


def nearest_role(measures: HeadMeasures, layer: int, head: int, role: Role) -> tuple[Role, float]:
    """The role, or for a mixed head the one whose threshold it comes nearest to, and the measure behind."""
    all_measures: dict[Role, Tensor | None] = {
        "separator sink": measures.sink_mass,
        "rare word": measures.rare_share,
        "aligned": measures.source_focus,
    }
    if measures.kind != "cross":
        offset = int(measures.positional.offset[layer, head])
        all_measures[ROLE_OF_OFFSET[offset]] = measures.positional.share
    found = {name: values[layer, head].item() for name, values in all_measures.items() if values is not None}
    leaning = role if role in found else max(found, key=lambda name: found[name] / THRESHOLDS[name])
    return leaning, found[leaning]


def _ids(tokens: Sequence[Token]) -> Int[Tensor, " S"]:
    return torch.tensor([token.id for token in tokens])


# Silence --------------------------------------------------------------------------------------


def silence(
    translator: Translator,
    pairs: Sequence[Pair],
    heads: Sequence[HeadFindings],
    importances: Sequence[float],
    measure: str,
    exact: bool,
) -> AblationCurve:
    """Scores of greedy translations with ever more heads silent, the least important first."""
    order = sorted(range(len(heads)), key=importances.__getitem__)
    scores: list[float] = []
    for count in tqdm(range(len(heads) + 1), f"{translator.name}, by {measure}", disable=None):
        silent = [Head(heads[place].kind, heads[place].layer, heads[place].head) for place in order[:count]]
        scores.append(score_without(translator, pairs, silent, exact))
        if scores[-1] <= scores[0] - FAR:
            break
    return AblationCurve(measure, tuple(order), tuple(scores))


def score_without(
    translator: Translator, pairs: Sequence[Pair], silent: Sequence[Head], exact: bool
) -> float:
    """BLEU, or the share of exact matches in %, of greedy translations with these heads silent."""
    sources, references = zip(*pairs, strict=True)
    gates = HeadGates.ablating(translator.checkpoint.model.config, silent)
    hypotheses = [""] * len(pairs)
    for place, found in translator.translate_lines(sources, SearchOptions(), gates):
        if not isinstance(found, UserError) and found:
            hypotheses[place] = found[0].text
    scores = score(hypotheses, references)
    return scores.exact_match if exact else scores.bleu


# Alignment ------------------------------------------------------------------------------------


def with_alignment(found: Study, translator: Translator, gold: Path) -> Study:
    """The study with the alignment errors of the cross-attention heads on gold links.

    A head's errors are those of each target word's choice on all lines. The best heads are chosen
    on lines 1, 3, ... by grow-diag and reported on lines 2, 4, ...
    """
    sources, targets = read_pairs(*(gold / f"test.{language}" for language in GOLD_LANGUAGES))
    references = read_gold(gold / "gold.talp", sources, targets)
    aligned = align_pairs(translator, sources, targets)
    config = translator.checkpoint.model.config
    errors = head_errors(config, aligned, references)
    first = len(found.heads) - len(errors)  # cross-attention comes last
    heads = (
        *found.heads[:first],
        *(replace(head, errors=pair) for head, pair in zip(found.heads[first:], errors, strict=True)),
    )
    aligners = tuple(best_aligner(config, aligned, references, shifted, first) for shifted in (False, True))
    return replace(found, heads=heads, gold_pairs=len(references), aligners=aligners)


def head_errors(
    config: ModelConfig, aligned: Sequence[Strongest | None], references: Sequence[GoldAlignment]
) -> list[tuple[float, float]]:
    """Alignment error rate of each head, unshifted and shifted."""
    rates = [
        alignment_error_rate(
            (words.of(head).forward() if words else frozenset() for words in aligned), references
        )
        for head in all_heads(config)
    ]
    half = len(rates) // 2
    return list(zip(rates[:half], rates[half:], strict=True))


def best_aligner(
    config: ModelConfig,
    aligned: Sequence[Strongest | None],
    references: Sequence[GoldAlignment],
    shifted: bool,
    first: int,
) -> Aligner:
    """The best head by one kind of row; `first` is the place of the first cross-attention head."""
    heads = [head for head in all_heads(config) if head.shifted == shifted]
    best = best_head(heads, aligned, references, symmetrise=True)
    each_target, grown = (
        alignment_error_rate(
            [words.of(best).links(symmetrise) if words else frozenset() for words in aligned[1::2]],
            references[1::2],
        )
        for symmetrise in (False, True)
    )
    return Aligner(first + best.layer * config.n_heads + best.head, shifted, each_target, grown)
