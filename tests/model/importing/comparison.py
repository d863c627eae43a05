"""Compares an imported model with the model of transformers that it comes from."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from model.importing.families import FAMILIES
from model.importing.importer import import_model, read_checkpoint
from model.storage.checkpoint import load
from model.text.tokenizer import normalise
from model.translator import Translator
from tests.model.importing.checkpoints import ENGLISH, GERMAN, sentences
from tests.numerics import assert_float32, parts, scored

# The library leaves spare entries and broken bytes out of some texts, and codes of languages in M2M100's.
NOT_COMPARED = re.compile(r"<(unk_|extra_id_|unused )\d+>|\N{REPLACEMENT CHARACTER}|__[a-z]{2,3}__")


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


def equally_long(pair: Pair, groups: int) -> list[list[str]]:
    """Groups of at most eight sentences, with equally many tokens in a group."""
    texts: dict[int, list[str]] = {}
    for text in without_ties(300, seed=5):
        texts.setdefault(len(pair.tokenizer(text)["input_ids"]), []).append(text)
    return [group[:8] for group in sorted(texts.values(), key=len, reverse=True)[:groups]]


def check_translations(pair: Pair, beam: int, groups: int) -> None:
    """With no length penalty, where both conventions agree; ours never predicts <pad> and <unk>.

    The library translates a group at once: it pads nothing, and the longest translation is as long for each.
    """
    options: dict[str, Any] = {"num_beams": beam}  # also where it is 1: FSMT has 5 by default
    if beam > 1:
        options["length_penalty"] = 0.0
    if pair.code:
        options["forced_bos_token_id"] = pair.english
    for texts in equally_long(pair, groups):
        inputs = pair.tokenizer(texts, return_tensors="pt")
        generated = pair.theirs.generate(
            **inputs,
            max_new_tokens=2 * inputs["input_ids"].shape[1] + 10,
            bad_words_ids=[[pair.order[0]], [pair.order[1]]],
            do_sample=False,
            **options,
        )[:, 1:]
        for text, row in zip(texts, generated.tolist(), strict=True):
            check_translation(pair, text, row, beam)


def check_translation(pair: Pair, text: str, generated: list[int], beam: int) -> None:
    """Ours is what the library has generated, which pads it, with </s> where the id of <pad> is 0."""
    found = pair.ours.translate(f"{pair.code}{text}", beam_size=beam, length_penalty=0.0)
    ids = pair.ids(found.ids)
    assert ids == generated[: len(ids)]
    assert set(generated[len(ids) :]) <= {pair.theirs.config.pad_token_id, pair.theirs.config.eos_token_id}
    assert found.source.language_prefix == pair.code
    assert found.source.sentence == normalise(text)
    theirs = pair.tokenizer.decode(generated, skip_special_tokens=True)
    assert NOT_COMPARED.sub("", found.text).strip() == NOT_COMPARED.sub("", theirs).strip()


def check_directory(pair: Pair, output: Path) -> None:
    """The directory that the import writes gives the same translations without the checkpoint."""
    import_model(str(pair.directory), output, 32)
    opened = load(output)
    assert opened.model.config == pair.ours.checkpoint.model.config
    assert opened.source_tokenizer.to_json() == pair.ours.checkpoint.source_tokenizer.to_json()
    for text in ("Der kleine Hund läuft.", " Zwei  Äpfel, naïve café"):
        written = f"{pair.code}{text}"
        assert Translator(opened).translate(written).ids == pair.ours.translate(written).ids
