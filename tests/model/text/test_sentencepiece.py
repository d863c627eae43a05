"""Our SentencePiece against Google's and against MarianTokenizer, which only the tests install."""

import base64
import json
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from model.errors import TooLongError, UserError
from model.importing.files.spm import read_spm
from model.importing.files.tokenizers import SpecialIds, read_tokenizers
from model.text.charsmap import MAX_KEY, Charsmap
from model.text.multilingual import load_tokenizer
from model.text.sentencepiece import MAX_LOOKUPS, MAX_NORMALISED, MAX_PIECE, SentencePieceTokenizer
from model.text.tokenizer import EOS_ID, SPECIALS, UNK_ID, Tokenizer
from tests.hostile import tokenizers as hostile_tokenizers
from tests.model.helpers import assert_sentence
from tests.model.importing import checkpoints as marian

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"  # outside the checkout, not everywhere
HARD = [
    "",
    "   ",
    " a  b ",
    "▁",
    "▁▁Hund▁ ",
    "e\u0301\u0323x A\u030a",
    "\u1100\u1161\u11a8 각",
    "ﷺ ﬁ ½ ﾊﾟ ΐ ẛ\u0323 İ ǅ",
    "a\u200bb\u00a0c\u3000d\ufeff",
    "漢字漢 Hund 漢",
    "👩‍👩‍👧 🇩🇪",
    "\x00a\x00",
    "\tTab\nZeile\r\n",
    "ｆｕｌｌ　ｗｉｄｔｈ",
    "....... ...",
    "<s></s><unk><pad>",
    "<0xE2><0x82>",
    ">>fra<< Der Hund",
    ">>xyz<< Der Hund",
    ">> Der << Hund",
    ">><<Hund",
    "Hund >>fra<< Katze",
    "a" * 300,
    "der Hund " * 100,
    "\u202eabc",
    "half \ud800 a pair",
]
RANGES = (
    (1, 0x2FF),
    (0x300, 0x36F),
    (0x1100, 0x11FF),
    (0x2000, 0x2FFF),
    (0x3040, 0xD7A0),
    (0xF900, 0xFFEF),
    (0x10000, 0x1FFFF),
)
KINDS = [
    ("unigram", "nmt_nfkc", False),
    ("unigram", "identity", True),
    ("bpe", "nmt_nfkc", True),
    ("bpe", "identity", False),
    ("unigram", "nfkc_cf", False),
]
MODELS = pytest.mark.parametrize(("kind", "rule", "bytes_"), KINDS)


def hostile(count: int) -> list[str]:
    """Strings of characters from everywhere, combining marks and spaces among them."""
    draw = random.Random(0)
    found = list(HARD)
    while len(found) < count:
        length = draw.randint(1, 40)
        codes = [draw.choice([draw.randint(*draw.choice(RANGES)), 0x20, 0x2581, 0x64]) for _ in range(length)]
        found.append("".join(map(chr, codes)))
    return found


def tokenizers(directory: Path) -> tuple[Any, SentencePieceTokenizer, SentencePieceTokenizer]:
    pad = marian.sizes_of(directory)[1] - 1
    source, target = read_tokenizers(directory, marian.sizes_of(directory), SpecialIds(pad, eos=0, start=pad))
    return marian.tokenizer(directory), source.tokenizer, target.tokenizer


def assert_equal(theirs: Any, ours: SentencePieceTokenizer, texts: list[str], side: str) -> None:
    """Pieces, ids and the text again; ids are compared by their entries."""
    vocabulary = theirs.target_encoder if side == "target" and theirs.separate_vocabs else theirs.encoder
    entries = {index: entry for entry, index in vocabulary.items()}
    for text in texts:
        plain = text.encode("utf-8", "replace").decode("utf-8")
        ids = theirs(**{"text" if side == "source" else "text_target": plain})["input_ids"]
        found = [*ours.encode(text), EOS_ID]
        assert ours.pieces(found) == [entries[index] for index in ids], text
        expected = theirs.decode(ids, skip_special_tokens=True)  # with codes, which ours leaves out
        assert ours.decode(found) == re.sub(r"^(>>(fra|ita)<<\s*)+", "", expected), text


@MODELS
def test_pieces_ids_and_text_equal_those_of_MarianTokenizer(
    kind: str, rule: str, bytes_: bool, tmp_path: Path
) -> None:
    source, target = (marian.spm(language, kind, rule, bytes_=bytes_) for language in ("de", "en"))
    marian.write_tokenizer(tmp_path, source, target, codes=(">>fra<<", ">>ita<<"))
    theirs, *ours = tokenizers(tmp_path)
    strings = hostile(120)
    for side, tokenizer, words in zip(
        ("source", "target"), ours, (marian.GERMAN, marian.ENGLISH), strict=True
    ):
        assert_equal(theirs, tokenizer, marian.sentences(words, 60, seed=1) + strings, side)


def test_each_side_keeps_its_own_scores_and_pieces(tmp_path: Path) -> None:
    marian.write_tokenizer(tmp_path, marian.spm("de"), marian.spm("en"))
    _, source, target = tokenizers(tmp_path)
    assert source.vocabulary == target.vocabulary
    assert source.segmenter.scores != target.segmenter.scores
    text = "The little dog sleeps."
    assert source.encode(text) != target.encode(text)
    assert source.decode(target.encode(text)) == text


def test_two_vocabularies(tmp_path: Path) -> None:
    marian.write_tokenizer(tmp_path, marian.spm("de"), marian.spm("en"), separate=True)
    theirs, source, target = tokenizers(tmp_path)
    assert source.vocabulary != target.vocabulary
    assert_equal(theirs, target, marian.sentences(marian.ENGLISH, 30) + HARD, "target")
    entries = {index: entry for entry, index in theirs.encoder.items()}
    for text in marian.sentences(marian.GERMAN, 30):  # MarianTokenizer cannot decode these
        ids = theirs(text)["input_ids"]
        assert source.pieces(source.encode(text)) == [entries[index] for index in ids[:-1]]
        assert source.decode(source.encode(text)) == text.replace("…", "...")


@pytest.mark.slow
@MODELS
def test_ten_thousand_sentences_and_300_hostile_strings(
    kind: str, rule: str, bytes_: bool, tmp_path: Path
) -> None:
    """Of real text where there is some next to the checkout, otherwise of sentences made here."""
    texts = {"de": marian.sentences(marian.GERMAN, 10_000), "en": marian.sentences(marian.ENGLISH, 10_000)}
    if (SHARED / "tatoeba-de-en").is_dir():
        for language in texts:
            lines = (SHARED / "tatoeba-de-en" / f"train.{language}").read_text(encoding="utf-8").split("\n")
            texts[language] = lines[:: len(lines) // 10_000][:10_000]
    source, target = (
        marian.trained(tuple(lines), kind, rule, 4000, bytes_=bytes_) for lines in texts.values()
    )
    marian.write_tokenizer(tmp_path, source, target, codes=(">>fra<<",))
    theirs, *ours = tokenizers(tmp_path)
    strings = hostile(300)
    for side, tokenizer, lines in zip(("source", "target"), ours, texts.values(), strict=True):
        assert_equal(theirs, tokenizer, lines + strings, side)


def test_spaces_stay_where_the_model_keeps_them() -> None:
    """Models trained without a space before the first word and with every space kept."""
    model = marian.trained(
        tuple(marian.sentences(marian.GERMAN, 400)),
        "unigram",
        "nmt_nfkc",
        120,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
    )
    google = sentencepiece.SentencePieceProcessor(model_proto=model)
    segmenter = marian.segmenter(model)
    for text in ["der Hund", "  der   Hund  ", " ", *marian.sentences(marian.GERMAN, 20)]:
        assert [each.piece for each in segmenter.segment(text)] == google.encode(text, out_type=str)


# What the page shows


@pytest.fixture
def tokenizer(tmp_path: Path) -> SentencePieceTokenizer:
    marian.write_tokenizer(tmp_path, marian.spm("de"), marian.spm("en"), codes=(">>fra<<", ">>ita<<"))
    return tokenizers(tmp_path)[1]


def test_source_tokens_know_their_words_and_what_unknown_pieces_were(
    tokenizer: SentencePieceTokenizer,
) -> None:
    tokens = tokenizer.source_tokens(">>fra<< Der Hund 漢字!")
    assert tokens[0].piece == ">>fra<<"
    assert tokens[-1].id == EOS_ID
    unknown = [token for token in tokens if token.id == UNK_ID]
    assert [token.text for token in unknown] == ["漢字"]
    dog = [token.word for token in tokens if token.text and token.text in "Hund"]
    assert len(set(dog)) == 1
    assert tokens[0].word is None
    assert tokenizer.language_codes == (">>fra<<", ">>ita<<")


def test_spans_cover_the_characters_of_each_token(tokenizer: SentencePieceTokenizer) -> None:
    text = "Der ﬁese  Hund läuft"
    ids, spans = tokenizer.encode_spans(text)
    assert tokenizer.spans_batch([text, ""]) == [spans, []]
    assert ids == tokenizer.encode(text)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    starts = dict(zip(tokenizer.pieces(ids), (start for start, _ in spans), strict=True))
    assert text[starts["▁läuft"] :].strip() == "läuft"


# Files


def test_round_trip_needs_no_other_program(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    tokenizer.encode("Hund")
    tokenizer.save(tmp_path / "t.json")
    again = load_tokenizer(tmp_path / "t.json")
    assert isinstance(again, SentencePieceTokenizer)
    texts = marian.sentences(marian.GERMAN, 20) + HARD
    assert again.encode_batch(texts) == tokenizer.encode_batch(texts)
    assert again.to_json() == tokenizer.to_json()
    assert len(again) == len(tokenizer)


def test_our_own_tokenizers_are_still_read(tmp_path: Path) -> None:
    Tokenizer.train(["ein Hund"], "bpe", 40).save(tmp_path / "t.json")
    assert type(load_tokenizer(tmp_path / "t.json")) is Tokenizer


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(algorithm="word"),
        lambda s: s.update(extra=1),
        lambda s: s.pop("scores"),
        lambda s: s.update(vocabulary=list(SPECIALS[:3])),
        lambda s: s["vocabulary"].append(7),
        lambda s: s["vocabulary"].append(""),
        lambda s: s["vocabulary"].append("x" * (MAX_PIECE + 1)),
        lambda s: s["vocabulary"].append("\ud800"),
        lambda s: s["scores"].update({"x": "high"}),
        lambda s: s["scores"].update({"x": 1e300}),
        lambda s: s["scores"].update({"": 1.0}),
        lambda s: s["scores"].update({"x": True}),
        lambda s: s.update(charsmap="no base 64!"),
        lambda s: s.update(charsmap="AAAA"),
        lambda s: s.update(charsmap="/////w=="),
        lambda s: s.update(byte_fallback=1),
    ],
)
def test_changed_files_are_refused_in_one_sentence(
    change: Any, tokenizer: SentencePieceTokenizer, tmp_path: Path
) -> None:
    settings = json.loads(tokenizer.to_json())
    change(settings)
    (tmp_path / "t.json").write_text(json.dumps(settings))
    with pytest.raises(UserError) as caught:
        load_tokenizer(tmp_path / "t.json")
    assert_sentence(caught.value)


def test_random_charsmaps_end(tokenizer: SentencePieceTokenizer) -> None:
    """Whatever the table says, every text comes to an end, within the longest replacement."""
    draw = random.Random(0)
    table = bytearray(tokenizer.segmenter.charsmap.table)
    for _ in range(60):
        broken = bytearray(table[: draw.randint(5000, len(table))] if draw.random() < 0.5 else table)
        for _ in range(2000):
            broken[draw.randrange(4, len(broken))] = draw.randrange(256)
        broken[:4] = (draw.randrange(1, len(broken) // 4) * 4).to_bytes(4, "little")
        try:
            charsmap = Charsmap(bytes(broken))
        except ValueError:
            continue
        text, place = "Für ﬁese Ḩunde e\u0301 漢", 0
        while place < len(text):
            replaced, end = charsmap.replace(text, place)
            assert end > place
            assert len(replaced) <= 128
            place = end


def test_a_charsmap_with_a_cycle_is_refused(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    """Every place of a text would be compared with the whole rest of it."""
    settings = json.loads(tokenizer.to_json())
    settings["charsmap"] = base64.b64encode(hostile_tokenizers.cyclic()).decode()
    (tmp_path / "t.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="charsmap") as caught:
        load_tokenizer(tmp_path / "t.json")
    assert_sentence(caught.value)


def test_a_long_key_is_read_and_a_longer_one_is_refused() -> None:
    def chain(length: int) -> bytes:
        """A trie with one key of so many letters; the children of the node n begin at 256 n."""
        units = [1 << 31] * 256 * (length + 2)
        units[0], node = 256 << 10, 256
        for depth in range(1, length + 1):
            place = node ^ ord("a")
            node = 256 * (depth + 1)
            units[place] = (place ^ node) << 10 | (depth == length) << 8 | ord("a")
        units[node] = 1 << 31
        return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + b"x\0"

    assert Charsmap(chain(MAX_KEY)).replace("a" * MAX_KEY, 0) == ("x", MAX_KEY)
    with pytest.raises(ValueError, match="long keys"):
        Charsmap(chain(MAX_KEY + 1))


def test_a_text_that_grows_too_long_is_refused() -> None:
    slow = hostile_tokenizers.slow_tokenizer(longest=16)
    fits = (MAX_NORMALISED - 1) // hostile_tokenizers.GROWTH  # a space comes before it
    ids = slow.encode("a" * fits)
    assert sum(map(len, slow.pieces(ids))) > 0.98 * MAX_NORMALISED
    with pytest.raises(TooLongError) as caught:
        slow.encode("a" * (fits + 1))
    assert_sentence(caught.value)


def test_a_text_with_too_many_possible_pieces_is_refused() -> None:
    slow = hostile_tokenizers.slow_tokenizer()
    fits = MAX_LOOKUPS // (MAX_PIECE * hostile_tokenizers.GROWTH)
    assert slow.encode("a" * fits)
    with pytest.raises(TooLongError):
        slow.encode("a" * (fits + 1))


@pytest.mark.parametrize("cut", [0, 1, 50, 3000, -1])
def test_broken_model_files_are_refused_in_one_sentence(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "source.spm"
    path.write_bytes(marian.spm("de")[:cut])
    with pytest.raises(UserError) as caught:
        read_spm(path)
    assert_sentence(caught.value)


def test_fuzzed_model_files_are_read_or_refused(tmp_path: Path) -> None:
    draw, model, path = random.Random(0), marian.spm("de"), tmp_path / "source.spm"
    refused = 0
    for _ in range(150):
        broken = bytearray(model)
        for _ in range(draw.randint(1, 30)):
            broken[draw.randrange(min(len(broken), 6000))] = draw.randrange(256)
        path.write_bytes(broken)
        try:
            read_spm(path).segmenter.segment("Der kleine Hund läuft.")
        except UserError as error:
            assert_sentence(error)
            refused += 1
    assert 0 < refused <= 150


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "word"}, "is of words or characters"),
        ({"kind": "char"}, "is of words or characters"),
        ({"treat_whitespace_as_suffix": True}, "marks spaces at the end"),
        ({"user_defined_symbols": ["<gap>"]}, "its user defined"),
    ],
)
def test_models_of_another_kind_are_refused_by_name(
    options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    kind = options.pop("kind", "unigram")
    path = tmp_path / "source.spm"
    path.write_bytes(
        marian.trained(("der Hund läuft", "die Katze schläft") * 20, kind, "identity", 40, **options)
    )
    with pytest.raises(UserError, match=says) as caught:
        read_spm(path)
    assert_sentence(caught.value)
