"""Compares an imported model with the model of transformers that it comes from."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from model.importing.families import FAMILIES
from model.importing.importer import import_model, read_checkpoint
from model.storage.checkpoint import load
from model.text.tokenizer import normalise
from model.translator import Translator
from tests.model.importing.checkpoints import ENGLISH, GERMAN, sentences
from tests.numerics import assert_float32, parts, scored

# Beams and numbers of sentences; the issue of every family is 40 of each.
SEARCHES = [
    (4, 6),
    pytest.param(1, 40, marks=pytest.mark.slow),
    pytest.param(4, 40, marks=pytest.mark.slow),
]


class Pair(NamedTuple):
    """The same model twice."""

    theirs: Any
    ours: Translator
    tokenizer: Any  # theirs
    directory: Path
    order: list[int]  # their id of each of ours
    code: str = ""  # of English with the space after it, in a model of many languages
    english: int | None = None  # their id of it

    def ids(self, ours: Any) -> list[int]:
        """Our ids as theirs."""
        return [self.order[index] for index in ours]


def pair_of(directory: Path, theirs: Any, tokenizer: Any, code: str = "") -> Pair:
    """Save their model into the directory of its tokenizer, and import it."""
    theirs.save_pretrained(directory)
    plan = FAMILIES[theirs.config.model_type].read_plan(directory)
    ours = Translator(read_checkpoint(str(directory)))
    order = plan.sides.target.order.tolist()
    if not code:
        return Pair(theirs, ours, tokenizer, directory, order)
    english = tokenizer.get_lang_id(code) if code == "en" else tokenizer.convert_tokens_to_ids(code)
    return Pair(theirs, ours, tokenizer, directory, order, f">>{code}<< ", english)


def without_ties(count: int, seed: int) -> list[str]:
    """Sentences without …, which becomes three points: a unigram model has two cuts of equal score for it."""
    return [text for text in sentences(GERMAN, count + 20, seed=seed) if "…" not in text][:count]


def check_tokens(pair: Pair, joint: bool = True) -> None:
    """The tokens of sources are equal, and so is their text if both languages have one vocabulary."""
    source = pair.ours.checkpoint.source_tokenizer
    for text in without_ties(40, seed=1):
        ids = pair.tokenizer(text)["input_ids"]
        assert pair.ids([*source.encode(text), *source.ending]) == ids
        shown = source.source_tokens(text)
        assert pair.ids([token.id for token in shown]) == ids
        if joint:
            assert source.decode(source.encode(text)) == pair.tokenizer.decode(ids, skip_special_tokens=True)


def check_numbers(pair: Pair) -> None:
    """Attention and log-probabilities are equal but for the rounding of float32."""
    for text, target in zip(sentences(GERMAN, 4, seed=3), sentences(ENGLISH, 4, seed=4), strict=True):
        found = pair.ours.score(f"{pair.code}{text}", target)
        ids = pair.ids(found.ids)
        assert not pair.code or ids[0] == pair.english
        with torch.no_grad():
            theirs = pair.theirs(
                **pair.tokenizer(text, return_tensors="pt"),
                decoder_input_ids=torch.tensor([[pair.order[2], *ids[:-1]]]),
                output_attentions=True,
                use_cache=False,  # with a cache FSMT forgets the causal mask
            )
        chosen = theirs.logits[0].log_softmax(-1)[range(len(ids)), ids]
        kinds = theirs.encoder_attentions, theirs.decoder_attentions, theirs.cross_attentions
        exact = partial(scored, pair.ours, f"{pair.code}{text}", target)
        for one in ((chosen, *(torch.stack(kind)[:, 0] for kind in kinds)), parts(found)):
            assert_float32(one, exact, pair.ours.checkpoint.model)


def check_translations(pair: Pair, beam: int, count: int) -> None:
    """With no length penalty, where both conventions agree; ours never predicts <pad> and <unk>."""
    options: dict[str, Any] = {"num_beams": beam}  # also where it is 1: FSMT has 5 by default
    if beam > 1:
        options["length_penalty"] = 0.0
    if pair.code:
        options["forced_bos_token_id"] = pair.english
    for text in without_ties(count, seed=5):
        inputs = pair.tokenizer(text, return_tensors="pt")
        generated = pair.theirs.generate(
            **inputs,
            max_new_tokens=2 * inputs["input_ids"].shape[1] + 10,
            bad_words_ids=[[pair.order[0]], [pair.order[1]]],
            do_sample=False,
            **options,
        )[0, 1:]
        found = pair.ours.translate(f"{pair.code}{text}", beam_size=beam, length_penalty=0.0)
        assert pair.ids(found.ids) == generated.tolist()
        assert found.source.language_prefix == pair.code
        assert found.source.sentence == normalise(text)
        assert "<s>" not in found.text
        assert ">>" not in found.text


def check_directory(pair: Pair, output: Path) -> None:
    """The directory that the import writes gives the same translations without the checkpoint."""
    import_model(str(pair.directory), output, 32)
    opened = load(output)
    assert opened.model.config == pair.ours.checkpoint.model.config
    assert opened.source_tokenizer.to_json() == pair.ours.checkpoint.source_tokenizer.to_json()
    for text in ("Der kleine Hund läuft.", " Zwei  Äpfel, naïve café"):
        written = f"{pair.code}{text}"
        assert Translator(opened).translate(written).ids == pair.ours.translate(written).ids
