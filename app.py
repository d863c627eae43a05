"""Headlight's page: type a sentence, read its translation, look at every attention head.

Widgets and callbacks only: the model lives in `model`, the drawing in `viz`.
"""

from __future__ import annotations

import html
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
import tyro
from gradio.events import api
from gradio.processing_utils import save_bytes_to_cache

from model import Translator, list_models
from model.errors import UserError
from model.record import Translation
from viz.export import document
from viz.payload import encode, to_json
from viz.viewer import style
from viz.viewer.component import viewer

HERE = Path(__file__).parent
MODELS = HERE / "assets" / "models"
EXAMPLES: dict[str, list[str]] = json.loads((HERE / "assets" / "examples.json").read_text("utf-8"))
EXAMPLE_BUTTONS = max(len(sentences) for sentences in EXAMPLES.values())
NO_MODELS = (
    "There is no model to translate with yet. Train a small one in a few minutes with "
    "<code>python -m training train reverse-words --data DIR</code>, where DIR holds a word list, copy "
    "<code>runs/reverse-words/best</code> to <code>assets/models/reverse</code>, then start this page again."
)
UNEXPECTED = "Something went wrong inside the page; the last result is kept. The log of the server says more."

logger = logging.getLogger("headlight")


class Desk:
    """The loaded translators, and what the page and its API ask of them."""

    def __init__(self, translators: Mapping[str, Translator]) -> None:
        self.translators = dict(translators)

    def translate(self, text: str, model: str, beam_size: int, length_penalty: float) -> Translation:
        """Return one translation. Raises UserError."""
        if model not in self.translators:
            known = ", ".join(self.translators) or "none"
            raise UserError(f"There is no model {model!r}; choose one of: {known}.")
        translator = self.translators[model]
        return translator.translate(text, beam_size=int(beam_size), length_penalty=float(length_penalty))

    def payload(self, text: str, model: str, beam_size: int, length_penalty: float) -> dict[str, Any]:
        """Return one translation with every attention weight, as JSON can hold it. Raises UserError."""
        translation = self.translate(text, model, beam_size, length_penalty)
        return encode(translation, model, self.translators[model].title)

    def attention(
        self, text: str, model: str = "de-en", beam_size: int = 1, length_penalty: float = 1.0
    ) -> dict[str, Any]:
        """Translate a sentence and return the full record: tokens, probabilities, attention weights."""
        return _for_client(lambda: self.payload(text, model, beam_size, length_penalty))

    def summary(
        self, text: str, model: str = "de-en", beam_size: int = 1, length_penalty: float = 1.0
    ) -> dict[str, Any]:
        """Translate a sentence and return the translation, its tokens, log-probabilities and hypotheses."""
        record = _for_client(lambda: self.payload(text, model, beam_size, length_penalty))
        return {
            "translation": record["text"],
            "source_tokens": [token["text"] for token in record["tokens"]["source"]],
            "target_tokens": [token["text"] for token in record["tokens"]["predicted"]],
            "log_probabilities": record["log_probabilities"],
            "hypotheses": record["hypotheses"],
            "notices": record["notices"],
        }


def load(folder: Path) -> tuple[dict[str, Translator], list[str]]:
    """Load every model of a folder; return the translators and one sentence for each that failed."""
    translators: dict[str, Translator] = {}
    problems = [] if folder.is_dir() else [f"There is no folder {folder}; check --models."]
    for path in list_models(folder):
        try:
            translators[path.name] = Translator.load(path)
        except UserError as error:
            problems.append(f"{path.name} is left out: {error}")
    return translators, problems


def build(translators: Mapping[str, Translator], problems: Sequence[str] = ()) -> gr.Blocks:
    """Return the page."""
    desk = Desk(translators)
    names = list(translators)
    first = "de-en" if "de-en" in names else (names[0] if names else "")
    with gr.Blocks(title="Headlight", analytics_enabled=False, delete_cache=(3600, 3600)) as page:
        with gr.Row(elem_id="hl-top"):
            gr.HTML('<span class="hl-lamp"></span>Headlight', elem_id="hl-brand", apply_default_css=False)
            model = gr.Dropdown(
                [(translators[name].title, name) for name in names],
                value=first or None,
                label="Model",
                show_label=False,
                container=False,
                interactive=len(names) > 0,
                elem_id="hl-model",
            )
            export = gr.DownloadButton("Export", elem_id="hl-export", size="sm", interactive=False)
        with gr.Row(elem_id="hl-sentence-row"):
            sentence = gr.Textbox(
                _examples(first)[0],
                label="Sentence",
                show_label=False,
                container=False,
                placeholder="Type a sentence",
                max_lines=1,
                elem_id="hl-sentence",
            )
            options = gr.Button("Options", elem_id="hl-options-button")
            translate = gr.Button(
                "Translate ⏎", variant="primary", elem_id="hl-translate", interactive=bool(names)
            )
        with gr.Row(elem_id="hl-options"):
            beam_size = gr.Slider(
                1, 8, 1, step=1, label="Beam size", info="1 is greedy: the likeliest word each time"
            )
            length_penalty = gr.Slider(
                0, 2, 1, step=0.1, label="Length penalty", info="higher prefers longer translations"
            )
        if problems:
            gr.HTML(
                "".join(f"<p>{html.escape(problem)}</p>" for problem in problems),
                elem_id="hl-problems",
                apply_default_css=False,
            )
        message = gr.HTML(
            "" if names else NO_MODELS,
            html_template='<div role="alert">${value}</div>',
            elem_id="hl-message",
            apply_default_css=False,
        )
        with gr.Row(elem_id="hl-examples"):
            samples = [gr.Button(**button, size="sm") for button in _example_buttons(first)]
        maps = viewer(elem_id="hl-viewer")

        inputs, outputs = [sentence, model, beam_size, length_penalty], [maps, message, export]
        answer = _answerer(desk, export.GRADIO_CACHE)

        def answered(trigger: Any) -> None:
            """Translate when `trigger` happens; meanwhile the page itself shows that it is busy."""
            trigger(None, js=BUSY, api_visibility="private").then(
                answer,
                inputs,
                outputs,
                show_progress="hidden",
                concurrency_id="model",
                concurrency_limit=1,
                api_visibility="private",
            ).then(None, js=DONE, api_visibility="private")

        if names:
            if _examples(first)[0]:
                answered(page.load)
            answered(translate.click)
            answered(sentence.submit)
            for sample in samples:
                answered(sample.click(lambda text: text, sample, sentence, api_visibility="private").then)
            answered(model.input(_choose_model, model, [sentence, *samples], api_visibility="private").then)
        options.click(None, js=TOGGLE_OPTIONS, api_visibility="private")
        api(desk.summary, api_name="translate", concurrency_id="model")
        api(desk.attention, api_name="attention", concurrency_id="model")
    return page.queue(max_size=64)


BUSY = "() => document.body.classList.add('hl-pending')"
DONE = "() => document.body.classList.remove('hl-pending')"
TOGGLE_OPTIONS = """() => {
  const open = document.getElementById('hl-options').classList.toggle('hl-open');
  document.getElementById('hl-options-button').setAttribute('aria-expanded', open);
}"""


def launch_options() -> dict[str, Any]:
    """Return how the page is launched: its look, and nothing from outside."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
    return {
        "theme": gr.themes.Base(font=fonts, font_mono=["ui-monospace", "monospace"]).set(**THEME),
        "head": f"<style>\n{style('viewer.css', 'panels.css', 'page.css')}</style>",
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "share": False,
        "quiet": True,
    }


# Gradio's own widgets in the viewer's colours; the custom properties change with the theme.
THEME = {
    f"{name}{mode}": value
    for mode in ("", "_dark")
    for name, value in {
        "body_background_fill": "var(--hl-background)",
        "body_text_color": "var(--hl-ink)",
        "body_text_color_subdued": "var(--hl-soft)",
        "block_background_fill": "transparent",
        "block_border_width": "0px",
        "block_shadow": "none",
        "block_info_text_color": "var(--hl-soft)",
        "block_label_text_color": "var(--hl-soft)",
        "block_title_text_color": "var(--hl-ink)",
        "background_fill_primary": "var(--hl-panel)",
        "background_fill_secondary": "var(--hl-raised)",
        "border_color_primary": "var(--hl-line)",
        "border_color_accent": "var(--hl-accent)",
        "color_accent_soft": "var(--hl-raised)",
        "slider_color": "var(--hl-accent)",
        "input_background_fill": "var(--hl-panel)",
        "input_background_fill_focus": "var(--hl-panel)",
        "input_border_color": "var(--hl-line)",
        "input_border_color_focus": "var(--hl-accent)",
        "input_border_width": "1px",
        "input_shadow": "none",
        "input_shadow_focus": "none",
        "input_placeholder_color": "var(--hl-soft)",
        "button_primary_background_fill": "var(--hl-accent)",
        "button_primary_background_fill_hover": "var(--hl-accent)",
        "button_primary_text_color": "var(--hl-on-accent)",
        "button_primary_border_color": "var(--hl-accent)",
        "button_secondary_background_fill": "var(--hl-panel)",
        "button_secondary_background_fill_hover": "var(--hl-raised)",
        "button_secondary_text_color": "var(--hl-ink)",
        "button_secondary_border_color": "var(--hl-line)",
        "button_border_width": "1px",
        "button_primary_shadow": "none",
        "button_secondary_shadow": "none",
    }.items()
}


def _answerer(desk: Desk, cache: str) -> Callable[..., tuple[Any, Any, Any]]:
    def answer(text: str, model: str, beam_size: float, length_penalty: float) -> tuple[Any, Any, Any]:
        """Return what the viewer, the message and the export button show; an error keeps the last result."""
        try:
            payload = desk.payload(text, model, int(beam_size), length_penalty)
            file = save_bytes_to_cache(document(payload).encode("utf-8"), "attention_maps.html", cache)
        except UserError as error:
            return gr.skip(), html.escape(str(error)), gr.skip()
        except Exception:
            logger.exception("translate")
            return gr.skip(), UNEXPECTED, gr.skip()
        return to_json(payload), "", gr.update(value=file, interactive=True)

    return answer


def _for_client(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run `work`; a client of the API reads a UserError's sentence."""
    try:
        return work()
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from error


def _examples(model: str) -> list[str]:
    return EXAMPLES.get(model) or [""]


def _example_buttons(model: str) -> list[dict[str, Any]]:
    sentences = _examples(model)
    padded = sentences + [""] * (EXAMPLE_BUTTONS - len(sentences))
    return [{"value": sentence, "visible": sentence != ""} for sentence in padded]


def _choose_model(model: str) -> list[Any]:
    """Return the new model's first example, if it has one, and its example buttons."""
    sentence = _examples(model)[0] or gr.skip()
    return [sentence, *(gr.update(**button) for button in _example_buttons(model))]


def main(host: str | None = None, port: int | None = None, models: Path = MODELS) -> None:
    """Serve Headlight's page.

    Args:
        host: address to listen on; 127.0.0.1 unless GRADIO_SERVER_NAME says otherwise.
        port: port to listen on; 7860 unless GRADIO_SERVER_PORT says otherwise.
        models: the folder that holds the model directories.
    """
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    translators, problems = load(models)
    for problem in problems:
        logger.warning(problem)
    host = host or os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1")
    port = port or int(os.environ.get("GRADIO_SERVER_PORT", "7860"))
    print(f"Headlight: http://{host}:{port}")
    try:
        build(translators, problems).launch(server_name=host, server_port=port, **launch_options())
    except OSError as error:
        sys.exit(f"The page cannot be served on {host}:{port}: {error}")


if __name__ == "__main__":
    tyro.cli(main)
