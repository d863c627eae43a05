import dataclasses

import jaxtyping
import pytest
import torch

from model.results import AttentionRecord, Token

SOURCE = tuple(Token(piece, piece, 0, False) for piece in "abcde")
TARGET = tuple(Token(piece, piece, 0, False) for piece in "xyz")


def record(**overrides: torch.Tensor) -> AttentionRecord:
    weights = {
        "encoder": torch.rand(2, 3, 5, 5),
        "decoder": torch.rand(4, 3, 3, 3),
        "cross": torch.rand(4, 3, 3, 5),
    }
    return AttentionRecord(**(weights | overrides), source=SOURCE, read=TARGET, predicted=TARGET)


def test_layers_of_encoder_and_decoder_may_differ() -> None:
    assert len(record().encoder) != len(record().decoder)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cross": torch.rand(4, 3, 5, 3)},  # axes swapped
        {"decoder": torch.rand(4, 3, 3, 5)},
        {"encoder": torch.rand(2, 3, 5, 4)},
        {"cross": torch.rand(3, 3, 3, 5)},  # fewer layers than the decoder
        {"cross": torch.rand(4, 2, 3, 5)},  # fewer heads
        {"encoder": torch.rand(1, 2, 3, 5, 5)},  # a batch
    ],
)
def test_axes_are_checked_while_the_tests_run(wrong: dict[str, torch.Tensor]) -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        record(**wrong)


def test_a_record_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().cross = torch.rand(4, 3, 3, 5)  # type: ignore[misc]
