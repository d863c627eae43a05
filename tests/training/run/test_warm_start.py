"""A run that starts from another model has its weights, piece by piece."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model.errors import UserError
from model.network.transformer import Transformer
from model.storage.checkpoint import Checkpoint, ModelInfo, load, save
from model.text.charsmap import Charsmap
from model.text.multilingual import MultilingualTokenizer
from model.text.sentencepiece import Frame, SentencePiece, SentencePieceTokenizer
from model.text.tokenizer import SPECIALS, Tokenizer
from tests.model.helpers import SENTENCES, assert_sentence, random_model, tiny_checkpoint
from tests.training.tiny import PARALLEL, parallel_files, prepared, sentences
from training.run.damage import BEST
from training.run.directory import read_run
from training.run.warm_start import copy_weights
from training.trainer import Trainer

BART = {"positions": "learned", "n_positions": 200, "embedding_norm": True, "output_bias": True}


@pytest.mark.parametrize(("tied", "parts"), [(True, {}), (False, {}), (True, BART)])
def test_the_same_vocabulary_gives_the_same_model(tmp_path, tied, parts):
    other = tiny_checkpoint(tied, seed=1, **parts)
    save(other, tmp_path)
    model = tiny_checkpoint(tied, seed=2, **parts).model
    tokenizers = other.source_tokenizer, other.target_tokenizer
    known = copy_weights(model, tokenizers, tmp_path)
    assert known == (len(tokenizers[0]) if tied else sum(map(len, tokenizers)))
    stored = dict(load(tmp_path).model.named_parameters())
    for name, parameter in model.named_parameters():
        assert parameter.equal(stored[name])


def test_rows_are_those_of_the_same_piece_or_the_mean_of_its_parts(tmp_path):
    other = tiny_checkpoint(seed=1)
    old = other.source_tokenizer
    save(other, tmp_path)
    former = old.pieces(range(len(old)))
    new = Tokenizer.train([*SENTENCES[:3], "quite unlike"], "bpe", 75)
    config = replace(other.model.config, source_vocabulary=len(new), target_vocabulary=len(new))
    torch.manual_seed(3)
    model = Transformer(config)
    before, stored = model.output.weight.detach().clone(), load(tmp_path).model.output.weight
    known = copy_weights(model, (new, new), tmp_path)
    seen = {"same": 0, "parts": 0, "unknown": 0}
    for row, piece in enumerate(new.pieces(range(len(new)))):
        if piece in former:
            seen["same"] += 1
            expected = stored[former.index(piece)]
        elif not set(piece) <= set(former):
            seen["unknown"] += 1
            expected = before[row]
        else:
            seen["parts"] += 1
            parts = old.spell(piece)
            assert "".join(old.pieces(parts)) == piece
            expected = stored[parts].mean(0)
        assert model.output.weight[row].equal(expected), piece
    assert known == seen["same"]
    assert min(seen.values()) >= 1


def test_another_shape_is_refused_with_the_option(tmp_path):
    save(tiny_checkpoint(seed=1), tmp_path)
    other = tiny_checkpoint(seed=1, d_ff=24)
    with pytest.raises(UserError, match=r"d_ff 20, but the run has 24; .* --config\.model\.d-ff or start"):
        copy_weights(other.model, (other.source_tokenizer,) * 2, tmp_path)


SEGMENTER = SentencePiece("unigram", {"▁eins": -1.0}, Charsmap(b""))
PIECES = [*SPECIALS, "▁eins", ">>de<<"]


@pytest.mark.parametrize(
    ("tokenizer", "languages", "problem"),
    [
        (SentencePieceTokenizer(SEGMENTER, PIECES), ("fi", "en"), "has the vocabulary of an imported model"),
        (SentencePieceTokenizer(SEGMENTER, PIECES, Frame(first="▁eins")), ("de", "en"), "codes of languages"),
        (SentencePieceTokenizer(SEGMENTER, PIECES, Frame(after="▁eins")), ("de", "en"), "codes of languages"),
        (MultilingualTokenizer(SEGMENTER, PIECES, ">>de<<"), ("de", "en"), "codes of languages"),
    ],
)
def test_an_imported_model_that_cannot_be_trained_is_refused(tmp_path, tokenizer, languages, problem):
    model = random_model(source_vocabulary=len(PIECES), target_vocabulary=len(PIECES))
    save(Checkpoint(model, tokenizer, tokenizer, ModelInfo(*languages, "Tiny")), tmp_path / "model")
    with pytest.raises(UserError, match=problem) as caught:
        prepared(PARALLEL, parallel_files(tmp_path / "data"), tmp_path / "run", start=tmp_path / "model")
    assert_sentence(caught.value)


def test_a_run_starts_where_the_other_ended(tmp_path):
    data = parallel_files(tmp_path / "data", sentences(40))
    prepared(PARALLEL, data, tmp_path / "first").run()
    start = tmp_path / "first" / BEST
    trainer = Trainer(PARALLEL, [data], tmp_path / "second", start=start)
    trainer.prepare()
    stored = dict(load(start).model.named_parameters())
    assert all(parameter.equal(stored[name]) for name, parameter in trainer.model.named_parameters())
    assert read_run(tmp_path / "second")["from"] == str(start)
    assert trainer.progress.step == 0
