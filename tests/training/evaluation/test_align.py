"""Word alignment of files: words, heads, halves of the gold lines, and refused input."""

from __future__ import annotations

import json
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.analysis.alignment import grow_diag, parse_gold, strongest_words
from model.errors import UserError
from model.inputs import MAX_TOKENS
from model.storage.checkpoint import save
from model.text.tokenizer import EOS_ID, TokenizerKind, normalise
from model.translator import Translator
from tests.model.helpers import SENTENCES, pharaoh_links, read_target, tiny_checkpoint, tiny_config, trained
from tests.numerics import assert_float32, translator_of
from tests.training.tiny import write_lines
from training.evaluation.align import (
    AlignedWords,
    AlignmentHead,
    TokenisedLine,
    align_files,
    align_pairs,
    aligned_words,
    all_heads,
    best_head,
    cross_weights,
    read_gold,
    read_words,
)

# Words without punctuation, so that the tokenizer's words are those between spaces. Their lengths differ,
# so that batches are padded.
SOURCES = ["Ein kleiner Hund", "die Äpfel kosten", "Öffne", "es ist heiß sehr heiß", ""]
TARGETS = ["A small dog runs", "The apples", "open the door", "it going through the snow today", ""]
GOLD = ["1-1 2-2 3-3 3p4", "2-1 3-2", "1-1", "1-1 2-2 3-3 4-4 5-5", ""]
HEADS = [
    AlignmentHead(layer, head, shifted) for layer in (0, 3) for head in (0, 2) for shifted in (False, True)
]


@pytest.fixture(params=[True, False], ids=["joint", "separate"])
def translator(request) -> Translator:
    return Translator(tiny_checkpoint(request.param, seed=1))


@pytest.fixture
def files(tmp_path):
    """Source, target and gold."""
    for name, lines in (("de", SOURCES), ("en", TARGETS), ("talp", GOLD)):
        write_lines(tmp_path / f"test.{name}", lines)
    return tuple(tmp_path / f"test.{name}" for name in ("de", "en", "talp"))


# The words of a line


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_tokens_know_the_space_separated_word_that_they_came_from(kind: TokenizerKind):
    line = "How's it, (pro Kilo)! 2,50 Euro"
    tokenizer = trained(kind)
    sentence = read_words(tokenizer, line)
    assert sentence.ids == [*tokenizer.encode(line), EOS_ID]
    assert sentence.words[-1] is None
    spelled = ["" for _ in line.split(" ")]
    for token, word in zip(tokenizer.source_tokens(line)[:-1], sentence.words[:-1], strict=True):
        spelled[word] += token.text.strip()
    assert spelled == line.split(" ")


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
@given(words=st.lists(st.text("aÄe\u0301.,'x2 \u00a0\u2581語", max_size=5), max_size=6))
def test_every_word_that_is_not_empty_gets_tokens_in_order(kind: TokenizerKind, words: list[str]):
    line = " ".join(words)
    kept = [word for word in line.split(" ") if word]
    found = read_words(trained(kind), line).words[:-1]
    assert found == sorted(found)
    assert set(found) == {index for index, word in enumerate(kept) if normalise(word)}


def test_a_word_with_a_no_break_space_inside_is_one_word():
    assert read_words(trained("character"), "a\u00a0b  c").words == [0, 0, 0, 1, 1, None]


def test_an_invisible_word_keeps_its_number():
    words = read_words(trained("word"), "Ein \u2581 Hund").words
    assert words == [0, 2, None]


# Weights of given targets


def exact_cross(translator, text, ids, model):
    return read_target(translator_of(translator, model), text, ids)[0].cross


def test_weights_of_a_padded_batch_are_those_of_each_pair_alone(translator):
    checkpoint = translator.checkpoint
    checkpoint.model.train()  # the weights must come from eval mode all the same
    pairs = [
        (read_words(checkpoint.source_tokenizer, source), read_words(checkpoint.target_tokenizer, target))
        for source, target in zip(SOURCES[:4], TARGETS[:4], strict=True)
    ]
    for text, (_, target), cross in zip(SOURCES, pairs, cross_weights(checkpoint.model, pairs), strict=False):
        record, _ = read_target(translator, text, target.ids)
        for found in (cross, record.cross):
            assert_float32(found, partial(exact_cross, translator, text, target.ids), checkpoint.model)


def test_alignment_is_that_of_the_record(translator):
    """In these sentences both have the same words, so both must agree, for all heads and for each one."""
    aligned = align_pairs(translator, SOURCES, TARGETS)
    for place in range(4):
        ids = [*translator.checkpoint.target_tokenizer.encode(TARGETS[place]), EOS_ID]
        record, _ = read_target(translator, SOURCES[place], ids)
        assert aligned[place].sources.tolist() == [
            strongest_words(
                record.cross, [token.word for token in queries], [token.word for token in record.source]
            ).tolist()
            for queries in (record.predicted, record.read)
        ]
    for head in HEADS:
        for each, one in zip(aligned, align_pairs(translator, SOURCES, TARGETS, head), strict=True):
            assert all(map(torch.equal, one, each.of(head)))


def test_each_side_chooses_by_its_own_words():
    """Source words 0 and 1 have one token each, target word 0 has two tokens and word 1 has one; then </s>.

    Unshifted, target word 0 has rows 0 and 1, their means 0.3 and 0.45, and word 1 row 2; source
    word 0 has 0.6 for target word 0 and 0.8 for word 1, source word 1 has 0.9 and 0.1. Shifted,
    target word 0 has rows 1 and 2, means 0.45 and 0.4, and word 1 row 3.
    """
    cross = torch.tensor([[[[0.5, 0.2, 0.3], [0.1, 0.7, 0.2], [0.8, 0.1, 0.1], [0.3, 0.6, 0.1]]]])
    source, target = (
        TokenisedLine([5, 6, EOS_ID], [0, 1, None]),
        TokenisedLine([7, 8, 9, EOS_ID], [0, 0, 1, None]),
    )
    found = aligned_words(cross, source, target)
    assert found.sources.tolist() == [[[[1, 0]]], [[[0, 1]]]]
    assert found.targets.tolist() == [[[[1, 0]]], [[[0, 0]]]]
    shifted = found.of(AlignmentHead(0, 0, True))
    assert shifted.forward() == {(0, 0), (1, 1)}
    assert shifted.backward() == {(0, 0), (1, 0)}
    assert shifted.links(symmetrise=False) == shifted.forward()
    assert shifted.links(symmetrise=True) == {(0, 0), (1, 0), (1, 1)}


# Choosing a head


def test_best_head_is_chosen_on_odd_lines_alone():
    """One head is right on lines 1 and 3, another on lines 2 and 4, which have more links."""
    odd, even = AlignmentHead(2, 1, True), AlignmentHead(1, 2, False)
    references = [parse_gold(line) for line in ("1-2", "1-1 2-2 3-3", "2-1", "3-1 2-2 1-3")]
    answers = ([-1, 0], [0, 1, 2], [1], [2, 1, 0])
    aligned = []
    for number, answer in enumerate(answers, start=1):
        words = torch.full((2, 4, 3, len(answer)), 5)
        head = odd if number % 2 else even
        words[int(head.shifted), head.layer, head.head] = torch.tensor(answer)
        aligned.append(AlignedWords(words, words))
    heads = all_heads(tiny_config())
    assert best_head(heads, aligned, references) == odd
    assert best_head(heads, aligned[1:], references[1:]) == even
    heads.remove(odd)
    assert best_head(heads, aligned, references) == heads[0]  # all others are equally wrong


def test_symmetrised_lines_are_chosen_and_joined_from_both_sides(translator, files):
    found = align_files(translator, *files, symmetrise=True)
    pairs = align_pairs(translator, SOURCES, TARGETS, found.head)
    joined = [grow_diag(pair.forward(), pair.backward()) for pair in pairs]
    assert [pharaoh_links(line) for line in found.lines] == joined
    for head in HEADS:
        lines = align_files(translator, *files[:2], head=head, symmetrise=True).lines
        assert error_rate(lines[::2], GOLD[::2]) >= found.error_rates["odd"]


def error_rate(lines: list[str], gold: list[str]) -> float:
    hits = total = 0
    for line, reference in zip(lines, map(parse_gold, gold), strict=True):
        found = pharaoh_links(line)
        hits += len(found & reference.sure) + len(found & reference.possible)
        total += len(found) + len(reference.sure)
    return 1 - hits / total


def test_rates_are_those_of_their_lines_and_no_head_is_better_on_the_odd_lines(translator, files):
    found = align_files(translator, *files)
    assert found.error_rates == pytest.approx(
        {
            "all": error_rate(found.lines, GOLD),
            "odd": error_rate(found.lines[::2], GOLD[::2]),
            "even": error_rate(found.lines[1::2], GOLD[1::2]),
        }
    )
    for head in HEADS:
        lines = align_files(translator, *files[:2], head=head).lines
        assert error_rate(lines[::2], GOLD[::2]) >= found.error_rates["odd"]


def test_a_named_head_is_scored_on_all_lines(translator, files):
    found = align_files(translator, *files, head=HEADS[1])
    assert found.head == HEADS[1]
    assert found.error_rates == pytest.approx({"all": error_rate(found.lines, GOLD)})


def test_a_taught_head_aligns_where_it_reads_unless_another_is_named(files):
    taught = Translator(tiny_checkpoint(seed=1, taught_head=(2, 1)))
    for gold in ((), files[2:]):
        found = align_files(taught, *files[:2], *gold)
        assert (found.head, found.taught) == (AlignmentHead(2, 1, shifted=True), True)
    named = align_files(taught, *files, head=HEADS[1])
    assert (named.head, named.taught) == (HEADS[1], False)


# Sentences over the token limit


def test_a_pair_too_long_for_the_model_is_an_empty_line(translator, files):
    expected = align_files(translator, *files[:2], head=HEADS[0])
    for side in (0, 1):
        lines = [*(SOURCES, TARGETS)[side]]
        lines[1] = "Hund " * MAX_TOKENS
        write_lines(files[side], lines)
        found = align_files(translator, *files[:2], head=HEADS[0])
        assert found.skipped == 1
        assert found.lines == [expected.lines[0], "", *expected.lines[2:]]
        write_lines(files[side], (SOURCES, TARGETS)[side])
    assert expected.skipped == 0


def test_the_token_limit_is_that_of_the_translator(translator, tmp_path):
    """With </s> 128 tokens fit and 129 do not."""
    encode = translator.checkpoint.source_tokenizer.encode
    word = next(word for word in " ".join(SENTENCES).split() if len(encode(f"{word} {word}")) == 2)
    source, target = tmp_path / "a", tmp_path / "b"
    write_lines(source, [" ".join([word] * (MAX_TOKENS - 1)), " ".join([word] * MAX_TOKENS)])
    write_lines(target, ["A", "A"])
    found = align_files(translator, source, target, head=HEADS[0])
    assert found.skipped == 1
    assert found.lines[0]
    assert not found.lines[1]


def test_a_corpus_where_nothing_fits_has_error_1(translator, files):
    write_lines(files[0], ["Hund " * MAX_TOKENS] * 5)
    found = align_files(translator, *files)
    assert found.lines == [""] * 5
    assert found.skipped == 5
    assert found.error_rates == {"all": 1, "odd": 1, "even": 1}


# Invalid input


def test_files_must_have_the_same_number_of_lines(translator, files):
    write_lines(files[1], TARGETS[:3])
    with pytest.raises(UserError, match="line n of both"):
        align_files(translator, *files)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (GOLD[:4], "has 4 lines for 5 pairs"),
        (["1-1", "1-1", "2-1", "", ""], "Line 3 of .* links words 2 and 1 of sentences of 1 and 3 words"),
        (["1-5", "1-1", "", "", ""], "Line 1 of .* links words 1 and 5 of sentences of 3 and 4 words"),
        (["", "", "", "0-1", ""], "Line 4 of .*: “0-1” names word 0"),
        (["", "x", "", "", ""], "Line 2 of .*: 'x' is not a valid link"),
    ],
)
def test_gold_links_outside_of_their_sentences_are_refused(files, lines, message):
    write_lines(files[2], lines)
    with pytest.raises(UserError, match=message):
        read_gold(files[2], SOURCES, TARGETS)


@pytest.mark.parametrize(
    "head",
    [
        AlignmentHead(4, 0, False),
        AlignmentHead(0, 3, False),
        AlignmentHead(-1, 0, False),
        AlignmentHead(0, -1, True),
    ],
)
def test_a_missing_head_is_refused(translator, files, head):
    with pytest.raises(UserError, match="the decoder has 4 layers of 3 heads"):
        align_files(translator, *files, head=head)


def test_a_head_is_given_or_chosen_by_gold(translator, files, tmp_path):
    with pytest.raises(UserError, match="Give a layer and a head"):
        align_files(translator, *files[:2])
    short = [tmp_path / name for name in "abc"]
    for path, lines in zip(short, (SOURCES, TARGETS, GOLD), strict=True):
        write_lines(path, lines[:1])
    with pytest.raises(UserError, match="at least two lines"):
        align_files(translator, *short)


# The command


@pytest.fixture
def align(command, files, tmp_path, translator):
    """The command on the files."""
    save(translator.checkpoint, tmp_path / "model")
    return partial(command, "align", tmp_path / "model", "--source", files[0], "--target", files[1])


def test_command_writes_a_line_for_each_pair(align, files, tmp_path):
    output, errors = align("--layer", 4, "--head", 3, "--shifted")
    loaded = Translator.load(tmp_path / "model")
    expected = align_files(loaded, *files[:2], head=AlignmentHead(3, 2, True)).lines
    assert output == "".join(f"{line}\n" for line in expected)
    assert "layer 4, head 3" in errors
    assert "AER" not in errors


def test_command_chooses_by_gold_and_prints_error_rates_to_standard_error(align, files, tmp_path):
    found = align_files(Translator.load(tmp_path / "model"), *files)
    output, errors = align("--gold", files[2])
    assert output.split("\n")[:-1] == found.lines
    for name, rate in found.error_rates.items():
        assert f"{100 * rate:.1f} %  {name} lines" in errors
    output, errors = align("--gold", files[2], "--json")
    layer, head, shifted = found.head
    described = {"layer": layer + 1, "head": head + 1, "shifted": shifted, "skipped": 0}
    assert json.loads(output) == {**described, "aer": found.error_rates, "lines": found.lines}
    assert errors == ""


def test_command_symmetrises(align, files, tmp_path):
    output, _ = align("--layer", 1, "--head", 3, "--symmetrise")
    loaded = Translator.load(tmp_path / "model")
    lines = align_files(loaded, *files[:2], head=AlignmentHead(0, 2, False), symmetrise=True).lines
    assert output.splitlines() == lines
    assert lines != align_files(loaded, *files[:2], head=AlignmentHead(0, 2, False)).lines


def test_command_counts_what_it_skipped_on_standard_error(align, files):
    write_lines(files[0], ["Hund " * MAX_TOKENS, *SOURCES[1:]])
    output, errors = align("--layer", 1, "--head", 1)
    assert output.startswith("\n")
    assert f"1 of 5 pairs have more than {MAX_TOKENS} tokens" in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layer", 1], "--layer and --head belong together"),
        (["--head", 1], "--layer and --head belong together"),
        (["--shifted"], "--shifted needs"),
        (["--layer", 0, "--head", 1], "There is no layer 0"),
        ([], "Give a layer and a head"),
    ],
)
def test_command_ends_in_one_sentence_on_a_mistake(align, options, message):
    with pytest.raises(SystemExit, match=message):
        align(*options)
