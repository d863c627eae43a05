"""The page without a server as an app: what Chromium asks of one, and what it does without a connection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from model import Translator
from tests.browser.static_site import Visitor, await_kept, expect_translation, served, submit, write
from viz.static.site import HERE, ICONS

pytestmark = pytest.mark.browser
CAPITALS = "The model knows lower-case letters only."
MODEL_KEPT = """async () => {
  for (let tries = 0; tries < 300; tries += 1) {
    const cache = await caches.open('headlight-models');
    if (await cache.match('models/reverse/model.safetensors', { ignoreSearch: true })) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error('The browser did not keep the model of Learn.');
}"""


def test_chromium_can_install_the_page(visitor: Visitor, static: str) -> None:
    page = visitor.visit(static)
    page.locator(".hl-thumbnail").first.wait_for()
    session = page.context.new_cdp_session(page)
    manifest = session.send("Page.getAppManifest")
    assert manifest["errors"] == []
    assert json.loads(manifest["data"])["name"] == "Headlight"
    errors = session.send("Page.getInstallabilityErrors")["installabilityErrors"]
    # The page of a test is a private window, in which no browser installs anything.
    assert [each["errorId"] for each in errors if each["errorId"] != "in-incognito"] == []


@pytest.mark.slow
def test_learn_works_without_a_connection(
    visitor: Visitor, models: dict[str, Translator], tmp_path: Path
) -> None:
    """After one visit in which Learn stayed closed."""
    with served(write(tmp_path / "site", {"de-en": models["de-en"], **models})) as url:
        page = visitor.visit(url)
        await_kept(page)
        page.evaluate(MODEL_KEPT)
    page.reload()
    page.locator(".hl-thumbnail").first.wait_for()
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_role("button", name="Next", exact=True).click()
    expect_translation(page, models["reverse"].translate("umbrella").text)
    submit(page, "lamp")
    expect_translation(page, models["reverse"].translate("lamp").text)


def test_the_model_says_what_it_does_not_know(
    visitor: Visitor, static: str, models: dict[str, Translator]
) -> None:
    page = visitor.visit(static)
    submit(page, "Regen")
    expect_translation(page, models["reverse"].translate("Regen").text)
    assert CAPITALS in models["reverse"].translate("Regen").notices
    expect(page.locator(".hl-notices")).to_contain_text(CAPITALS)
    page.get_by_role("button", name="About", exact=True).click()
    about = page.get_by_role("dialog", name="About")
    expect(about.locator(".hl-weaknesses > li")).to_have_text(
        models["reverse"].checkpoint.card["weaknesses"]["en"]
    )


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, (size, _) in ICONS.items()])
def test_an_icon_is_a_picture_of_its_size(name: str, size: int) -> None:
    content = (HERE / "icons" / name).read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(content[16:20], "big") == int.from_bytes(content[20:24], "big") == size
