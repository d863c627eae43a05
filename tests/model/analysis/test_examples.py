"""The survey of many sentences: distances by hand, hits that are cells of the records, counts that add up."""

from __future__ import annotations

import pytest
import torch

from model.analysis.definitions import ROLES
from model.analysis.examples import HITS_OF_ONE, N_HITS, Survey, head_distances, survey
from model.analysis.measures import head_roles, measure_heads
from model.errors import UserError
from model.instruments import survey_sentences
from model.results import KINDS
from model.translator import Translator
from tests.model.helpers import SENTENCES, tiny_checkpoint

pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(scope="module")
def translator():
    return Translator(tiny_checkpoint(seed=1))


@pytest.fixture(scope="module")
def records(translator):
    return [translator.score(text, "A small dog runs.").attention for text in SENTENCES]


def test_distance_by_hand():
    weights = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]])
    distances = head_distances(weights)
    # Half way between (1, 0) and (.5, .5) is (.75, .25), of .8113 bits; the rows have 0 and 1 bit.
    expected = torch.tensor([[0, 1, 0.3113], [1, 0, 0.3113], [0.3113, 0.3113, 0]])
    torch.testing.assert_close(distances, expected, rtol=0, atol=0.5e-4)  # four printed digits


@pytest.mark.parametrize("kind", KINDS)
def test_hits_are_the_largest_cells_between_words(records, kind):
    found = survey(records)
    for layer, head in ((0, 0), (1, 2)):
        hits = found.kinds[kind].heads[layer][head].hits
        assert len(hits) == N_HITS
        cells = []
        for place, record in enumerate(records):
            rows = record.source if kind == "encoder" else record.predicted
            columns = record.read if kind == "decoder" else record.source
            weights = getattr(record, kind)[layer, head]
            own = [
                (float(weights[row, column]), place, row, column)
                for row in range(len(rows))
                for column in range(len(columns))
                if rows[row].word is not None and columns[column].word is not None
            ]
            cells += sorted(own, reverse=True)[:HITS_OF_ONE]
        best = sorted(cells, reverse=True)[:N_HITS]
        assert [hit.weight for hit in hits] == pytest.approx([cell[0] for cell in best])
        for hit in hits:
            assert hit.weight == float(getattr(records[hit.sentence], kind)[layer, head, hit.row, hit.column])


def test_each_head_has_one_role_in_each_sentence(records):
    found = survey(records)
    for kind in KINDS:
        for row in found.kinds[kind].heads:
            assert all(head.roles.total() == len(records) for head in row)
    alone = head_roles(measure_heads(records[0])["cross"])
    first = survey(records[:1]).kinds["cross"].heads
    assert [[*head.roles] for row in first for head in row] == [[ROLES[role]] for role in alone.flatten()]


def test_pairs_count_rows_whose_strongest_key_is_a_word(records):
    found = survey(records[:1]).kinds["cross"].heads[1][2]
    record = records[0]
    columns = record.cross[1, 2].argmax(-1).tolist()
    for counted, rows in ((found.pairs, record.predicted), (found.read_pairs, record.read)):
        pairs = [
            (query.text, record.source[column].text)
            for query, column in zip(rows, columns, strict=True)
            if query.word is not None and record.source[column].word is not None
        ]
        assert sorted(counted.elements()) == sorted(pairs)
    encoder = survey(records[:1]).kinds["encoder"].heads
    assert not any(head.read_pairs for layer in encoder for head in layer)


def test_two_parts_add_up_to_the_whole(records):
    whole, rest = survey(records), Survey()
    for place, record in enumerate(records):
        rest.add(record, place)
    assert whole.sentences == rest.sentences == len(records)
    torch.testing.assert_close(whole.kinds["cross"].distances, rest.kinds["cross"].distances)
    halves = [survey(records[:3]), survey(records[3:])]
    together = sum(half.kinds["encoder"].distances for half in halves)
    torch.testing.assert_close(whole.kinds["encoder"].distances, together)


def test_unreadable_sentences_are_named_and_the_others_read(translator):
    sentences = [SENTENCES[0], "漢字", "", SENTENCES[1]]
    results = dict(survey_sentences(translator, sentences))
    assert {place for place, one in results.items() if isinstance(one, UserError)} == {1, 2}
    assert results[0].ids == translator.translate(SENTENCES[0]).ids
    assert results.keys() == set(range(4))


def test_translations_are_those_of_one_sentence(translator, monkeypatch):
    # Large batches are faster in bfloat16, which would change some translations, and so the rows of the hits.
    monkeypatch.setattr("model.decoding.step_decoder._bfloat16_pays", lambda: True)
    words = ("Hund", "Katze", "Haus", "Tisch", "Wald")
    sentences = [f"Ein {word} läuft {number}." for number in range(9) for word in words]
    found = dict(survey_sentences(translator, sentences))
    assert [found[place].ids for place in range(len(sentences))] == [
        translator.translate(text).ids for text in sentences
    ]
