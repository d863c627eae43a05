"""What only T5 has is imported: biases of positions, prompts, and settings that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from model.errors import UserError
from model.importing.importer import import_model, read_checkpoint
from tests.model.importing import families


def test_eight_bits_keep_the_biases_of_positions(tmp_path: Path) -> None:
    tokenizer = families.write_t5_tokenizer(tmp_path / "theirs")
    families.random_t5(len(tokenizer)).save_pretrained(tmp_path / "theirs")
    whole = read_checkpoint(str(tmp_path / "theirs")).model
    opened = import_model(str(tmp_path / "theirs"), tmp_path / "imported", 8).model
    for name, parameter in opened.named_parameters():
        if "biases" in name:
            torch.testing.assert_close(parameter, whole.get_parameter(name).half().float(), rtol=0, atol=0)


def test_prompts_are_kept(tmp_path: Path) -> None:
    tokenizer = families.write_t5_tokenizer(tmp_path / "theirs")
    tasks = {
        "summarization": {"prefix": "summarize: "},
        "translation_en_to_de": {"prefix": "translate English to German: ", "num_beams": 4},
        "translation_en_to_fr": {"prefix": "translate English to French: "},
        "translation_odd": {"prefix": 7},
        "translation_line": {"prefix": "a\nb"},
    }
    model = families.random_t5(len(tokenizer), task_specific_params=tasks)
    model.save_pretrained(tmp_path / "theirs")
    settings = json.loads((tmp_path / "theirs/config.json").read_text())
    (tmp_path / "theirs/config.json").write_text(json.dumps(settings | {"task_specific_params": tasks}))
    info = import_model(str(tmp_path / "theirs"), tmp_path / "imported").info
    assert info.prompts == ("translate English to German: ", "translate English to French: ")
    assert (info.source_language, info.target_language) == ("en", "mul")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feed_forward_proj": "gated-tanh"}, "feed_forward_proj"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon"),
        ({"num_decoder_layers": "3"}, "num_decoder_layers"),
        ({"num_decoder_layers": 1}, "is not part of a model"),
        ({"d_kv": 9}, "SelfAttention.q.weight"),
        ({"relative_attention_num_buckets": 30}, "n_buckets"),
        ({"relative_attention_num_buckets": 16}, "relative_attention_bias.weight"),
        ({"relative_attention_max_distance": 10}, "max_distance"),
        ({"vocab_size": 10**9}, "source_vocabulary"),
        ({"vocab_size": 10}, "does not fit"),
        ({"model_type": "umt5"}, "only models of"),
        ({"d_model": 64}, "shape"),
    ],
)
def test_other_settings_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    tokenizer = families.write_t5_tokenizer(tmp_path)
    families.random_t5(len(tokenizer)).save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | change))
    with pytest.raises(UserError, match=message):
        read_checkpoint(str(tmp_path))
