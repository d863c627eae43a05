import jaxtyping
import pytest
import torch

from model.network.masks import causal_mask, padding_mask


def test_padding_mask_is_true_for_real_tokens() -> None:
    mask = padding_mask(torch.tensor([[5, 6, 0], [7, 0, 0]]), pad_id=0)
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (1, 5), (3, 5)])
def test_causal_mask_lets_the_last_queries_see_themselves_and_what_came_before(
    queries: int, keys: int
) -> None:
    mask = causal_mask(queries, keys)
    assert mask.shape == (queries, keys)
    for query in range(queries):
        position = keys - queries + query
        assert mask[query].tolist() == [key <= position for key in range(keys)]


def test_shapes_are_checked_while_the_tests_run() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        padding_mask(torch.tensor([5, 6, 0]), pad_id=0)
