"""Broken and hostile checkpoints of every family but MarianMT are refused; test_refused.py has MarianMT's."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model.errors import UserError
from model.importing.importer import read_checkpoint
from tests.model.importing.test_families import CASES


@pytest.mark.parametrize(
    ("family", "name", "change", "message"),
    [
        ("BART", "merges.txt", "a b c\n", "not pairs"),
        ("BART", "merges.txt", "xx yy\n", "not both pieces"),
        ("BART", "vocab.json", '{"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}', "no piece for 256"),
        ("BART", "tokenizer.json", '{"model": {"type": "BPE"}}', "pairs of bytes"),
        ("FSMT", "merges.txt", "a\n", "not pairs"),
        ("FSMT", "vocab-src.json", "[]", "not a list of entries"),
        ("FSMT", "vocab-tgt.json", '{"<s>": 0}', "no entry"),
        ("FSMT", "tokenizer_config.json", '{"langs": ["en"]}', "langs"),
        ("T5 1.0", "config.json", {"feed_forward_proj": "gated-tanh"}, "feed_forward_proj"),
        ("T5 1.0", "config.json", {"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon"),
        ("T5 1.0", "config.json", {"num_decoder_layers": "3"}, "num_decoder_layers"),
        ("T5 1.0", "config.json", {"num_decoder_layers": 1}, "is not part of a model"),
        ("T5 1.0", "config.json", {"d_kv": 9}, "SelfAttention.q.weight"),
        ("T5 1.0", "config.json", {"relative_attention_num_buckets": 30}, "n_buckets"),
        ("T5 1.0", "config.json", {"relative_attention_num_buckets": 16}, "relative_attention_bias.weight"),
        ("T5 1.0", "config.json", {"relative_attention_max_distance": 10}, "max_distance"),
        ("T5 1.0", "config.json", {"vocab_size": 10**9}, "source_vocabulary"),
        ("T5 1.0", "config.json", {"vocab_size": 10}, "does not fit"),
        ("T5 1.0", "config.json", {"model_type": "umt5"}, "only models of"),
        ("T5 1.0", "config.json", {"d_model": 64}, "shape"),
        ("NLLB", "tokenizer.json", lambda j: j["model"].update(type="WordPiece"), ""),
        ("NLLB", "tokenizer.json", lambda j: j["model"].update(merges=[["a"]]), ""),
        ("NLLB", "tokenizer.json", lambda j: j["model"]["vocab"].update(x=10**9), "does not fit"),
        ("NLLB", "tokenizer.json", lambda j: j["model"]["vocab"].update(x="y"), ""),
        (
            "NLLB",
            "tokenizer.json",
            lambda j: j.update(normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+"}}),
            "",
        ),
        (
            "NLLB",
            "tokenizer.json",
            lambda j: j["normalizer"]["normalizers"][0].update(precompiled_charsmap="!"),
            "",
        ),
        ("NLLB", "tokenizer.json", lambda j: j.update(pre_tokenizer={"type": "ByteLevel"}), ""),
        ("NLLB", "tokenizer.json", lambda j: j.update(pre_tokenizer=[]), ""),
        (
            "NLLB",
            "tokenizer.json",
            lambda j: j.update(added_tokens=[{"id": -1, "content": "<mask>"}]),
            "does not fit",
        ),
        ("NLLB", "tokenizer.json", lambda j: j.update(added_tokens=[]), "tokens of languages"),
        ("NLLB", "tokenizer.json", lambda j: j.update(added_tokens=7), ""),
        ("NLLB", "config.json", lambda j: j.update(vocab_size=10), ""),
        ("NLLB", "config.json", lambda j: j.update(vocab_size=10**9), "source_vocabulary"),
        ("NLLB", "config.json", lambda j: j.update(pad_token_id=0), ""),
        ("NLLB", "config.json", lambda j: j.update(eos_token_id=[2]), ""),
        ("NLLB", "generation_config.json", lambda j: j.update(decoder_start_token_id=-1), "does not fit"),
        ("NLLB", "config.json", lambda j: j.update(tie_word_embeddings=False), ""),
        ("NLLB", "config.json", lambda j: j.update(d_model=2, encoder_attention_heads=1), ""),
        ("NLLB", "generation_config.json", lambda j: j.update(bad_words_ids=[["a"]]), ""),
        ("mBART-50", "config.json", {"max_position_embeddings": 100}, "has 100 positions; Headlight needs"),
        ("mBART-50", "config.json", {"max_position_embeddings": 400}, "embed_positions.weight"),
        ("mBART-50", "generation_config.json", {"decoder_start_token_id": 303}, "decoder_start_token_id"),
        (
            "mBART-50",
            "tokenizer_config.json",
            {"tokenizer_class": "MBartTokenizer"},
            "without a target language",
        ),
    ],
)
def test_broken_checkpoints_are_refused(
    family: str,
    name: str,
    change: str | dict[str, Any] | Callable[[Any], object],
    message: str,
    tmp_path: Path,
) -> None:
    """A change is the new content of a file, new settings, or an edit of its JSON.

    Without a message of its own, the sentence names the file.
    """
    model, _ = CASES[family].make(tmp_path)
    model.save_pretrained(tmp_path)
    if family == "FSMT":  # one of its changes is in another file that names the languages
        config = json.loads((tmp_path / "config.json").read_text())
        del config["langs"]
        (tmp_path / "config.json").write_text(json.dumps(config))
    content = change
    if not isinstance(change, str):
        content = json.loads((tmp_path / name).read_text())
        content = content | change if isinstance(change, dict) else (change(content), content)[1]
        content = json.dumps(content)
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message or re.escape(name)):
        read_checkpoint(str(tmp_path))
