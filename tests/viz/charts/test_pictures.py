"""Charts in notebooks that are exported: each has a picture, which needs no network."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import pytest
from playwright.sync_api import sync_playwright

from tests.browser.conftest import FLAGS, chromium
from tests.viz.fakes import random_translation
from viz.charts import head_maps, heatmaps
from viz.charts.pictures import PLOTLY, SVG, VEGA_LITE, draw_charts_offline

ROOT = Path(__file__).parents[3]
RESULT = random_translation(["the", "<b>dog</b>", "the"], ["der", "Hund", "der"], layers=2, heads=5)
CELLS = [
    "import viz\nfrom tests.viz.charts.test_pictures import RESULT",
    "viz.head_figure(RESULT.attention, 'cross', layer=1, head=2)",
    "viz.layer_grid(RESULT.attention, 'decoder', layer=0)",
    "viz.step_probabilities(RESULT)",
    "viz.show(RESULT)",
]


def test_a_figure_of_heatmaps_has_a_cell_for_each_weight_and_its_labels_as_text():
    bundle = heatmaps.head_figure(RESULT.attention, "cross", layer=1, head=2)._repr_mimebundle_()
    assert bundle.keys() == {PLOTLY, SVG, "text/plain"}
    weights = RESULT.attention.cross[1, 2].flatten().tolist()
    assert re.findall(r"<title>(\d\.\d{4})</title>", bundle[SVG]) == [f"{value:.4f}" for value in weights]
    assert html.escape("<b>dog</b>") in bundle[SVG]
    assert "<b>" not in bundle[SVG]


def test_masked_cells_are_empty_and_every_head_of_a_layer_is_drawn():
    picture = heatmaps.layer_grid(RESULT.attention, "decoder", layer=0)._repr_mimebundle_()[SVG]
    steps = RESULT.attention.decoder.shape[-1]
    assert picture.count('class="cell"') == 5 * steps**2
    assert picture.count("</title>") == 5 * steps * (steps + 1) // 2
    assert all(f">head {number}</text>" in picture for number in range(1, 6))


def test_a_chart_has_a_picture_unless_another_renderer_is_chosen():
    pytest.importorskip("vl_convert", reason="vl-convert-python draws the pictures")
    bundle = head_maps.step_probabilities(RESULT)._repr_mimebundle_()
    assert bundle.keys() == {VEGA_LITE, SVG, "text/plain"}
    assert bundle[SVG].startswith("<svg")
    with alt.renderers.enable("mimetype"):
        draw_charts_offline()
        assert alt.renderers.active == "mimetype"


@pytest.mark.slow
@pytest.mark.browser
def test_an_exported_notebook_shows_every_chart_without_a_network(tmp_path):
    nbformat, nbclient, nbconvert = map(pytest.importorskip, ("nbformat", "nbclient", "nbconvert"))
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(ROOT)}}).execute()
    text, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    (tmp_path / "notebook.html").write_text(text, encoding="utf-8")
    assert len(text) < 3_000_000
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_context(offline=True).new_page()
        page.goto((tmp_path / "notebook.html").as_uri())
        page.frame_locator("iframe[title=Headlight]").locator(".hl-thumbnail").first.wait_for()
        pictures = page.locator("img, .jp-RenderedSVG svg")
        widths = pictures.evaluate_all("all => all.map((one) => one.naturalWidth || one.clientWidth)")
        browser.close()
    assert sum(width > 100 for width in widths) == 3


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, 0x85, 0xAD, 0xFFFE, 0xFFFF, 0xFDD0, 0xD800, 0x1F415])
def test_pictures_are_xml_whatever_the_sentence_has(code: int):
    mark = chr(code)
    tokens = tuple(replace(token, text=f"{mark}{token.text}&<") for token in RESULT.attention.source)
    figure = heatmaps.head_figure(replace(RESULT.attention, source=tokens), "cross", layer=1, head=2)
    root = ElementTree.fromstring(figure._repr_mimebundle_()[SVG])
    texts = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum("&<" in text for text in texts) >= len(tokens)
