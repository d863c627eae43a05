import json
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import UserError
from model.text.tokenizer import (
    BOS_ID,
    EOS_ID,
    MAX_PIECE,
    PAD_ID,
    SPACE,
    SPECIALS,
    UNK_ID,
    Tokenizer,
    TokenizerKind,
    normalise,
    split_long_words,
)
from tests.model.helpers import SENTENCES, trained

KINDS: list[TokenizerKind] = ["bpe", "word", "character"]
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
MANY = settings(max_examples=40, deadline=None)
STRANGE = (
    "😀",
    "👩‍👩‍👧 🇩🇪",
    "שלום עולם",
    "مرحبا",
    "<script>alert('x')</script>",
    "</textarea>",
    "<s> Hund </s>",
    "</s><pad><unk><s>",
    "Stra\u00dfe \u2581\u2581 Hund",
    "a\u0301\u0301\u0301",
    "\x00\x1b[0m\u202e\ufeff",
    "\ud83d alone",
    "x" * 3000,
)

alphabet = st.sampled_from(sorted({*"".join(SENTENCES)}))
alphabet_text = st.lists(alphabet | st.sampled_from([" ", "  ", "\t"])).map("".join)
chunks = st.sampled_from(sorted({chunk for sentence in SENTENCES for chunk in sentence.split()}))
training_words = st.lists(st.tuples(chunks, st.sampled_from([" ", "   ", "\n"]))).map(
    lambda pairs: "".join(chunk + space for chunk, space in pairs)
)


def words_of(text: str) -> list[str]:
    """The text's words and marks, one by one: the meaning of a token's word index."""
    words: list[str] = []
    for chunk in text.split():
        glued = False
        for character in chunk:
            mark = unicodedata.category(character)[0] in "PS"
            if glued and not mark:
                words[-1] += character
            else:
                words.append(character)
            glued = not mark
    return words


# Round trip


@pytest.mark.parametrize("kind", ["bpe", "character"])
@MANY
@given(text=alphabet_text)
def test_text_of_known_characters_comes_back(kind: TokenizerKind, text: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert UNK_ID not in ids
    assert tokenizer.decode(ids) == normalise(text)


@EACH_KIND
@MANY
@given(text=training_words)
def test_text_of_training_words_comes_back(kind: TokenizerKind, text: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert UNK_ID not in ids
    assert tokenizer.decode(ids) == normalise(text)


@EACH_KIND
@pytest.mark.parametrize("sentence", SENTENCES)
def test_decomposed_umlauts_are_the_same_text(kind: TokenizerKind, sentence: str) -> None:
    tokenizer = trained(kind)
    decomposed = unicodedata.normalize("NFD", sentence)
    assert tokenizer.encode(decomposed) == tokenizer.encode(sentence)
    assert tokenizer.decode(tokenizer.encode(decomposed)) == sentence


@given(text=st.text() | st.sampled_from(STRANGE))
def test_normalise_is_idempotent_and_leaves_single_spaces(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert once == once.strip()
    assert "  " not in once
    assert SPACE not in once
    once.encode("utf-8")


def test_decode_leaves_specials_out_and_stops_at_the_end() -> None:
    tokenizer = trained("bpe")
    ids = tokenizer.encode("Ein kleiner Hund")
    framed = [BOS_ID, PAD_ID, *ids, UNK_ID, EOS_ID, *ids]
    assert tokenizer.decode(framed) == "Ein kleiner Hund"
    assert tokenizer.decode([]) == ""


# Any text


@EACH_KIND
@MANY
@given(text=st.text(max_size=40) | st.sampled_from(STRANGE))
def test_no_text_crashes_or_becomes_a_control_symbol(kind: TokenizerKind, text: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert not {PAD_ID, BOS_ID, EOS_ID} & set(ids)
    assert all(0 <= index < len(tokenizer) for index in ids)
    assert [token.piece for token in tokenizer.source_tokens(text)] == [*tokenizer.pieces(ids), "</s>"]
    tokenizer.decode(ids)


@EACH_KIND
@pytest.mark.parametrize("text", ["<s>", "</s>", "<pad>", "Hund </s> Schnee"])
def test_specials_stay_text_after_loading(kind: TokenizerKind, text: str, tmp_path: Path) -> None:
    trained(kind).save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    for ids in (loaded.encode(text), *loaded.encode_batch([text])):
        assert not {PAD_ID, BOS_ID, EOS_ID} & set(ids)


@EACH_KIND
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(alphabet_text | st.text(max_size=20) | st.sampled_from(STRANGE), max_size=6))
def test_encode_batch_equals_encode(kind: TokenizerKind, texts: list[str]) -> None:
    tokenizer = trained(kind)
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


# Tokens to show


@EACH_KIND
@MANY
@given(
    text=alphabet_text | training_words | st.sampled_from(["Straáße 😀 Hund", "zz yy, x", "Łódź (Žižkov)"])
)
def test_tokens_of_one_word_index_spell_that_word(kind: TokenizerKind, text: str) -> None:
    *tokens, end = trained(kind).source_tokens(text)
    assert end.special
    assert end.word is None
    indices = [token.word for token in tokens]
    spelled = [
        "".join(token.text for token in tokens if token.word == word).strip()
        for word in dict.fromkeys(indices)
    ]
    assert spelled == words_of(normalise(text))
    assert indices == sorted(indices)
    assert list(dict.fromkeys(indices)) == list(range(len(spelled)))


@EACH_KIND
def test_unknown_piece_shows_the_text_it_stands_for(kind: TokenizerKind) -> None:
    tokens = trained(kind).source_tokens("Hund 😀 Schnee.")
    (unknown,) = (token for token in tokens if token.piece == "<unk>")
    assert unknown.text == "😀"
    assert unknown.special
    assert unknown.word == 1


def test_specials_have_no_word_and_part_the_words_around_them() -> None:
    tokenizer = trained("bpe")
    hund = tokenizer.encode("Hund")
    tokens = tokenizer.tokens([BOS_ID, *hund, EOS_ID, *hund, PAD_ID])
    assert [token.text for token in tokens if token.word is None] == ["<s>", "</s>", "<pad>"]
    assert {token.word for token in tokens} == {None, 0, 1}
    assert [token.special for token in tokens] == [token.word is None for token in tokens]


# Training


@EACH_KIND
def test_ids_0_to_3_are_the_specials(kind: TokenizerKind) -> None:
    assert tuple(trained(kind).pieces(range(4))) == SPECIALS


@pytest.mark.parametrize("vocabulary", [80, 100, 120])
def test_vocabulary_size_is_an_upper_bound(vocabulary: int) -> None:
    assert len(Tokenizer.train(SENTENCES, "bpe", vocabulary)) <= vocabulary


def test_rare_words_are_left_out() -> None:
    tokenizer = Tokenizer.train(["Hund Hund Katze"], "word", min_frequency=2)
    assert tokenizer.encode("Hund Katze")[1:] == [UNK_ID]
    assert tokenizer.decode(tokenizer.encode("Hund")) == "Hund"


def test_no_piece_crosses_a_space_or_holds_a_mark_beside_a_letter() -> None:
    tokenizer = trained("bpe")
    for piece in tokenizer.pieces(range(4, len(tokenizer))):
        assert SPACE not in piece[1:]
        body = piece.removeprefix(SPACE)
        assert len(body) <= 1 or body.isalpha()


# Files


@EACH_KIND
def test_save_and_load_keep_everything(kind: TokenizerKind, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer = trained(kind)
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert loaded.pieces(range(len(loaded))) == tokenizer.pieces(range(len(tokenizer)))
    for text in (*SENTENCES, *STRANGE):
        assert loaded.source_tokens(text) == tokenizer.source_tokens(text)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tokenizer.json is missing"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"model": 1}', b"\xff\xfe\x00", b"null"])
def test_broken_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match="tokenizer.json is not (valid JSON|UTF-8|a tokenizer file)"):
        Tokenizer.load(path)


def test_foreign_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained("word").save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model"]["vocab"] = {"<unk>": 0, "Hund": 1}
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match="must begin with the entries <pad> <unk> <s> </s>"):
        Tokenizer.load(path)


def test_a_long_run_of_letters_is_learned_in_parts():
    """Named rule: `split_long_words`. The time for one word of 200,000 letters would be about 15 s."""
    started = time.monotonic()
    tokenizer = Tokenizer.train(["a" * 200_000, "Ein Hund."], "bpe", 200)
    assert time.monotonic() - started < 5
    assert max(map(len, tokenizer.pieces(range(len(tokenizer))))) <= MAX_PIECE
    text = "a" * 300
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(st.characters() | st.just("x"), max_size=400) | st.just("x" * 397))
def test_splitting_long_words_adds_spaces_inside_them_alone(text: str):
    split = split_long_words(text)
    assert split.replace(" ", "") == text.replace(" ", "")
    assert all(len(word) < MAX_PIECE for word in split.split())
    assert len(max(text.split(), key=len, default="")) >= MAX_PIECE or split == text


def test_an_entry_that_is_too_long_is_refused(tmp_path: Path):
    """A translation of such entries would take gigabytes."""
    path = tmp_path / "tokenizer.json"
    Tokenizer.train(["Ein Hund."], "word").save(path)
    path.write_text(path.read_text("utf-8").replace("Hund", "H" * 3_000_000), encoding="utf-8")
    with pytest.raises(UserError, match="an entry of 3,000,001 characters; at most 100 are read"):
        Tokenizer.load(path)
