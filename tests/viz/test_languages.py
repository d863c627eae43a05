"""Every text of the page is in every catalogue, with the same values, and no catalogue has another one."""

from __future__ import annotations

import re

import pytest

from model.errors import Sentence, UserError, said
from tests.viz.texts import all_texts, letter_texts, not_literal, places, script_texts
from viz.viewer import catalogues

LANGUAGES = ("de", "fr", "it")


@pytest.fixture(scope="module")
def texts() -> set[str]:
    return all_texts()


def forms(translation: str | dict[str, str]) -> list[str]:
    return [translation] if isinstance(translation, str) else list(translation.values())


def test_the_first_text_is_a_literal() -> None:
    assert not_literal() == []


def test_there_is_one_catalogue_for_each_language() -> None:
    assert tuple(catalogues()) == LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_has_every_text_and_no_other(language: str, texts: set[str]) -> None:
    catalogue = set(catalogues()[language])
    assert sorted(texts - catalogue) == []
    assert sorted(catalogue - texts) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_values_of_its_text(language: str) -> None:
    wrong = [
        text
        for text, translation in catalogues()[language].items()
        for form in forms(translation)
        if places(form) - {"count"} != places(text) - {"count"}
        or (isinstance(translation, str) and places(form) != places(text))
    ]
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_exactly_the_texts_about_a_count_have_a_form_for_one(language: str) -> None:
    _, counted = script_texts()
    assert {text for text, one in catalogues()[language].items() if isinstance(one, dict)} == counted
    assert all(set(catalogues()[language][text]) == {"one", "other"} for text in counted)


def test_what_is_said_of_letters_is_said_of_words_otherwise(texts: set[str]) -> None:
    pairs = letter_texts()
    assert len(pairs) > 50
    assert sorted(set(pairs) - texts) == []
    assert [one for one, other in pairs.items() if not places(other) <= places(one)] == []
    assert not [one for one in pairs.values() if re.search(r"(?<!\{)\bwords\b", one)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_is_plain_text(language: str) -> None:
    tags = re.compile(r"<(?!/?s>|unk>)")
    assert not [form for one in catalogues()[language].values() for form in forms(one) if tags.search(form)]


def test_french_has_a_narrow_space_before_high_punctuation() -> None:
    plain = re.compile(r"[ \u00a0][;?!»%]|\w[;?!»](?!\w)|« ")
    every = [form for one in catalogues()["fr"].values() for form in forms(one)]
    assert not [form for form in every if plain.search(form)]


def test_german_quotes_open_below() -> None:
    every = [form for one in catalogues()["de"].values() for form in forms(one)]
    assert all(form.count("„") == form.count("“") and "”" not in form for form in every)


def test_a_sentence_knows_its_template_and_its_values() -> None:
    sentence = Sentence("{count:,} of {of}", count=1200, of=Sentence("many"))
    assert sentence == "1,200 of many"
    assert said(UserError(sentence)) == ["{count:,} of {of}", {"count": 1200, "of": ["many", {}]}]
    assert said("{plain}") == ["{plain}", {}]
