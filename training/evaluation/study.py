"""The study of heads: measures what every head of a model does on sentences of the development sets.

What it finds, and the file that holds it: see `model.analysis.study`. Axis letters: L layers, H heads,
N heads of all kinds in the order of `Study.heads`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from model.analysis.ablation import gradient_importance, importance
from model.analysis.alignment import GoldAlignment
from model.analysis.definitions import ROLES
from model.analysis.measures import HeadMeasures, head_roles, measure_heads
from model.analysis.pooling import MeasurePool, nearest_role
from model.analysis.study import AblationCurve, Aligner, HeadFindings, Study
from model.errors import UserError
from model.network.config import ModelConfig
from model.network.transformer import HeadGates
from model.results import KINDS, AttentionRecord, Head, Kind, Token
from model.text.languages import codes_of, join_code, language_name
from model.translator import Translator
from training.corpus.sources import VALIDATION_NAMES
from training.corpus.splits import read_corpus
from training.evaluation.align import (
    AlignedWords,
    AlignmentHead,
    align_pairs,
    all_heads,
    best_head,
    error_rate,
    read_gold,
    taught_head,
)
from training.evaluation.evaluate import read_pairs, translate_sentences
from training.evaluation.metrics import new_bleu
from training.evaluation.rankings import rank_sources
from training.recipes import REVERSE_WORDS_SMALL

WORDS = (REVERSE_WORDS_SMALL.source_language, REVERSE_WORDS_SMALL.target_language)
GOLD_LANGUAGES = ("de", "en")
MAX_DROP = 5  # points below the score with every head, at which an ablation curve ends

SentencePair = tuple[str, str]


class PairMeasures(NamedTuple):
    """What every head did while the model read one pair with its reference."""

    record: AttentionRecord
    measures: dict[Kind, HeadMeasures]
    cost: Float[Tensor, " N"]
    gradient: Float[Tensor, " N"]


def study(
    translator: Translator, corpora: Path, gold: Path | None = None, size: int = 300, code: str = ""
) -> Study:
    """Measure every head on `size` development pairs, and on gold links if they fit the model.

    `corpora` holds a folder for each corpus, `gold` holds test.de, test.en and gold.talp. `code` names
    the target language, for a model with several. Raises UserError when no corpus has a development set in
    the model's languages.
    """
    languages = languages_of(translator, code)
    pairs, sets = sample_for(translator, corpora, size, code)
    measured = [measure_pair(translator, pair) for pair in tqdm(pairs, translator.name, disable=None)]
    heads = findings(measured, translator.checkpoint.model.config.taught_head)
    found = Study(
        model=translator.name,
        title=translator.checkpoint.info.title,
        score=score_name(translator),
        sets=sets,
        pairs=len(pairs),
        heads=heads,
        ablation_curves=(
            ablation_curve(translator, pairs, heads, "cost"),
            ablation_curve(translator, pairs, heads, "gradient"),
        ),
        rankings=rank_sources(translator, [source for source, _ in pairs]),
    )
    fits = tuple(map(language_name, languages)) == tuple(map(language_name, GOLD_LANGUAGES))
    return found if gold is None or not fits else with_alignment(found, translator, gold, code)


def languages_of(translator: Translator, code: str) -> tuple[str, str]:
    """Source and target language; `code` names the target of a model with several."""
    info = translator.checkpoint.info
    return info.source_language, code.strip("<>") or info.target_language


def sample_for(
    translator: Translator, corpora: Path, size: int, code: str = ""
) -> tuple[list[SentencePair], tuple[str, ...]]:
    """The sample of a model, whose sentences begin with the code, and the names of its sets."""
    pairs, sets = sample_pairs(corpora, languages_of(translator, code), size)
    return [(join_code(code, source), target) for source, target in pairs], sets


def sample_pairs(
    corpora: Path, languages: tuple[str, str], size: int
) -> tuple[list[SentencePair], tuple[str, ...]]:
    """Pairs that training has never seen, spread evenly over all development sets, and the sets' names."""
    if languages == WORDS:
        folders = sorted({path.parent for path in corpora.glob("*/*.txt")})
        validation = read_corpus(REVERSE_WORDS_SMALL, folders).validation
        pairs, sets = list(zip(validation["source"], validation["target"], strict=True)), ["held-out words"]
    else:
        pairs, sets = [], []
        for folder, name in product(sorted(corpora.glob("*/")), VALIDATION_NAMES):
            source, target = (_file_of(folder, name, language) for language in languages)
            if source and target:
                pairs += zip(*read_pairs(source, target), strict=True)
                sets.append(f"{folder.name}/{name}")
    if not pairs:
        wanted = " and ".join(f"dev.{language}" for language in languages)
        raise UserError(
            f"No folder in {corpora} has {wanted}; give --data the folder that holds the corpora."
        )
    count = min(size, len(pairs))
    return [pairs[place * len(pairs) // count] for place in range(count)], tuple(sets)


def _file_of(folder: Path, name: str, language: str) -> Path | None:
    """The file of a language, by whichever of its codes it is called."""
    files = (folder / f"{name}.{code}" for code in codes_of(language))
    return next((file for file in files if file.is_file()), None)


# Heads ----------------------------------------------------------------------------------------


def measure_pair(translator: Translator, pair: SentencePair) -> PairMeasures:
    """Measure every head on one pair. Raises UserError when the model cannot read the pair."""
    model, record = translator.checkpoint.model, translator.score(*pair).attention
    source, read, predicted = (_ids(tokens) for tokens in (record.source, record.read, record.predicted))
    changes = importance(model, source[None], predicted[None])
    gradients = gradient_importance(model, source, read, predicted)
    return PairMeasures(
        record,
        measure_heads(record),
        torch.cat([-change.flatten() for change in changes]),
        torch.cat([gradient.flatten() for gradient in gradients]),
    )


def findings(
    measured: Sequence[PairMeasures], taught: tuple[int, int] | None = None
) -> tuple[HeadFindings, ...]:
    """The findings about each head, from its measures over the rows of all sentences.

    `taught` is the layer and the cross-attention head that was taught to align.
    """
    cost = torch.stack([each.cost for each in measured]).mean(0).tolist()
    gradient = torch.stack([each.gradient for each in measured]).mean(0).tolist()
    heads: list[HeadFindings] = []
    for kind in KINDS:
        pooled = pool_measures(kind, measured)
        roles = head_roles(pooled)
        alone = torch.stack([head_roles(each.measures[kind]) for each in measured])
        agreement = (alone == roles).float().mean(0)
        for layer, head in product(*map(range, roles.shape)):
            role, place = ROLES[roles[layer, head]], len(heads)
            nearest, evidence = nearest_role(pooled, layer, head, role)
            heads.append(
                HeadFindings(
                    kind=kind,
                    layer=layer,
                    head=head,
                    role=role,
                    nearest_role=nearest,
                    evidence=evidence,
                    agreement=agreement[layer, head].item(),
                    entropy=pooled.entropy[layer, head].item(),
                    cost=cost[place],
                    gradient=gradient[place],
                    taught=kind == "cross" and (layer, head) == taught,
                )
            )
    return tuple(heads)


def pool_measures(kind: Kind, measured: Sequence[PairMeasures]) -> HeadMeasures:
    """The measures of one kind over the rows of all sentences; every row has the same weight."""
    pool = MeasurePool(kind)
    for pair in measured:
        pool.add(pair.record, pair.measures[kind])
    return pool.measures()


def _ids(tokens: Sequence[Token]) -> Int[Tensor, " S"]:
    return torch.tensor([token.id for token in tokens])


# Ablation -------------------------------------------------------------------------------------


def ablation_curve(
    translator: Translator,
    pairs: Sequence[SentencePair],
    heads: Sequence[HeadFindings],
    measure: Literal["cost", "gradient"],
) -> AblationCurve:
    """Scores of greedy translations while more and more heads are ablated, the smallest measure first."""
    order = sorted(range(len(heads)), key=lambda place: getattr(heads[place], measure))
    ablated: list[Head] = []
    scores = [score_without(translator, pairs, ablated)]
    for place in tqdm(order, f"{translator.name}, by {measure}", disable=None):
        ablated.append(Head(heads[place].kind, heads[place].layer, heads[place].head))
        scores.append(score_without(translator, pairs, ablated))
        if scores[-1] <= scores[0] - MAX_DROP:
            break
    return AblationCurve(measure, tuple(order), tuple(scores))


def score_without(translator: Translator, pairs: Sequence[SentencePair], ablated: Sequence[Head]) -> float:
    """The score of greedy translations without these heads."""
    return score_with(translator, pairs, HeadGates.ablating(translator.checkpoint.model.config, ablated))


def score_with(translator: Translator, pairs: Sequence[SentencePair], gates: HeadGates) -> float:
    """BLEU of greedy translations with these gates; for reversed words, the exact matches in %."""
    sources, references = zip(*pairs, strict=True)
    found, _ = translate_sentences(translator, sources, gates=gates, exact=True)
    if score_name(translator) == "BLEU":
        return float(new_bleu(references).corpus_score(found, [references]).score)
    matches = [one == other for one, other in zip(found, references, strict=True)]
    return 100 * matches.count(True) / len(matches)


def score_name(translator: Translator) -> str:
    """What `score_with` counts."""
    info = translator.checkpoint.info
    return "exact match" if (info.source_language, info.target_language) == WORDS else "BLEU"


# Alignment ------------------------------------------------------------------------------------


def with_alignment(found: Study, translator: Translator, gold: Path, code: str = "") -> Study:
    """The study with the alignment error rates of the cross-attention heads on gold links.

    A head's error rates count the source word that it chooses for each target word, on all lines.
    The best heads are chosen on lines 1, 3, ... by grow-diag and reported on lines 2, 4, ... The head that
    was taught to align, if there is one, comes last; the others are the best of the free heads.
    """
    sources, targets = read_pairs(*(gold / f"test.{language}" for language in GOLD_LANGUAGES))
    references = read_gold(gold / "gold.talp", sources, targets)
    aligned = align_pairs(translator, sources, targets, code=code)
    config = translator.checkpoint.model.config
    rates = [error_rate(head, aligned, references) for head in all_heads(config)]
    n_cross = len(rates) // 2  # each head counts twice: unshifted, then shifted
    first = len(found.heads) - n_cross  # cross-attention comes last
    cross = zip(found.heads[first:], rates[:n_cross], rates[n_cross:], strict=True)
    heads = (*found.heads[:first], *(replace(head, errors=(one, other)) for head, one, other in cross))
    free = [head for head in all_heads(config) if (head.layer, head.head) != config.taught_head]
    candidates = [[head for head in free if head.shifted == shifted] for shifted in (False, True)]
    if (taught := taught_head(translator.checkpoint)) is not None:
        candidates.append([taught])
    aligners = tuple(best_aligner(config, aligned, references, heads, first) for heads in candidates if heads)
    return replace(found, heads=heads, gold_pairs=len(references), aligners=aligners)


def best_aligner(
    config: ModelConfig,
    aligned: Sequence[AlignedWords | None],
    references: Sequence[GoldAlignment],
    heads: Sequence[AlignmentHead],
    first: int,
) -> Aligner:
    """The best of these heads; `first` is the place of the first cross-attention head."""
    best = best_head(heads, aligned, references, symmetrise=True)
    each_target, grown = (
        error_rate(best, aligned[1::2], references[1::2], symmetrise) for symmetrise in (False, True)
    )
    place = first + best.layer * config.n_heads + best.head
    return Aligner(place, best.shifted, each_target, grown, (best.layer, best.head) == config.taught_head)
