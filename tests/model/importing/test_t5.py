"""What only T5 has is imported: biases of positions, prompts, and settings that are refused."""

import json
from pathlib import Path

import torch

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
