"""The page of a study has the study's numbers."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from model.analysis.corpus import load_heads, save_heads
from model.analysis.study import AblationCurve, Aligner, HeadFindings, Study, load_studies
from model.storage.checkpoint import save
from tests.model.helpers import SENTENCES, tiny_checkpoint
from viz.__main__ import main
from viz.study.charts import ablation_chart, alignment_chart, head_chart
from viz.study.page import EFLOMAL, findings, page

ROOT = Path(__file__).resolve().parents[3]


def head(kind, number, role="mixed", nearest="separator sink", cost=0.1, errors=None) -> HeadFindings:
    return HeadFindings(kind, 0, number, role, nearest, 0.25 * (number + 1), 0.75, 1.0, cost, 0.2, errors)


ALIGNED = "aligned to the word it writes"
STUDY = Study(
    model="tiny",
    title="German → English",
    score="BLEU",
    sets=("a/dev", "b/val"),
    pairs=12,
    heads=(
        head("encoder", 0, cost=-0.04),
        head("encoder", 1),
        head("decoder", 0),
        head("decoder", 1, "previous token", "previous token"),
        head("cross", 0, cost=0.5, errors=(0.8, 0.6)),
        head("cross", 1, ALIGNED, ALIGNED, errors=(0.7, 0.9)),
    ),
    ablation_curves=(
        AblationCurve("cost", (0, 1, 2, 3, 5, 4), (40.0, 39.5, 38.0)),
        AblationCurve("gradient", (5, 4, 3, 2, 1, 0), (40.0, 30.0)),
    ),
    gold_pairs=20,
    aligners=(Aligner(5, False, 0.71, 0.65), Aligner(4, True, 0.61, 0.55)),
)


def test_findings_name_the_heads_that_show_them():
    found = {f"{each.head.kind} {each.what}: {each.value}": each.head for each in findings(STUDY)}
    wanted = {
        "cross matters most: without it, a reference loses 0.50 nats": 4,
        "cross aligns words best: the row that reads a word has 61.0 % alignment error, 55.0 % by "
        "grow-diag": 4,
        "decoder has the role “previous token”: 50 % of its rows look most at the previous token": 3,
        "cross has the role “aligned to the word it writes”: a source token gets 50 % of the weight in its "
        "best row, on average": 5,
        "encoder matters least: without it, a reference gains 0.04 nats": 0,
    }
    assert list(found) == list(wanted)
    for text, place in wanted.items():
        assert found[text] == STUDY.heads[place]


def test_without_a_role_in_self_attention_the_nearest_head_is_a_finding():
    selves = tuple(replace(each, role="mixed") for each in STUDY.heads if each.kind != "cross")
    found = findings(replace(STUDY, heads=selves, aligners=()))[1]
    assert found.what == "comes nearest in self-attention to the role “separator sink”"
    assert found.value == "50 % of its weight is on special tokens and the final mark"
    assert found.head.name == "encoder 1.2"


def test_the_page_has_tables_of_roles_spare_heads_and_alignment():
    text = page([STUDY])
    assert "| previous token |  | 1.2 |  |" in text
    assert "| mixed | 1.1, 1.2 | 1.1 | 1.1 |" in text
    assert "| heads to spare, by cost | 1 |" in text
    assert "| heads to spare, by gradient | 0 |" in text
    assert "| BLEU with all heads | 40.0 |" in text
    assert "| cross 1.1 matters most | without it, a reference loses 0.50 nats |" in text
    assert "| cross 1.1, row that reads the word | 61.0 % (55.0 % by grow-diag) |" in text
    assert "| a single sentence gives a head this role | 75 % of the time |" in text
    _, details = text.split("<details>")
    rows = [
        line for line in details.splitlines() if line.startswith(("| encoder ", "| decoder ", "| cross "))
    ]
    assert len(rows) == 6


def test_the_head_map_has_every_head_with_its_cost_and_role():
    specification = head_chart(STUDY).to_dict()
    panels = specification["hconcat"]
    assert [panel["layer"][0]["title"] for panel in panels] == ["encoder", "decoder", "cross"]
    rows = [row for panel in panels for row in panel["data"]["values"]]
    assert [row["value"] for row in rows] == [0.0, 0.1, 0.1, 0.1, 0.5, 0.1]
    assert [row["label"] for row in rows] == ["", "", "", "prev", "", "writes"]


def test_the_alignment_map_has_both_rows_of_every_cross_attention_head():
    panels = [panel["data"]["values"] for panel in alignment_chart(STUDY).to_dict()["hconcat"]]
    assert [[row["label"] for row in rows] for rows in panels] == [["80", "70"], ["60", "90"]]


def test_the_ablation_chart_has_both_orders_and_the_line_a_point_below():
    rule, lines = ablation_chart(STUDY).to_dict()["layer"]
    assert rule["data"]["values"] == [{"score": 39.0}]
    assert [(row["order"], row["heads"], row["score"]) for row in lines["data"]["values"]] == [
        ("by cost", 0, 40.0),
        ("by cost", 1, 39.5),
        ("by cost", 2, 38.0),
        ("by gradient", 0, 40.0),
        ("by gradient", 1, 30.0),
    ]


def test_the_command_writes_page_and_figures(tmp_path, monkeypatch):
    pytest.importorskip("vl_convert", reason="vl-convert-python draws the figures")
    STUDY.save(tmp_path / "study" / "tiny.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["viz", "study", "--directory", "study"])
    main()
    names = {path.name for path in (tmp_path / "study").glob("*.svg")}
    assert names == {"tiny-heads.svg", "tiny-ablation.svg", "tiny-alignment.svg"}
    text = (tmp_path / "study" / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"]({name})" not in text] == []


# What is shipped


def test_the_shipped_page_is_that_of_the_shipped_studies():
    studies = load_studies(ROOT / "assets" / "study")
    assert (ROOT / "assets" / "study" / "README.md").read_text(encoding="utf-8") == page(studies)


def test_the_shipped_study_is_small_and_covers_every_model():
    folder = ROOT / "assets" / "study"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000
    models = {path.parent.name for path in (ROOT / "assets" / "models").glob("*/config.json")}
    assert {study.model for study in load_studies(folder)} == models


def test_eflomals_figures_are_those_of_the_docs():
    lines = (ROOT / "docs" / "benchmarks.md").read_text("utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith("| eflomal")]
    each_target, _, grown = (cell.split()[0] for cell in row.strip("|").split("|")[1:])
    assert f"{each_target} % ({grown} % by grow-diag)" == EFLOMAL


def test_the_heads_of_a_model_are_measured_from_the_command_line(tmp_path, monkeypatch, capsys):
    model, sentences = tmp_path / "tiny", tmp_path / "sentences.txt"
    save(tiny_checkpoint(seed=1), model)
    sentences.write_text("\n".join([*SENTENCES[:3], ""]), "utf-8")
    monkeypatch.setattr(sys, "argv", ["viz", "study", str(model), "--sentences", str(sentences)])
    main()
    captured = capsys.readouterr()
    assert "heads.json: 3 of 3 sentences." in captured.out
    assert "3/3" in captured.err  # the progress bar
    found = load_heads(model)
    assert found
    assert found["sentences"] == list(SENTENCES[:3])
    save_heads(found | {"removal": {"score": "BLEU"}}, model)
    main()
    kept = load_heads(model)
    assert kept == found | {"removal": {"score": "BLEU"}}  # which only the training study measures
    monkeypatch.setattr(sys, "argv", ["viz", "study", str(model)])
    with pytest.raises(SystemExit, match="--sentences"):
        main()
