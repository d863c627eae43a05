import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.decoding.beam_tree import CUT, ENDED, FORCED, HOPELESS, IN_BEAM, NARROWED, OUTSCORED, BeamTree
from model.decoding.options import length_penalty
from model.decoding.search import search
from model.results import BeamNode, Token
from model.text.tokenizer import EOS_ID
from tests.model.helpers import LimitedSearch, random_model, random_tokens, set_logits

LIMIT = 6
searches = {"seed": st.integers(0, 10_000), "beam_size": st.integers(1, 4)}


def token(index: int) -> Token:
    return Token(str(index), str(index), None, False, index)


def watched(
    seed: int, beam_size: int, size: int = 0
) -> tuple[BeamTree, list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The tree of a random search, and what the search finds with and without it."""
    model = random_model(seed, source_vocabulary=9, target_vocabulary=9)
    source = random_tokens(1, 5, seed=seed, vocabulary=9)
    forced = random_tokens(1, size, seed=seed + 1, vocabulary=9)
    options, tree = LimitedSearch(beam_size, 0.8, max_length=LIMIT), BeamTree(token)
    (found,) = search(model, source, options, forced=forced, tree=tree)
    (plain,) = search(model, source, options, forced=forced)
    return tree, [c.ids for c in found], [c.ids for c in plain]


def path(nodes: list[BeamNode], node: BeamNode) -> tuple[int, ...]:
    before = () if node.parent is None else path(nodes, nodes[node.parent])
    return (*before, node.token.id)


@settings(max_examples=10, deadline=None)
@given(**searches, size=st.integers(0, 3))
def test_tree_holds_what_the_search_did(seed: int, beam_size: int, size: int) -> None:
    tree, found, plain = watched(seed, beam_size, size)
    assert found == plain
    nodes = tree.nodes
    finished = [node for node in nodes if node.status == "finished"]
    best_first = sorted(finished, key=lambda node: -node.score)
    assert [path(nodes, node) for node in best_first] == found
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
        assert (node.reason == ENDED) <= (node.token.id == EOS_ID)
        assert (node.reason == CUT) <= (node.step == LIMIT - 1)


@settings(max_examples=10, deadline=None)
@given(**searches)
def test_no_node_left_out_of_a_step_beats_one_taken(seed: int, beam_size: int) -> None:
    tree, _, _ = watched(seed, beam_size)
    nodes = tree.nodes
    for step in {node.step for node in nodes}:
        row = [node for node in nodes if node.step == step]
        left_out = [n.log_probability for n in row if n.reason in (OUTSCORED, NARROWED)]
        taken = [n.log_probability for n in row if n.reason not in (OUTSCORED, NARROWED)]
        assert len(taken) <= beam_size
        assert max(left_out, default=-float("inf")) <= min(taken)


def test_each_way_to_be_pruned() -> None:
    # </s> a little likelier than one word, both far likelier than all others
    model = set_logits(random_model(tied=False), {EOS_ID: 9.0, 7: 8.9})
    tree = BeamTree(token)
    search(model, random_tokens(1, 5), LimitedSearch(2, 0.0), tree=tree)
    told = [(node.step, node.token.id, node.status, node.reason) for node in tree.nodes]
    assert told[:2] == [(0, EOS_ID, "finished", ENDED), (0, 7, "pruned", HOPELESS)]
    assert {reason for *_, reason in told[2:]} == {OUTSCORED}
    tree = BeamTree(token)
    search(model, random_tokens(1, 5), LimitedSearch(2, 0.0, n_best=2), tree=tree)
    second = [node for node in tree.nodes if node.step == 1]
    assert [(node.token.id, node.status, node.reason) for node in second[:2]] == [
        (EOS_ID, "finished", ENDED),
        (7, "pruned", NARROWED),
    ]
