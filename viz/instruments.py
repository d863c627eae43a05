"""What the instruments find, as plain values: the server sends them, and the charts draw them.

Words are ids of the target vocabulary, unless said otherwise; `tokens` says how each of them is written.
Layers, heads, rows and columns count from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar, cast

import torch

from model.analysis.alignment import (
    WordLinks,
    best_links,
    coverage,
    head_links,
    parse_gold,
    sentence_error,
    unlinked,
    word_links,
)
from model.analysis.circuits import Push, split_score, writing
from model.analysis.faithfulness import RemovalTarget, removal_curves
from model.analysis.jacobian_lens import load_lens
from model.analysis.leave_one_out import leave_one_out, tokens_and_words
from model.analysis.lens import Lens, nearness, words_of
from model.analysis.logit_attribution import StackShares, contributions
from model.analysis.routes import routes
from model.analysis.trace import Part, trace
from model.errors import Sentence, UserError, quote_untrusted
from model.network.transformer import check_head
from model.results import KINDS, Head, Source, Token
from model.translator import Translator
from viz.answers import (
    ContributionValues,
    LensTables,
    LensValues,
    LinkValues,
    MethodLinks,
    PartValues,
    RemovalValues,
    ScoreValues,
    ShareValues,
    WritingValues,
    Written,
)
from viz.payload import token_values
from viz.server.fields import (
    Index,
    KindName,
    OptionalCrossHead,
    OptionalIndex,
    OptionalWordId,
    Text,
    TokenIds,
    WordId,
)

Values = Callable[..., Mapping[str, object]]
Found = TypeVar("Found", bound=Mapping[str, object])


@dataclass(frozen=True)
class Instrument:
    """What answers a question about a translation: a function of a translator, its text, its ids, and more.

    The annotations of its parameters are the fields of its request.
    """

    values: Values
    cost: float  # the time that it takes, divided by the time of a translation


INSTRUMENTS: dict[str, Instrument] = {}


def instrument(name: str, cost: float) -> Callable[[Callable[..., Found]], Callable[..., Found]]:
    """Register the decorated function under the name of its request."""

    def register(values: Callable[..., Found]) -> Callable[..., Found]:
        INSTRUMENTS[name] = Instrument(values, cost)
        return values

    return register


@instrument("lens", cost=1.0)
def lens_values(translator: Translator, text: str | Source, ids: TokenIds) -> LensValues:
    """What the model would say after each layer."""
    model, predicted = translator.checkpoint.model, _tensor(translator, ids)
    encoder, decoder = trace(model, *translator.pair(text, ids))
    through = load_lens(translator.directory, model)
    found = words_of(model, decoder, predicted)
    carried = through and words_of(model, decoder, predicted, through.decoder)
    words = [each.words.flatten().tolist() for each in (found, carried) if each]
    return {
        **_lens(found),
        "jacobian": _lens(carried) if carried else None,
        "encoder": rounded(nearness(encoder)),
        "measured": through and through.measured,
        "tokens": _tokens(translator, chain.from_iterable(words)),
    }


def _lens(found: Lens) -> LensTables:
    return {
        "words": found.words.tolist(),
        "log_probabilities": rounded(found.log_probabilities),
        "chosen": rounded(found.chosen),
        "leads_from": list(found.leads_from),
    }


@instrument("leave_one_out", cost=1.5)
def leave_one_out_values(translator: Translator, text: str | Source, ids: TokenIds) -> Mapping[str, object]:
    """What each token of the translation loses while source tokens are hidden, one token or one word.

    `losses` and the likeliest words `likeliest` are [group][step]; `groups` are places of source tokens.
    """
    sentence = translator.source(text)
    source, read = translator.pair(sentence, ids)
    groups = tokens_and_words(sentence.tokens)
    predicted = _tensor(translator, ids)
    found = leave_one_out(translator.checkpoint.model, source, read, predicted, groups)
    return {
        "groups": [list(group) for group in groups],
        "losses": rounded(found.losses),
        "likeliest": found.likeliest.tolist(),
        "tokens": _tokens(translator, found.likeliest.flatten().tolist()),
    }


@instrument("routes", cost=0.6)
def route_values(
    translator: Translator, text: str | Source, ids: TokenIds, step: Index
) -> Mapping[str, object]:
    """The connections that carry most of the word of one step, and the tokens that it comes from."""
    found = routes(translator.checkpoint.model, *translator.pair(text, ids), step)
    return {
        "source": rounded(found.source),
        "prefix": rounded(found.prefix),
        "connections": [
            one._asdict()
            | {"share": round(one.share, 6), "flow": round(one.flow, 6)}
            | {"split": [round(each, 6) for each in one.split]}
            for one in found.connections
        ],
    }


@instrument("contributions", cost=0.8)
def contribution_values(
    translator: Translator,
    text: str | Source,
    ids: TokenIds,
    step: Index,
    word: WordId,
    other: OptionalWordId = None,
) -> ContributionValues:
    """What each part adds to the logit of `word`, or to its lead over `other`, at one step."""
    _check_words(translator, word, other)
    found = contributions(translator.checkpoint.model, *translator.pair(text, ids), step, word, other)
    return {
        "logit": round(found.logit, 6),
        "decoder": _shares(found.decoder),
        "encoder": _shares(found.encoder),
        "gradient": {kind: rounded(getattr(found.gradient, kind)) for kind in KINDS},
        "tokens": _tokens(translator, [word] if other is None else [word, other]),
    }


@instrument("cell", cost=0.4)
def cell_values(
    translator: Translator,
    text: str | Source,
    ids: TokenIds,
    kind: KindName,
    layer: Index,
    head: Index,
    row: Index,
    column: Index,
) -> Mapping[str, object]:
    """How the weight at `row` and `column` of one head was computed."""
    found = translator.cell(text, ids, Head(kind, layer, head), row, column)
    scores = zip(rounded(found.scores), found.allowed.tolist(), strict=True)
    return {
        "query": rounded(found.query),
        "key": rounded(found.key),
        "products": rounded(found.products),
        "scale": found.scale,
        "bias": found.bias,
        "score": found.score,
        "scores": [score if allowed else None for score, allowed in scores],
        "weights": rounded(found.weights),
        "norm": float(found.norms[column]),
        "row_norms": rounded(found.norms),
    }


@instrument("score_split", cost=0.6)
def score_values(
    translator: Translator,
    text: str | Source,
    ids: TokenIds,
    kind: KindName,
    layer: Index,
    head: Index,
    row: Index,
    column: Index,
) -> ScoreValues:
    """The score of one cell over pairs of what wrote the query and what wrote the key."""
    pair = translator.pair(text, ids)
    found = split_score(translator.checkpoint.model, *pair, Head(kind, layer, head), row, column)
    return {
        "score": round(found.score, 6),
        "bias": round(found.bias, 6),
        "query_parts": [_part(part) for part in found.query_parts],
        "key_parts": [_part(part) for part in found.key_parts],
        "matrix": rounded(found.matrix),
    }


@instrument("writing", cost=0.6)
def writing_values(
    translator: Translator,
    text: str | Source,
    ids: TokenIds,
    kind: KindName,
    layer: Index,
    head: Index,
    row: Index,
    column: Index,
) -> WritingValues:
    """The words that a head pushes up and down; for a head of the encoder, of the source vocabulary."""
    pair = translator.pair(text, ids)
    found = writing(translator.checkpoint.model, *pair, Head(kind, layer, head), row, column)
    source = kind == "encoder"
    return {
        "weight": round(found.weight, 6),
        "norm": round(found.norm, 6),
        "up": [_push(push) for push in found.up],
        "down": [_push(push) for push in found.down],
        "tokens": _tokens(translator, [push.word for push in (*found.up, *found.down)], source),
    }


@instrument("removal", cost=4.0)
def removal_values(
    translator: Translator,
    text: str | Source,
    ids: TokenIds,
    kind: KindName,
    layer: Index,
    row: Index,
    step: Index,
    head: OptionalIndex = None,
) -> RemovalValues:
    """The probability of the word of `step` while cells of one row are removed, ranked in five ways."""
    pair = (*translator.pair(text, ids), _tensor(translator, ids))
    target = RemovalTarget(*pair, kind, layer, head, row, step)
    found = removal_curves(translator.checkpoint.model, target)
    return {
        "curves": [
            {
                "name": curve.name,
                "order": curve.order,
                "probabilities": [round(value, 6) for value in curve.probabilities],
            }
            for curve in found
        ],
        "tokens": _tokens(translator, [ids[step]]),
    }


@instrument("links", cost=0.4)
def link_values(
    translator: Translator, text: str | Source, ids: TokenIds, head: OptionalCrossHead = None, gold: Text = ""
) -> LinkValues:
    """Word links by the best head, the average and, if given, one head; errors against `gold` if given.

    `gold` is in Pharaoh form, words counted from 0, with ipj for a possible link.
    """
    record = translator.score(text, ids).attention
    methods = [("best head", best_links(record)), ("average", word_links(record, None, False))]
    if head is not None:
        check_head(translator.checkpoint.model.config, head)
        if head.kind != "cross":
            raise UserError(Sentence("Only a head of cross-attention links words; choose one."))
        methods.append(("head", head_links(record, head)))
    reference = parse_gold(gold, first=0) if gold.strip() else None

    def values(name: str, found: WordLinks) -> MethodLinks:
        both = {"links": found.forward, "grown": found.grown}
        errors = None
        if reference is not None:
            errors = {
                each: round(sentence_error(links, reference, record), 6) for each, links in both.items()
            }
        return {
            "name": name,
            "head": None if found.head is None else list(found.head),
            "shifted": found.shifted,
            "agreement": round(found.agreement, 6),
            "links": sorted(map(list, found.forward)),
            "grown": sorted(map(list, found.grown)),
            "unlinked": list(unlinked(found.grown, record)),
            "errors": errors,
        }

    return {
        "methods": [values(*method) for method in methods],
        "coverage": rounded(coverage(record)),
        "source_words": word_texts(record.source),
        "target_words": word_texts(record.predicted),
        "gold": None if reference is None else sorted(map(list, reference.possible)),
    }


def word_texts(tokens: Iterable[Token]) -> list[str]:
    """The words of a sentence as a person reads them."""
    words: dict[int, str] = {}
    for token in tokens:
        if token.word is not None:
            words[token.word] = words.get(token.word, "") + token.text.strip()
    return [words[place] for place in sorted(words)]


def rounded(numbers: torch.Tensor) -> list[Any]:
    """Numbers with the six decimals that the page needs."""
    return numbers.cpu().double().round(decimals=6).tolist()


def _shares(found: StackShares) -> ShareValues:
    return {
        "tokens": rounded(found.tokens),
        "positions": rounded(found.positions),
        "heads": {kind: rounded(values) for kind, values in found.heads.items()},
        "feed_forward": rounded(found.feed_forward),
        "bias": round(found.bias, 6),
    }


def _part(part: Part) -> PartValues:
    return cast(PartValues, part._asdict())


def _push(push: Push) -> tuple[int, float]:
    return push.word, round(push.change, 6)


def _tokens(translator: Translator, ids: Iterable[int], source: bool = False) -> Written:
    """How each id is written."""
    tokenizer = translator.checkpoint.source_tokenizer if source else translator.checkpoint.target_tokenizer
    return {index: token_values(tokenizer.tokens([index])[0]) for index in dict.fromkeys(ids)}


def _tensor(translator: Translator, ids: Sequence[int]) -> torch.Tensor:
    return torch.tensor(list(ids), device=translator.device)


def _check_words(translator: Translator, *words: int | None) -> None:
    size = len(translator.checkpoint.target_tokenizer)
    for word in words:
        if word is not None and not 0 <= word < size:
            raise UserError(f"There is no word {quote_untrusted(word)}; give an id from 0 to {size - 1}.")
