import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.decoding.beam_tree import (
    CUT,
    ENDED,
    FORCED,
    HOPELESS,
    IN_BEAM,
    NARROWED,
    OUTSCORED,
    BeamTrees,
    Node,
)
from model.decoding.search import SearchOptions, length_penalty, search
from model.tokenizer import EOS_ID
from tests.model.helpers import random_model, random_tokens, set_logits

LIMIT = 6
searches = {"seed": st.integers(0, 10_000), "sentences": st.integers(1, 4), "beam_size": st.integers(1, 4)}


def watched(
    seed: int, sentences: int, beam_size: int, size: int = 0
) -> tuple[BeamTrees, list[list[tuple[int, ...]]], list[list[tuple[int, ...]]]]:
    """The trees of a random search, and what it found with and without being watched."""
    model = random_model(seed, source_vocabulary=9, target_vocabulary=9)
    source = random_tokens(sentences, 5, seed=seed, vocabulary=9)
    prefix = random_tokens(sentences, size, seed=seed + 1, vocabulary=9)
    options, trees = SearchOptions(beam_size, 0.8, LIMIT), BeamTrees()
    found = search(model, source, options, prefix=prefix, trees=trees)
    plain = search(model, source, options, prefix=prefix)
    return trees, [[c.ids for c in row] for row in found], [[c.ids for c in row] for row in plain]


def path(nodes: list[Node], node: Node) -> tuple[int, ...]:
    before = () if node.parent is None else path(nodes, nodes[node.parent])
    return (*before, node.token)


@settings(max_examples=30, deadline=None)
@given(**searches, size=st.integers(0, 3))
def test_tree_holds_what_the_search_did(seed: int, sentences: int, beam_size: int, size: int) -> None:
    trees, found, plain = watched(seed, sentences, beam_size, size)
    assert found == plain
    for sentence in range(sentences):
        nodes = trees.nodes[sentence]
        finished = [node for node in nodes if node.status == "finished"]
        best_first = sorted(finished, key=lambda node: -node.score)
        assert [path(nodes, node) for node in best_first] == found[sentence]
        for place, node in enumerate(nodes):
            parent = None if node.parent is None else nodes[node.parent]
            assert node.step == (0 if parent is None else parent.step + 1)
            assert node.score == pytest.approx(node.log_probability / length_penalty(node.step + 1, 0.8))
            if parent is not None:
                assert node.parent < place
                assert parent.status == "kept"
                assert node.log_probability <= parent.log_probability + 1e-5
            assert (
                node.reason
                in {
                    "kept": {IN_BEAM, FORCED},
                    "finished": {ENDED, CUT},
                    "pruned": {OUTSCORED, NARROWED, HOPELESS},
                }[node.status]
            )
            assert (node.reason == FORCED) == (node.step < size)
            assert (node.reason == ENDED) <= (node.token == EOS_ID)
            assert (node.reason == CUT) <= (node.step == LIMIT - 1)


@settings(max_examples=20, deadline=None)
@given(**searches)
def test_no_node_left_out_of_a_step_beats_one_taken(seed: int, sentences: int, beam_size: int) -> None:
    trees, _, _ = watched(seed, sentences, beam_size)
    for nodes in trees.nodes.values():
        for step in {node.step for node in nodes}:
            row = [node for node in nodes if node.step == step]
            left_out = [n.log_probability for n in row if n.reason in (OUTSCORED, NARROWED)]
            taken = [n.log_probability for n in row if n.reason not in (OUTSCORED, NARROWED)]
            assert len(taken) <= beam_size
            assert max(left_out, default=-float("inf")) <= min(taken)


def test_each_way_to_be_pruned() -> None:
    # </s> a little likelier than one word, both far likelier than all others
    model = set_logits(random_model(tied=False), {EOS_ID: 9.0, 7: 8.9})
    trees = BeamTrees()
    search(model, random_tokens(1, 5), SearchOptions(2, 0.0, 8), trees=trees)
    nodes = trees.nodes[0]
    told = [(node.step, node.token, node.status, node.reason) for node in nodes]
    assert told[:2] == [(0, EOS_ID, "finished", ENDED), (0, 7, "pruned", HOPELESS)]
    assert {reason for *_, reason in told[2:]} == {OUTSCORED}
    trees = BeamTrees()
    search(model, random_tokens(1, 5), SearchOptions(2, 0.0, 8, n_best=2), trees=trees)
    second = [node for node in trees.nodes[0] if node.step == 1]
    assert [(node.token, node.status, node.reason) for node in second[:2]] == [
        (EOS_ID, "finished", ENDED),
        (7, "pruned", NARROWED),
    ]
