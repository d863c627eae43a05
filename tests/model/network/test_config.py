import dataclasses
import json

import pytest

from model.errors import UserError
from model.network.config import ModelConfig
from tests.model.helpers import tiny_config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"taught_head": (0, 1)},
        {"positions": "learned", "n_positions": 7, "embedding_norm": True},
        {
            "positions": "relative",
            "n_buckets": 8,
            "max_distance": 6,
            "gated": True,
            "rms_norm": True,
            "d_key": 5,
        },
        {"autoregression": "ssru"},
        {"norm": "post", "tied": False, "target_vocabulary": 30, "dropout": 0.0},
    ],
)
def test_json_round_trip(changes: dict[str, object]) -> None:
    config = tiny_config(**changes)
    assert ModelConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiny_config().d_model = 8  # type: ignore[misc]


def test_heads_may_have_a_width_of_their_own() -> None:
    config = tiny_config(d_model=10, d_key=7)  # 10 is no multiple of 3 heads
    assert (config.d_head, config.d_attention) == (7, 21)


def test_heads_share_the_width() -> None:
    config = tiny_config()
    assert config.d_head * config.n_heads == config.d_model


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 0}, "d_model is 0"),
        ({"d_ff": 0}, "d_ff is 0"),
        ({"n_heads": -1}, "n_heads is -1"),
        ({"n_encoder_layers": 0}, "n_encoder_layers is 0"),
        ({"n_decoder_layers": 0}, "n_decoder_layers is 0"),
        ({"n_heads": 5}, "multiple of n_heads 5"),
        ({"d_model": 9}, "must be even"),
        ({"dropout": 1.0}, "dropout 1.0"),
        ({"dropout": -0.1}, "dropout -0.1"),
        ({"tied": True, "target_vocabulary": 14}, "one vocabulary"),
        ({"taught_head": (9, 0)}, r"taught_head is \[9, 0\]; give a layer"),
        ({"taught_head": (0, -1)}, "taught_head"),
        ({"positions": "learned"}, "set n_positions if"),
        ({"n_positions": 7}, "set n_positions if"),
        ({"positions": "relative"}, "set n_buckets if"),
        ({"n_buckets": 8}, "set n_buckets if"),
        ({"positions": "relative", "n_buckets": 8, "autoregression": "ssru"}, "without self-attention"),
        ({"autoregression": "rnn"}, "autoregression is .rnn"),
        ({"positions": "relative", "n_buckets": 6, "max_distance": 9}, "multiple of 4"),
        ({"positions": "relative", "n_buckets": 8, "max_distance": 4}, "more than half"),
        ({"d_key": -1}, "d_key is -1"),
    ],
)
def test_impossible_shapes_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        tiny_config(**changes)


def test_unknown_norm_is_refused() -> None:
    with pytest.raises(UserError, match="norm"):
        ModelConfig.from_json(tiny_config().to_json() | {"norm": "none"})


def test_unknown_settings_are_named() -> None:
    with pytest.raises(UserError, match="Unknown model settings: 'colour', 'flavour'"):
        ModelConfig.from_json(tiny_config().to_json() | {"flavour": 1, "colour": 2})


def test_missing_settings_are_named() -> None:
    with pytest.raises(UserError, match="incomplete.*target_vocabulary"):
        ModelConfig.from_json({"source_vocabulary": 10})


def test_a_model_without_a_taught_head_has_the_config_of_earlier_versions() -> None:
    assert "taught_head" not in tiny_config().to_json()


@pytest.mark.parametrize("value", [[0], [0, 1, 0], [0, 1.0], [True, 0], ["0", 0], "01", 0, {"0": 1}, None])
def test_a_taught_head_is_two_integers(value: object) -> None:
    with pytest.raises(UserError, match="setting taught_head"):
        ModelConfig.from_json(tiny_config().to_json() | {"taught_head": value})
