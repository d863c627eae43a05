"""The chart of a model's own training shows what its run logged, and tells what it leaves out."""

from __future__ import annotations

from model.storage.training_log import TrainingLog
from viz.charts import head_maps

CURVES = TrainingLog(
    (
        {"step": 50, "train/loss": 5.0, "train/gradient_norm": 1.5},
        {"step": 100, "train/loss": 4.0, "validation/bleu_signature": "tok:13a"},
        {"step": 100, "validation/loss": 4.25, "validation/bleu": 12.5, "validation/chrf": 30.0},
    )
)


def panels(curves: TrainingLog) -> list[list[tuple[str, int, float]]]:
    """Curve, step and value of every point of each panel."""
    chart = head_maps.training_curves(curves).to_dict()
    return [
        [(row["curve"], row["step"], row["value"]) for row in panel["data"]["values"]]
        for panel in chart["vconcat"]
    ]


def test_losses_and_scores_are_drawn_at_their_steps():
    losses, scores = panels(CURVES)
    assert losses == [("training", 50, 5.0), ("training", 100, 4.0), ("validation", 100, 4.25)]
    assert scores == [("BLEU", 100, 12.5), ("chrF", 100, 30.0)]


def test_broken_lines_of_the_log_are_told():
    assert "title" not in head_maps.training_curves(CURVES).to_dict()
    told = head_maps.training_curves(TrainingLog(CURVES.rows, 3)).to_dict()["title"]
    assert told == "broken lines of the log, left out: 3"


def test_a_long_run_and_an_empty_one_can_be_drawn():
    long = TrainingLog(tuple({"step": step, "train/loss": 1.0} for step in range(1, 6_001)))
    assert len(panels(long)[0]) == 6_000
    assert panels(TrainingLog(())) == [[], []]
