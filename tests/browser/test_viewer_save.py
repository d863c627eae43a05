"""The menu Export and the table: the link that opens the view again, pictures, numbers as text."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.conftest import TRANSLATORS, Show, draw
from tests.browser.screen import FIRST, cell, choose, readout, view

pytestmark = pytest.mark.browser

RESULT = TRANSLATORS["de-en"].translate(FIRST)
RECORD = RESULT.attention
SVG = "{http://www.w3.org/2000/svg}"


def saved(page: Page, name: str, tmp_path: Path) -> Path:
    page.keyboard.press("e")
    with page.expect_download() as download:
        page.get_by_role("button", name=name).click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.slow
def test_a_link_opens_the_same_view(show: Show):
    page = show(RESULT)
    choose(page, "Decoder", 2, 5)
    page.get_by_role("gridcell", name="layer 3, head 1", exact=True).click(modifiers=["Shift"])
    for key in ("m", "s", "w"):
        page.keyboard.press(key)
    view(page, "Largest of the heads")
    view(page, "Colour by row")
    page.get_by_label("Order of the heads").select_option("entropy")
    page.mouse.click(*cell(page, 3, 2))
    page.mouse.move(5, 5)
    said = readout(page)
    again = show(RESULT, address=page.evaluate("location.hash.slice(1)"))
    assert readout(again) == said
    assert again.evaluate("location.hash") == page.evaluate("location.hash")
    expect(again.locator(".hl-centre h2")).to_have_text("Decoder · largest of 2 heads")
    muted = again.locator(".hl-muted").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert sorted(muted) == ["layer 2, head 5", "layer 3, head 1"]


def test_a_link_can_be_copied(page: Page):
    page.evaluate(
        """Object.defineProperty(navigator, 'clipboard', {
          value: { writeText: async (text) => { copied = text; } },
        })"""
    )
    choose(page, "Cross", 2, 5)
    page.keyboard.press("e")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("The link is copied.")).to_be_visible()
    assert page.evaluate("copied") == page.evaluate("location.href")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Copy link")).to_be_hidden()


@pytest.mark.slow
def test_copying_a_link_says_what_it_leaves_out(page: Page):
    sentence = page.get_by_text("The link leaves out the comparison with another sentence")

    def copy_link() -> None:
        page.keyboard.press("e")
        page.get_by_role("button", name="Copy link").click()
        expect(page.locator(".hl-sheet [role=status]")).not_to_be_empty()

    copy_link()
    expect(sentence).to_have_count(0)
    page.keyboard.press("Escape")
    view(page, "Compare")
    copy_link()
    expect(sentence).to_have_count(0)
    page.keyboard.press("Escape")
    draw(page, TRANSLATORS["de-en"].translate("Guten Tag!"))
    copy_link()
    expect(sentence).to_be_visible()


@pytest.mark.slow
def test_a_pinned_encoder_token_opens_as_a_token(show: Show):
    page = show(RESULT)
    choose(page, "Encoder", 2, 5)
    page.locator(".hl-chip[data-side=source]").nth(3).click()
    page.get_by_role("button", name="Follow it").click()
    page.mouse.move(5, 5)
    said = readout(page)
    assert said.startswith("schläft reads most from")
    again = show(RESULT, address=page.evaluate("location.hash.slice(1)"))
    assert readout(again) == said
    expect(again.locator(".hl-band-cell")).to_be_hidden()


def test_nonsense_in_a_link_is_as_if_left_out(show: Show):
    page = show(
        RESULT, address="kind=cross&layer=99&head=<b>&mode=eval&row=1e9&sort=constructor&mute=cross.1.99"
    )
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 4 · head 1")
    expect(page.locator(".hl-muted")).to_have_count(0)


def test_the_svg_is_made_of_the_data_and_a_script_is_text(show: Show, tmp_path: Path):
    result = TRANSLATORS["de-en"].translate("Ein <script>alert(1)</script> Hund & Co")
    page = show(result)
    choose(page, "Cross", 2, 3)
    page.mouse.click(*cell(page, 1, 2))
    path = saved(page, "SVG picture", tmp_path)
    assert path.name == "headlight-de-en-cross-2-3-ein-script-alert-1-script-hund-co.svg"
    root = ElementTree.parse(path).getroot()
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert {token.text for token in result.attention.source} <= set(texts)
    assert not list(root.iter(f"{SVG}script"))
    shown = [node.text for node in root.iter(f"{SVG}title")][1:]
    assert shown == [f"{weight:.4f}" for weight in result.attention.cross[1, 2].flatten().tolist()]
    assert any(readout(page) == text for text in texts)
    (legend,) = (node for node in root.iter(f"{SVG}g") if node.get("class") == "legend")
    assert [node.text for node in legend.iter(f"{SVG}text")] == ["weight 0", "1"]
    assert len({node.get("fill") for node in legend.iter(f"{SVG}rect")}) > 20


def test_the_png_shows_the_matrix(show: Show, tmp_path: Path):
    page = show(RESULT, scheme="dark")
    choose(page, "Decoder", 2, 3)
    data = saved(page, "PNG picture", tmp_path).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") > 900
    colours = page.evaluate(
        """async (data) => {
          const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
          const image = await createImageBitmap(new Blob([bytes]));
          const canvas = new OffscreenCanvas(image.width, image.height);
          const pen = canvas.getContext('2d');
          pen.drawImage(image, 0, 0);
          const pixels = pen.getImageData(0, 0, image.width, image.height).data;
          return [new Set(new Uint32Array(pixels.buffer)).size, pixels.slice(0, 3).join()];
        }""",
        base64.b64encode(data).decode(),
    )
    assert colours[0] > 50
    assert colours[1] == "26,25,23"


@pytest.mark.slow
def test_a_png_of_a_large_matrix_fits_what_browsers_can_draw(show: Show, tmp_path: Path):
    page = show(TRANSLATORS["de-en"].translate(" ".join(["Wort"] * 120)))
    data = saved(page, "PNG picture", tmp_path).read_bytes()
    assert int.from_bytes(data[16:20], "big") == 8192


def test_the_matrix_can_be_read_as_a_table(page: Page):
    choose(page, "Decoder", 2, 3)
    expect(page.locator("table")).to_have_count(0)
    page.locator(".hl-toolbar .hl-menu > summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Read as a table").focus()
    page.keyboard.press("Enter")
    rows = page.locator(".hl-table tbody tr")
    expect(rows).to_have_count(len(RECORD.read))
    weights = RECORD.decoder[1, 2]
    cells = rows.nth(2).locator("td").all_inner_texts()
    assert float(cells[-1]) == pytest.approx(1, abs=0.01)
    totals = page.locator(".hl-table tfoot td").all_inner_texts()
    assert float(totals[0]) == pytest.approx(weights[:, 0].sum().item(), abs=0.01)
    assert cells[:4] == [*(f"{weight:.4f}" for weight in weights[2, :3].tolist()), "–"]
    expect(rows.nth(2).locator("th")).to_have_text("KLEINE → hUND")
    choose(page, "Cross", 2, 3)
    expect(rows.nth(2).locator("td").first).to_have_text(f"{RECORD.cross[1, 2, 2, 0].item():.4f}")
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("region", name="Table of values").focus()
    page.keyboard.press("ArrowRight")  # scrolls, and chooses no head
    page.wait_for_function("document.querySelector('.hl-table').scrollLeft > 0")
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 3")


# Colours that SVG 1.1 knows, and so every program that reads it.
COLOUR = re.compile(r"none|#[0-9a-f]{6}|rgb\(\d+, \d+, \d+\)|url\(#\w+\)")


@pytest.mark.parametrize("beside", [False, True])
def test_another_reader_draws_the_same_svg(beside: bool, show: Show, tmp_path: Path):
    """As XML of SVG 1.1; a second reader (resvg) gives each cell the colour that the file says."""
    vl_convert = pytest.importorskip("vl_convert")
    result = TRANSLATORS["de-en"].translate("Ein \x08Hund\ufffe\x1b & \u202eKatze 🐕 schläft.")
    page = show(result)
    choose(page, "Cross", 2, 3)
    if beside:
        page.get_by_role("button", name="Side by side").click()
    path = saved(page, "SVG picture", tmp_path)
    root = ElementTree.parse(path).getroot()
    for name in ("fill", "stroke"):
        assert all(COLOUR.fullmatch(node.get(name, "none")) for node in root.iter())
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    if beside:
        return
    picture = Image.open(io.BytesIO(vl_convert.svg_to_png(path.read_text("utf-8")))).convert("RGB")
    (cells,) = (node for node in root.findall(f"{SVG}g") if node.get("transform"))
    left, top = (float(part) for part in re.findall(r"[\d.]+", cells.get("transform", "")))
    drawn = [node for node in cells.findall(f"{SVG}rect") if node.get("fill", "").startswith("rgb")]
    assert len(drawn) == result.attention.cross[1, 2].numel()
    for node in drawn:
        wanted = tuple(map(int, re.findall(r"\d+", node.get("fill", ""))))
        x, y = (int(float(node.get(name, "0")) + start) + 3 for name, start in (("x", left), ("y", top)))
        assert all(abs(a - b) <= 1 for a, b in zip(picture.getpixel((x, y)), wanted, strict=True))
