"""Corpora as people have them: names of files, scripts without spaces, invisible characters."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from model.errors import UserError
from model.text.scripts import INVISIBLE, count_words
from model.text.tokenizer import MIN_ALPHABET, UNK_ID, Tokenizer, _alphabet, normalise
from tests.training.tiny import PARALLEL, as_dataset, pairs_of, parallel_files, run, sentences, write_lines
from training.corpus.cleaning import clean, usual_ratio
from training.corpus.encoding import encode_pairs, train_tokenizers, warn_of_unknown
from training.corpus.mixing import concatenate
from training.corpus.sources import is_held_out, left_out, read_training, read_validation
from training.corpus.splits import read_corpus
from training.evaluation.metrics import bleu_tokens, score, score_by_length

LANGUAGES = ("de", "en")
CHINESE = (
    "推迟表决。 我们要和朋友们去爬山。 她做了十年国际公司的翻译。 "
    "许多学生说考试比预期难得多。 演出开始前请关闭手机。"
)
ENGLISH = (
    "The committee decided to postpone the vote on the budget.",
    "We are going to the mountains with all our friends, because the weather is fine.",
    "She has been a translator at a large international company for ten years.",
    "Many students said that the examination had been more difficult than expected.",
    "Please switch off your mobile telephones before the beginning of the performance.",
)
ENGLISH_CHINESE = list(zip(ENGLISH, CHINESE.split(), strict=True))
OF_LANGUAGES = {
    "zh": "委员会昨天决定推迟表决。",
    "ja": "委員会は昨日、採決を延期することを決めました。",
    "ko": "위원회는 어제 표결을 연기하기로 결정했습니다.",
    "th": "คณะกรรมการตัดสินใจเมื่อวานนี้ว่าจะเลื่อนการลงคะแนน",
    "ar": "قررت اللجنة أمس تأجيل التصويت.",
    "hi": "समिति ने कल मतदान स्थगित करने का निर्णय लिया।",
    "de": "Der Ausschuss beschloss gestern, die Abstimmung zu verschieben.",
}


def write(folder, *names, languages=LANGUAGES):
    folder.mkdir(exist_ok=True)
    for name in names:
        for language in languages:
            write_lines(folder / f"{name}.{language}", [f"{name} satz {language} {i}" for i in range(3)])
    return folder


def files_of(pairs):
    return {origin.split("/")[-1] for origin in pairs["origin"]}


HELD = """test Test TEST dev Dev val validation Valid eval newstest2014 newsdev2016-src tst2013 my_test
test-2016 DevSet testdata devtest flickr.test.lc TestData dataTest testsets"""
READ = """train Train retrieval festival devices-manual latest-news contest attestation testament interval
value developer Vallée protest2 greatest carnival 2016"""
NAMES = [(name, names is HELD) for names in (HELD, READ) for name in names.split()]


@pytest.mark.parametrize(("name", "held"), NAMES)
def test_words_of_a_name_say_that_a_file_is_held_out(name, held):
    assert is_held_out(name) == held


@pytest.mark.parametrize("dev", ["dev", "Dev", "VALID"])
def test_capital_letters_in_names_make_no_difference(dev, tmp_path):
    folder = write(tmp_path / "data", "Train", dev, "TEST", "latest-news")
    assert files_of(read_training(folder, LANGUAGES)) == {"Train", "latest-news"}
    validation = read_validation(folder, LANGUAGES)
    assert validation is not None
    assert files_of(validation) == {dev}
    assert left_out(folder, LANGUAGES) == ["data/TEST"]


def test_capital_letters_in_endings_and_of_one_side_make_no_difference(tmp_path):
    folder = write(tmp_path, "train")
    (folder / "train.de").rename(folder / "Train.DE")
    assert len(read_training(folder, LANGUAGES)) == 3


def test_names_that_differ_in_capital_letters_alone_are_two_corpora(tmp_path):
    folder = write(tmp_path, "train", "Train")
    assert len(read_training(folder, LANGUAGES)) == 6


def test_a_folder_of_held_out_files_alone_says_so(tmp_path):
    with pytest.raises(
        UserError, match=r"has no train.de and train.en besides Test, dev, which are held out"
    ):
        read_training(write(tmp_path, "Test", "dev"), LANGUAGES)


def test_languages_may_be_called_source_and_target(tmp_path):
    languages = ("source", "target")
    pairs = read_training(write(tmp_path / "data", "train", languages=languages), languages)
    assert set(pairs["origin"]) == {"data/train"}
    assert pairs_of(pairs)[0] == ("train satz source 0", "train satz target 0")


def test_a_run_goes_on_after_its_data_moved_and_not_with_other_sources(tmp_path, capsys):
    config = dataclasses.replace(PARALLEL, max_steps=4, validate_every=2)
    data = parallel_files(tmp_path / "corpus", sentences(60))
    write_lines(data / "test.de", ["a"])
    write_lines(data / "test.en", ["b"])
    run(config, data, tmp_path / "run")
    assert "Held out by their names and not read: corpus/test" in capsys.readouterr().out
    moved = shutil.copytree(data, tmp_path / "daten")
    run(dataclasses.replace(config, max_steps=6), moved, tmp_path / "run", resume=True)
    write_lines(moved / "train.source", ["one", "two"] * 30)
    with pytest.raises(UserError, match="differs from the corpus"):
        run(dataclasses.replace(config, max_steps=8), moved, tmp_path / "run", resume=True)


def test_a_corpus_of_which_nothing_is_left_says_why(tmp_path):
    pairs = [("Satz", "")] * 4 + [("a b c d e", "a b c d e")] * 3
    config = dataclasses.replace(PARALLEL, test_rows=0, validation_rows=1)
    with pytest.raises(
        UserError, match=r"has 0 pairs of 7 that were read \(4 dropped as empty, 3 dropped as copy"
    ):
        read_corpus(config, [parallel_files(tmp_path, pairs)])


def chinese(count, characters=2500):
    """Texts with the shares that the commonest characters of written Chinese have."""
    draw = np.random.default_rng(1)
    shares = [0, 0.13, 0.3, 0.41, 0.55, 0.76, 0.9, 0.975, 1]
    whole = np.interp(np.arange(characters + 1), [0, 10, 50, 100, 200, 500, 1000, 2000, characters], shares)
    weights = np.diff(whole) / whole[-1]
    return ["".join(chr(0x4E00 + i) for i in draw.choice(characters, 20, p=weights)) for _ in range(count)]


def test_a_vocabulary_knows_nearly_all_characters_of_a_script_of_thousands():
    texts = chinese(3000)
    tokenizer = Tokenizer.train(texts, "bpe", 6000)
    ids = [index for row in tokenizer.encode_batch(texts) for index in row]
    assert ids.count(UNK_ID) / len(ids) < 0.002
    assert len(Tokenizer.train(iter(texts), "bpe", 6000)) == len(tokenizer)


def test_the_alphabet_of_few_letters_stays_as_it_was():
    texts = [source for source, _ in sentences(200)]
    assert _alphabet(texts, 8000) == _alphabet([], 8000) == MIN_ALPHABET
    assert _alphabet(chinese(3000), 1000) == 0.75 * 1000


def test_a_vocabulary_that_is_too_small_is_said_with_the_share():
    rows = [(text, "word") for text in chinese(300)]
    config = dataclasses.replace(PARALLEL, tokenizer="bpe", vocabulary=700, source_language="zh")
    pairs = as_dataset(rows)
    tokenizers = train_tokenizers(config, pairs)
    encoded, _ = encode_pairs(pairs, tokenizers, 100)
    (warning,) = warn_of_unknown(encoded, config)
    assert "% of the zh tokens are <unk>: the vocabulary of 700 entries" in warning


def test_lengths_are_judged_by_the_ratio_of_the_corpus():
    kept, counts, _ = clean(as_dataset(ENGLISH_CHINESE))
    assert len(kept) == len(ENGLISH_CHINESE)
    assert not any(counts.values())
    rubbish = (
        "The committee decided yesterday to postpone the vote on the new budget until next month.",
        "好。",
    )
    _, counts, _ = clean(as_dataset([*ENGLISH_CHINESE, rubbish]))
    assert counts["length_ratio"] == 1
    turned = [(target, source) for source, target in ENGLISH_CHINESE]
    assert usual_ratio(as_dataset(turned)) == pytest.approx(
        1 / usual_ratio(as_dataset(ENGLISH_CHINESE)), rel=0.1
    )
    assert usual_ratio(as_dataset(sentences(50))) == 1


def test_a_copied_sentence_without_spaces_is_a_copy():
    turned = [(text, text[::-1]) for text in CHINESE.split()]
    copies = [("演出开始前请关闭手机。",) * 2, ("早",) * 2]
    _, counts, _ = clean(as_dataset([*turned, *copies]))
    assert counts["copy"] == 1


def test_joined_pairs_of_a_script_without_spaces_are_not_endless():
    pairs = as_dataset([(target, source) for source, target in ENGLISH_CHINESE] * 20)
    pairs = pairs.add_column("origin", ["one"] * len(pairs))
    joined = concatenate(pairs, 0.5, seed=1).select(range(len(pairs), len(pairs) + 20))
    assert max(count_words(source) for source in joined["source"]) <= 60


TOKENS = {"zh": "zh", "ja": "char", "th": "char", "ko": "13a", "ar": "13a", "hi": "13a", "de": "13a"}


@pytest.mark.parametrize(("language", "wanted"), TOKENS.items())
def test_bleu_counts_what_fits_the_language(language, wanted):
    references = [OF_LANGUAGES[language], "OK 3"]
    assert bleu_tokens(references) == wanted
    found = score(references, references)
    assert f"tok:{wanted}" in found.bleu_signature
    assert (found.bleu, found.wer) == (pytest.approx(100), 0)
    hypotheses = [OF_LANGUAGES[language][:-3], "OK 3"]
    assert (
        score(hypotheses, references).bleu
        == BLEU(tokenize=wanted).corpus_score(hypotheses, [references]).score
    )


def test_an_error_in_a_script_without_spaces_is_not_a_whole_sentence():
    wrong = OF_LANGUAGES["zh"].replace("昨", "今")
    assert score([wrong], [OF_LANGUAGES["zh"]]).wer == pytest.approx(1 / 12)
    assert list(score_by_length([OF_LANGUAGES["zh"] * 3], ["a"], ["a"])) == ["11-20"]


@pytest.mark.parametrize("language", OF_LANGUAGES)
def test_other_scripts_keep_their_text(language):
    """Joiners and marks are part of their words."""
    text = OF_LANGUAGES[language]
    tokenizer = Tokenizer.train([text] * 3, "bpe", 600)
    assert tokenizer.decode(tokenizer.encode(text)) == normalise(text) == text
    assert UNK_ID not in tokenizer.encode(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Fluss\u00adpferd", "Flusspferd"),
        ("Fluss\u200bpferd", "Flusspferd"),
        ("\ufeffFluss\u2060pferd\u200e", "Flusspferd"),
        ("Auf\u200clage", "Auflage"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # Persian needs the joiner
        ("क्\u200dष", "क्\u200dष"),
        ("👩\u200d🚀", "👩\u200d🚀"),
    ],
)
def test_invisible_characters_inside_words_are_dropped_where_they_say_nothing(text, wanted):
    assert normalise(text) == INVISIBLE.sub("", text) == wanted
