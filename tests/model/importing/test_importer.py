"""Imported MarianMT checkpoints compute what MarianMTModel computes."""

import copy
import html
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from torch import Tensor

from model.decoding.options import SearchOptions
from model.decoding.search import search
from model.errors import UserError
from model.importing import importer as module
from model.importing.card import model_info
from model.importing.family import NEVER_LOGIT
from model.importing.importer import import_model, read_checkpoint
from model.network.transformer import Transformer
from model.storage.checkpoint import MAX_LABEL, Checkpoint, load
from model.text.sentencepiece import SentencePieceTokenizer
from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID
from model.translator import Translator
from tests.model.importing import checkpoints as marian
from tests.numerics import assert_float32

SHAPES: dict[str, dict[str, Any]] = {
    "as OPUS-MT": {},
    "as tc-big": {"activation_function": "relu", "decoder_attention_heads": 8, "encoder_attention_heads": 8},
    "GELU, embeddings not scaled": {"activation_function": "gelu", "scale_embedding": False},
    "two vocabularies": {"share_encoder_decoder_embeddings": False, "separate": True},
    "GELU with tanh": {"activation_function": "gelu_new", "normalize_before": True},
    "one vocabulary, nothing tied": {"tie_word_embeddings": False},
    "nothing tied": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
}
NEVER = [PAD_ID, BOS_ID]
KEPT = 4e-2  # how far the logits of weights in 8 bits are off, as a share of the logits' spread


class Pair(NamedTuple):
    """The same model twice."""

    theirs: Any
    ours: Checkpoint
    tokenizer: Any
    directory: Path


@pytest.fixture(scope="module", params=list(SHAPES.values()), ids=list(SHAPES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    directory = tmp_path_factory.mktemp("marian")
    theirs = marian.write_checkpoint(directory, **request.param)
    return Pair(theirs, read_checkpoint(str(directory)), marian.tokenizer(directory), directory)


def our_ids(pair: Pair, ids: list[int], side: str) -> list[int]:
    """Their ids as ours, by way of the entries."""
    target = side == "target" and pair.tokenizer.separate_vocabs
    entries = {
        index: entry
        for entry, index in getattr(pair.tokenizer, "target_encoder" if target else "encoder").items()
    }
    tokenizer = getattr(pair.ours, f"{side}_tokenizer")
    places = {entry: index for index, entry in reversed(list(enumerate(tokenizer.vocabulary)))}
    return [places[entries[index]] for index in ids]


def order(pair: Pair, side: str = "target") -> list[int]:
    """For each of our entries their id, <s> left out of what is compared."""
    separate = side == "target" and pair.tokenizer.separate_vocabs
    ids = pair.tokenizer.target_encoder if separate else pair.tokenizer.encoder
    entries = getattr(pair.ours, f"{side}_tokenizer").vocabulary
    return [ids.get(entry, ids["<pad>"]) for entry in entries]


@pytest.mark.numeric
def test_logits_and_attention_equal(pair: Pair) -> None:
    places = [index for index in range(len(pair.ours.target_tokenizer)) if index not in NEVER]
    wanted = torch.tensor(order(pair))[places]
    for text, translation in zip(
        marian.sentences(marian.GERMAN, 6, seed=3), marian.sentences(marian.ENGLISH, 6, seed=4), strict=True
    ):
        source = pair.tokenizer(text)["input_ids"]
        target = pair.tokenizer(text_target=translation)["input_ids"]
        assert our_ids(pair, source, "source") == [*pair.ours.source_tokenizer.encode(text), EOS_ID]
        read = [pair.theirs.config.decoder_start_token_id, *target[:-1]]
        with torch.no_grad():
            theirs = pair.theirs(
                input_ids=torch.tensor([source]),
                decoder_input_ids=torch.tensor([read]),
                output_attentions=True,
            )
        ids = torch.tensor([our_ids(pair, source, "source")])
        ours = torch.tensor([[BOS_ID, *our_ids(pair, target[:-1], "target")]])

        @torch.no_grad()
        def computed(model: Transformer, ids: Tensor = ids, ours: Tensor = ours) -> list[Tensor]:
            encoded = model.encode(ids, explicit=True)
            decoded = model.decode(ours, encoded, explicit=True)
            logits = model.output(decoded.hidden)
            assert (logits[..., NEVER] < NEVER_LOGIT / 2).all()
            weights = encoded.weights, decoded.self_weights, decoded.cross_weights
            return [logits[..., places], *(cast(Tensor, each) for each in weights)]

        kinds = theirs.encoder_attentions, theirs.decoder_attentions, theirs.cross_attentions
        found = [theirs.logits[..., wanted], *(torch.stack(kind, 1) for kind in kinds)]
        for one in (found, computed(pair.ours.model)):
            assert_float32(one, computed, pair.ours.model)


@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_translations_equal_those_of_generate(pair: Pair, beam: int) -> None:
    """With no length penalty, where both conventions agree: theirs divides by a power of the length."""
    theirs, ours = copy.deepcopy(pair.theirs), copy.deepcopy(pair.ours.model)
    ended = 0
    for more in (3.0, 1.0):  # so that some translations end before the limit
        with torch.no_grad():
            theirs.final_logits_bias[0, theirs.config.eos_token_id] += more
            ours.output.bias[EOS_ID] += more
        for text in marian.sentences(marian.GERMAN, 3, seed=5):
            source = pair.tokenizer(text)["input_ids"]
            generated = theirs.generate(
                input_ids=torch.tensor([source]),
                num_beams=beam,
                do_sample=False,
                max_new_tokens=2 * len(source) + 10,  # our limit
                bad_words_ids=[[theirs.config.pad_token_id], [1]],  # ours never predicts <unk>
                **({"length_penalty": 0.0} if beam > 1 else {}),
            )[0, 1:].tolist()
            ids = torch.tensor([our_ids(pair, source, "source")])
            found = search(ours, ids, SearchOptions(beam, 0.0))[0][0].ids
            assert list(found) == our_ids(pair, generated, "target")
            ended += found[-1] == EOS_ID
    assert ended


@pytest.mark.parametrize("bits", [8, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (16, 32))])
def test_stored_weights_are_within_their_bounds(pair: Pair, bits: Any, tmp_path: Path) -> None:
    exact = dict(pair.ours.model.named_parameters())
    import_model(str(pair.directory), tmp_path / "imported", bits)
    opened = load(tmp_path / "imported")
    assert opened.info == pair.ours.info
    for name, weight in opened.model.named_parameters():
        difference = (weight - exact[name]).abs()
        if bits == 8 and weight.ndim == 2:
            assert (difference <= 0.501 / 127 * exact[name].abs().amax(1, keepdim=True) + 1e-12).all()
        elif bits < 32:
            assert (difference <= exact[name].abs() * 2**-11 + 2**-24).all()
        else:
            assert not difference.any()
    source = torch.tensor([[*pair.ours.source_tokenizer.encode("Der Hund läuft schnell."), EOS_ID]])
    target = torch.tensor([[BOS_ID, *pair.ours.target_tokenizer.encode("The dog runs quickly.")]])
    with torch.no_grad():
        wanted, found = (model(source, target)[..., UNK_ID:] for model in (pair.ours.model, opened.model))
    places = [index for index in range(wanted.shape[-1]) if index != BOS_ID - UNK_ID]
    error = (wanted - found)[..., places].std() / wanted[..., places].std()
    assert error < {8: KEPT, 16: 2e-3, 32: 1e-9}[bits]


# The directory that is written


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint of many target languages, with a card."""
    directory = tmp_path / "opus-mt-de-en"
    marian.write_checkpoint(directory, codes=(">>fra<<", ">>ita<<"))
    (directory / "README.md").write_text(
        "---\nlanguage:\n- de\nlicense: cc-by-4.0\n---\n* model: transformer-align\n* Helsinki-NLP <script>\n"
    )
    return directory


def test_opened_by_the_translator_alone(checkpoint: Path, tmp_path: Path) -> None:
    import_model(str(checkpoint), tmp_path / "imported")
    shutil.rmtree(checkpoint)
    translator = Translator.load(tmp_path / "imported")
    result = translator.translate(">>fra<< Der kleine Hund läuft.", beam_size=2, tree=True)
    assert result.attention.source[0].piece == ">>fra<<"
    assert result.attention.cross.shape[:2] == (3, 4)
    assert result.text == translator.checkpoint.target_tokenizer.decode(result.ids)
    assert translator.score("Der Hund", "The dog").text == "The dog"
    names = {path.name for path in (tmp_path / "imported").iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "source_tokenizer.json",
        "target_tokenizer.json",
        "card.json",
        "README.md",
    }


def test_information_for_the_page(checkpoint: Path, tmp_path: Path) -> None:
    opened = import_model(str(checkpoint), tmp_path / "imported")
    info = opened.info
    assert (info.source_language, info.target_language) == ("de", "en")
    assert info.title == "German → English (opus-mt-de-en)"
    assert info.origin == "opus-mt-de-en"
    assert info.target_languages == (">>fra<<", ">>ita<<")
    assert opened.model.config.taught_head == (2, 0)


def test_card_names_origin_licence_and_who_did_not_train_it(checkpoint: Path, tmp_path: Path) -> None:
    import_model(str(checkpoint), tmp_path / "imported")
    card = ModelCard.load(tmp_path / "imported" / "README.md")
    assert card.data.to_dict()["license"] == "cc-by-4.0"
    for part in (
        "opus-mt-de-en",
        "did not train",
        "cc-by-4.0",
        "University of Helsinki",
        "German",
        ">>fra<<",
    ):
        assert part in html.unescape(card.text)
    assert "<script>" not in card.text


@pytest.mark.parametrize(
    ("name", "settings", "languages"),
    [
        ("opus-mt-fi-en", {}, ("fi", "en")),
        ("opus-mt-tc-big-en-tr", {}, ("en", "tr")),
        ("opus-mt-en-ROMANCE", {}, ("en", "ROMANCE")),
        ("opus-mt-tc-big-cat_oci_spa-en", {}, ("cat_oci_spa", "en")),
        ("opus-mt-en_el_es_fi-en_el_es_fi", {}, ("en_el_es_fi", "en_el_es_fi")),
        ("opus-mt-zls-eng", {"source_lang": "opus-mt-zls", "target_lang": "eng"}, ("zls", "eng")),
        ("mine", {}, ("source", "target")),
        ("mine", {"source_lang": "de\n# x", "target_lang": 3}, ("source", "target")),
    ],
)
def test_languages_of_a_checkpoint(
    name: str, settings: dict[str, Any], languages: tuple[str, str], tmp_path: Path
) -> None:
    marian.write_checkpoint(tmp_path / name)
    (tmp_path / name / "tokenizer_config.json").write_text(json.dumps(settings))
    info = read_checkpoint(str(tmp_path / name)).info
    assert (info.source_language, info.target_language) == languages


@pytest.mark.parametrize(
    ("name", "pair", "ends"),
    [
        ("opus-mt-cat_oci_spa-en", "Catalan, Occitan, Spanish → English", " (opus-mt-cat_oci_spa-en)"),
        ("opus-mt-gmq-gmq", "North Germanic languages → North Germanic languages", " (opus-mt-gmq-gmq)"),
        (
            "opus-mt-tc-bible-big-deu_eng_fra_por_spa-bat",
            "German, English, French, Portuguese, Spanish → Baltic languages",
            "",
        ),
        ("opus-mt-de_fr_en_es_it_pt_nl_sv_da_no_fi_et_lv_lt-ru", "German, French, English, Spanish,", "…"),
    ],
)
def test_titles_name_every_language_and_the_model_if_there_is_room(name: str, pair: str, ends: str) -> None:
    title = model_info(f"Helsinki-NLP/{name}", {}, ()).title
    assert len(title) <= MAX_LABEL
    assert title == pair + ends if ends != "…" else title.startswith(pair) and title.endswith("…")


def test_special_tokens_come_first_and_the_start_token_becomes_s(checkpoint: Path) -> None:
    ours = read_checkpoint(str(checkpoint))
    assert isinstance(ours.target_tokenizer, SentencePieceTokenizer)
    assert ours.target_tokenizer.vocabulary[:4] == SPECIALS
    embedding = ours.model.target_embedding.tokens.weight
    assert not embedding[[PAD_ID, BOS_ID]].any()  # as the converter of OPUS-MT leaves <pad>
    assert embedding[EOS_ID].any()


def test_pickled_weights_give_the_same_model(checkpoint: Path) -> None:
    wanted = dict(read_checkpoint(str(checkpoint)).model.named_parameters())
    weights = load_file(checkpoint / "model.safetensors")
    (checkpoint / "model.safetensors").unlink()
    for legacy in (False, True):  # those of 2020 are not zip archives
        torch.save(weights, checkpoint / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
        found = read_checkpoint(str(checkpoint)).model.named_parameters()
        assert all(torch.equal(weight, wanted[name]) for name, weight in found)


def test_output_matrix_that_was_never_trained_is_not_used(checkpoint: Path) -> None:
    """The file of some tc-big models has one, which broke them in later versions of transformers."""
    wanted = dict(read_checkpoint(str(checkpoint)).model.named_parameters())
    weights = load_file(checkpoint / "model.safetensors")
    (checkpoint / "model.safetensors").unlink()
    weights["lm_head.weight"] = torch.randn_like(weights["model.shared.weight"])
    torch.save(weights, checkpoint / "pytorch_model.bin")
    found = read_checkpoint(str(checkpoint)).model.named_parameters()
    assert all(torch.equal(weight, wanted[name]) for name, weight in found)


def test_hub_names_fetch_safetensors_and_the_pickle_only_without_them(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetch(name: str, files: tuple[str, ...]) -> Path:
        asked.append((name, files[-3]))
        return checkpoint

    monkeypatch.setattr(module, "fetch", fetch)
    info = import_model("Helsinki-NLP/opus-mt-de-en", tmp_path / "first").info
    assert info.origin == "Helsinki-NLP/opus-mt-de-en"
    assert "huggingface.co/Helsinki-NLP/opus-mt-de-en" in (tmp_path / "first" / "README.md").read_text()
    torch.save(load_file(checkpoint / "model.safetensors"), checkpoint / "pytorch_model.bin")
    (checkpoint / "model.safetensors").unlink()
    import_model("Helsinki-NLP/opus-mt-de-en", tmp_path / "second")
    name = "Helsinki-NLP/opus-mt-de-en"
    assert asked == [(name, "model.safetensors")] * 2 + [(name, "pytorch_model.bin")]


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
def test_snapshot_of_the_hub_whose_files_are_links(
    weights: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache as the hub's client leaves it, read by the client itself without a network."""
    if weights == "pytorch_model.bin":
        torch.save(load_file(checkpoint / "model.safetensors"), checkpoint / weights)
        (checkpoint / "model.safetensors").unlink()
    repository = tmp_path / "cache" / "models--Helsinki-NLP--opus-mt-de-en"
    snapshot, commit = repository / "snapshots" / ("0" * 40), repository / "refs" / "main"
    for folder in (snapshot, repository / "blobs", commit.parent):
        folder.mkdir(parents=True)
    commit.write_text(snapshot.name)
    for number, path in enumerate(checkpoint.iterdir()):
        path.rename(repository / "blobs" / str(number))
        (snapshot / path.name).symlink_to(Path("..") / ".." / "blobs" / str(number))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    output = tmp_path / "imported"
    info = import_model("Helsinki-NLP/opus-mt-de-en", output).info
    assert info.origin == "Helsinki-NLP/opus-mt-de-en"
    assert not any(path.is_symlink() for path in output.iterdir())


def test_nothing_is_overwritten(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with pytest.raises(UserError, match="exists already"):
        import_model(str(checkpoint), tmp_path / "kept")


def test_sentence_without_a_target_language_carries_a_notice(checkpoint: Path, tmp_path: Path) -> None:
    import_model(str(checkpoint), tmp_path / "imported")
    translator = Translator.load(tmp_path / "imported")
    notice = "Begin the sentence with the code of a target language, such as >>fra<<."
    assert notice in translator.translate("Der Hund läuft.").notices
    assert notice not in translator.translate(">>ita<< Der Hund läuft.").notices


@pytest.mark.slow
def test_command_line(checkpoint: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "model",
        "import",
        str(checkpoint),
        "--output",
        str(tmp_path / "imported"),
    ]
    run = subprocess.run([*command, "--bits", "16"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "German → English" in run.stdout
    assert "8 bits" not in run.stdout
    assert load(tmp_path / "imported").info.origin == "opus-mt-de-en"


@pytest.mark.slow
def test_import_needs_neither_transformers_nor_sentencepiece() -> None:
    code = (
        "import sys; sys.modules['transformers'] = sys.modules['sentencepiece'] = None; "
        "import model.importing.importer, model.__main__"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
