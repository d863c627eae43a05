"""What is exported to transformers computes what Headlight computes, and comes back unchanged."""

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from model.errors import UserError
from model.importing.exporting import export, write_transformers
from model.importing.importer import import_model, read_checkpoint
from model.storage.checkpoint import Checkpoint, load
from model.text.tokenizer import BOS_ID
from model.translator import Translator
from tests.model.helpers import assert_sentence, tiny_checkpoint
from tests.model.importing.checkpoints import GERMAN, sentences

DE_EN = Path("assets/models/de-en")
STRANGE = ["  Der   Hund\tläuft. ", "e\u0301 und \xa0 x", "▁a </s> b <pad>", "Tür, Tür!\u2028neu", "日本 🙂"]


class Both(NamedTuple):
    """One model in both programs."""

    ours: Translator
    theirs: Any
    tokenizer: Any
    directory: Path
    exact: Any  # theirs in 64 bits


def both(checkpoint: Checkpoint, directory: Path) -> Both:
    export(checkpoint, "transformers", directory)
    theirs, report = AutoModelForSeq2SeqLM.from_pretrained(
        directory, attn_implementation="eager", output_loading_info=True
    )
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tokenizer = AutoTokenizer.from_pretrained(directory)
    ours = Translator(checkpoint, use_kernels=False)
    return Both(ours, theirs.eval(), tokenizer, directory, copy.deepcopy(theirs).double())


@pytest.fixture(scope="module", params=["pre", pytest.param("post", marks=pytest.mark.slow), "de-en"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    shipped = request.param == "de-en"
    checkpoint = load(DE_EN) if shipped else tiny_checkpoint(norm=request.param, activation="silu")
    return both(checkpoint, tmp_path_factory.mktemp("exported") / "model")


def test_tokens_are_equal(pair: Both) -> None:
    for text in [*sentences(GERMAN, 40, seed=1), *STRANGE]:
        ids = [token.id for token in pair.ours.checkpoint.source_tokenizer.source_tokens(text)]
        assert pair.tokenizer(text)["input_ids"] == ids
        wanted = pair.ours.checkpoint.source_tokenizer.decode(ids)
        assert pair.tokenizer.decode(ids, skip_special_tokens=True) == wanted


def test_attention_and_log_probabilities_are_equal(pair: Both) -> None:
    for text in sentences(GERMAN, 4, seed=2):
        found = pair.ours.translate(text)
        inputs = pair.tokenizer(text, return_tensors="pt")
        read = torch.tensor([[BOS_ID, *found.ids[:-1]]])
        with torch.no_grad():
            theirs = pair.theirs(**inputs, decoder_input_ids=read, output_attentions=True)
            exact = pair.exact(**inputs, decoder_input_ids=read, output_attentions=True)
        chosen, wanted = (
            each.logits[0].log_softmax(-1)[range(len(found.ids)), found.ids] for each in (theirs, exact)
        )
        compare(torch.tensor(found.log_probabilities), chosen, wanted, 1e-4)
        for kind in ("encoder", "decoder", "cross"):
            stacked = (torch.stack(each[f"{kind}_attentions"])[:, 0] for each in (theirs, exact))
            compare(getattr(found.attention, kind), *stacked, 1e-5)


def compare(ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor, bound: float) -> None:
    """Within the bound of what they compute in 64 bits, or else within a few times their own error."""
    rounding = (theirs - exact).abs().max().item()
    assert (ours - exact).abs().max() < max(bound, 8 * rounding)
    assert rounding < 10 * bound


@pytest.mark.parametrize(
    ("beam", "count"), [(4, 4), *(pytest.param(beam, 20, marks=pytest.mark.slow) for beam in (1, 4))]
)
def test_translations_are_equal(pair: Both, beam: int, count: int) -> None:
    """With no length penalty, where both conventions agree."""
    options = {} if beam == 1 else {"num_beams": beam, "length_penalty": 0.0}
    for text in sentences(GERMAN, count, seed=3):
        inputs = pair.tokenizer(text, return_tensors="pt")
        limit = 2 * inputs["input_ids"].shape[1] + 10
        ids = pair.theirs.generate(**inputs, max_new_tokens=limit, **options)[0, 1:]
        found = pair.ours.translate(text, beam_size=beam, length_penalty=0.0)
        assert tuple(ids.tolist()) == found.ids


def test_imported_again_it_is_the_same_model(pair: Both, tmp_path: Path) -> None:
    wanted = dict(pair.ours.checkpoint.model.named_parameters())
    found = read_checkpoint(str(pair.directory))
    for name, weight in found.model.named_parameters():
        assert torch.equal(weight, wanted[name]) if name in wanted else not weight.any()
    assert found.source_tokenizer.to_json() == pair.ours.checkpoint.source_tokenizer.to_json()
    assert found.info.source_language == pair.ours.checkpoint.info.source_language
    import_model(str(pair.directory), tmp_path / "again", 32)
    again = Translator.load(tmp_path / "again")
    again.inference.use_kernels = False
    text = "Der kleine Hund läuft sehr schnell."
    assert again.translate(text).ids == pair.ours.translate(text).ids


def test_the_card_says_how_to_load_it(tmp_path: Path) -> None:
    checkpoint = replace(
        load(DE_EN), card={"title": "Mine", "front": {"license": "mit", "library_name": "headlight"}}
    )
    write_transformers(checkpoint, tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\nlicense: mit\n---\n")
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    exec(code.replace("USER/NAME", str(tmp_path / "model")).replace("...", "Ein Hund läuft."), {})


def test_what_cannot_be_exported_is_one_sentence(tmp_path: Path) -> None:
    imported = replace(tiny_checkpoint().info, origin="Helsinki-NLP/opus-mt-de-en")
    for checkpoint, form, says in (
        (tiny_checkpoint(tied=False), "transformers", "one vocabulary"),
        (replace(tiny_checkpoint(), info=imported), "transformers", "Helsinki-NLP/opus-mt-de-en"),
        (tiny_checkpoint(norm="post"), "ctranslate2", "pre-norm"),
        (tiny_checkpoint(gated=True), "transformers", "with gated, rms_norm or d_key"),
    ):
        with pytest.raises(UserError, match=says) as caught:
            export(checkpoint, form, tmp_path / "model")  # type: ignore[arg-type]
        assert_sentence(caught.value)
    (tmp_path / "model").mkdir()
    with pytest.raises(UserError, match="exists already"):
        export(tiny_checkpoint(), "transformers", tmp_path / "model")
    assert not list(tmp_path.glob(".export-*"))
