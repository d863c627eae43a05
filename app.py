"""Headlight's page: type a sentence, read its translation, look at every attention head.

Widgets and callbacks only: the model lives in `model`, the drawing in `viz`.
"""

from __future__ import annotations

import functools
import html
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from model import Translator, list_models  # isort: skip  # before gradio: model/tempdir.py says why
from viz.server import environment  # isort: skip  # before gradio: it says why
import gradio as gr
import tyro
from gradio.events import api
from gradio.processing_utils import save_bytes_to_cache

from model.decoding.search import PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY
from model.errors import UserError, quote_untrusted
from viz.server.api import Api
from viz.server.backend import UNEXPECTED, Desk
from viz.server.component import viewer
from viz.server.handlers import FROM_FILES, SLOW
from viz.server.lifecycle import Service, check_address, log_lines
from viz.server.scheduler import Lanes
from viz.server.theme import theme
from viz.viewer import style

HERE = Path(__file__).parent
MODELS = HERE / "assets" / "models"
# Gradio sums up all that it remembers of former calls after each new one.
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "1")
EXAMPLES: dict[str, list[str]] = json.loads((HERE / "assets" / "examples.json").read_text("utf-8"))
CAPTIONS = json.loads((HERE / "assets" / "captions.json").read_text("utf-8"))
EXAMPLE_BUTTONS = max(len(sentences) for sentences in EXAMPLES.values())
NO_MODELS = (
    "There is no model to translate with yet. Train a small one in a few minutes with "
    "<code>python -m training train reverse-words --data DIR</code>, where DIR holds a word list, copy "
    "<code>runs/reverse-words/best</code> to <code>assets/models/reverse</code>, then start this page again."
)
DISK_FULL = (
    "The server's disk is full or cannot be written, so there is no file to take away; "
    "whoever runs the server has to make room. Everything else works."
)

# What happens in the browser stands in viz/viewer/page.js.
TRANSLATE = "(...question) => Headlight.translate(...question)"
CANCEL = "() => Headlight.cancel()"
TOGGLE_OPTIONS = "() => Headlight.toggleDisclosure('hl-options-button', 'hl-options')"
TOGGLE_EXPORT = "() => Headlight.togglePopover('hl-export', 'hl-export-menu')"
ON_SCREEN = "() => Headlight.onScreen(Headlight.viewer.state())"

# The lamp of the brand. A page without an icon makes the browser ask for one at each change of the address.
ICON = (
    '<link rel="icon" href="data:image/svg+xml,'
    "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='7' fill='%23f0a830'/%3E%3C/svg%3E\">"
)

logger = logging.getLogger("headlight")


def load(folder: Path) -> tuple[dict[str, Translator], list[str]]:
    """Load every model of a folder; return the translators and one sentence for each that failed."""
    translators: dict[str, Translator] = {}
    problems = [] if folder.is_dir() else [f"There is no folder {folder}; check --models."]
    for path in list_models(folder):
        if not path.name.isprintable():  # half a line, a turned one or none: no message could name it
            problems.append(
                f"{quote_untrusted(path.name)} is left out; give its directory a name of visible characters."
            )
            continue
        try:
            translators[path.name] = Translator.load(path)
        except UserError as error:
            # The page tells everybody; where the model lies on this machine is nobody's business.
            problems.append(f"{path.name} is left out: {str(error).replace(str(path), path.name)}")
    return translators, problems


class Export(NamedTuple):
    """The menu that gives away the record on screen."""

    button: gr.Button
    files: list[gr.DownloadButton]
    calls: list[gr.Code]


class Question(NamedTuple):
    """The widgets that say what to translate."""

    sentence: gr.Textbox
    model: gr.Dropdown
    beam_size: gr.Slider
    length_penalty: gr.Slider


class Answer(NamedTuple):
    """What a translation fills."""

    message: gr.HTML
    export: gr.Button
    which: gr.Button  # asks which heads matter
    heads: gr.Plot  # says it


def build(translators: Mapping[str, Translator], problems: Sequence[str] = ()) -> gr.Blocks:
    """Return the page."""
    desk = Desk(translators)
    lanes = Lanes(desk.ask, SLOW, FROM_FILES)
    names = list(translators)
    first = "de-en" if "de-en" in names else (names[0] if names else "")
    with gr.Blocks(title="Headlight", analytics_enabled=False, delete_cache=(3600, 3600)) as page:
        with gr.Row(elem_id="hl-top"):
            gr.HTML('<span class="hl-lamp"></span>Headlight', elem_id="hl-brand", apply_default_css=False)
            model = _model_picker(translators, first)
            export = _export_menu()
        with gr.Row(elem_id="hl-sentence-row"):
            sentence = _sentence_box(first)
            options = gr.Button("Options", elem_id="hl-options-button")
            translate = gr.Button(
                "Translate ⏎", variant="primary", elem_id="hl-translate", interactive=bool(names)
            )
            cancel = gr.Button("Cancel", elem_id="hl-cancel")
            gr.HTML(html_template='<div role="status"></div>', elem_id="hl-place", apply_default_css=False)
        question = Question(sentence, model, *_options())
        if problems:
            gr.HTML(_paragraphs(problems), elem_id="hl-problems", apply_default_css=False)
        message = gr.HTML(
            "" if names else NO_MODELS,
            html_template='<div role="alert">${value}</div>',
            elem_id="hl-message",
            apply_default_css=False,
        )
        with gr.Row(elem_id="hl-examples"):
            samples = [gr.Button(**button, size="sm") for button in _example_buttons(first)]
        viewer(lanes, elem_id="hl-viewer")
        with gr.Column(elem_id="hl-importance"):
            which = gr.Button("Which heads matter?", size="sm", interactive=False, elem_id="hl-which")
            heads = gr.Plot(visible=False, show_label=False, container=False, elem_id="hl-heads")
        answer = Answer(message, export.button, which, heads)
        if names:
            _wire_translation(page, desk, question, answer, (translate, cancel), samples)
            _wire_views(desk, lanes, answer, export)
        options.click(None, js=TOGGLE_OPTIONS, api_visibility="private")
        export.button.click(None, js=TOGGLE_EXPORT, api_visibility="private")
        _serve(Api(lanes))
    return page.queue(max_size=64)


def launch_options(service: Service | None = None) -> dict[str, Any]:
    """Return how the page is launched: its look, what guards it, and nothing from outside."""
    return {
        "app_kwargs": (service or Service()).app_kwargs(),
        "theme": theme(),
        "head": f"{ICON}<style>\n{style('viewer.css', 'panels.css', 'page.css')}</style>",
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "share": False,
        "quiet": True,
        "state_session_capacity": 200,  # Gradio keeps 75 kB for each of the latest sessions
    }


# Widgets


def _model_picker(translators: Mapping[str, Translator], first: str) -> gr.Dropdown:
    return gr.Dropdown(
        [(translator.title, name) for name, translator in translators.items()],
        value=first or None,
        label="Model",
        show_label=False,
        container=False,
        interactive=len(translators) > 0,
        elem_id="hl-model",
    )


def _sentence_box(first: str) -> gr.Textbox:
    return gr.Textbox(
        _examples(first)[0],
        label="Sentence",
        show_label=False,
        container=False,
        placeholder="Type a sentence",
        max_lines=1,
        elem_id="hl-sentence",
    )


def _options() -> tuple[gr.Slider, gr.Slider]:
    with gr.Row(elem_id="hl-options"):
        greedy, longer = "1 is greedy: the likeliest word each time", "higher prefers longer translations"
        beam_size = gr.Slider(1, PAGE_MAX_BEAM, 1, step=1, label="Beam size", info=greedy)
        penalty = gr.Slider(0, PAGE_MAX_LENGTH_PENALTY, 1, step=0.1, label="Length penalty", info=longer)
    return beam_size, penalty


def _export_menu() -> Export:
    with gr.Column(elem_id="hl-export-place"):
        button = gr.Button("Export", elem_id="hl-export", size="sm", interactive=False)
        with gr.Column(elem_id="hl-export-menu"):
            titles = ("Page that works offline (HTML)", "Whole record (JSON)", "Arrays for NumPy (NPZ)")
            files = [gr.DownloadButton(title, size="sm", interactive=False) for title in titles]
            calls = [
                gr.Code(label="The same from Python", language="python", interactive=False, wrap_lines=True),
                gr.Code(label="From a shell", language="shell", interactive=False, wrap_lines=True),
            ]
    return Export(button, files, calls)


def _paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def _examples(model: object) -> list[str]:
    """The sentences for a model; anything can be in the place of its name."""
    return (EXAMPLES.get(model) if isinstance(model, str) else None) or [""]


def _example_buttons(model: str) -> list[dict[str, Any]]:
    sentences = _examples(model)
    padded = sentences + [""] * (EXAMPLE_BUTTONS - len(sentences))
    return [{"value": sentence, "visible": sentence != ""} for sentence in padded]


# Callbacks


def _wire_translation(
    page: gr.Blocks,
    desk: Desk,
    question: Question,
    answer: Answer,
    buttons: tuple[gr.Button, gr.Button],
    samples: list[gr.Button],
) -> None:
    """Translate on arrival, on Enter, on the button, on an example and on a new model."""

    def answered(trigger: Any) -> None:
        """Translate when `trigger` happens."""
        trigger(None, question, answer, js=TRANSLATE, api_visibility="private")

    translate, cancel = buttons
    arrival = page.load(None, question, question, js=_read_address(desk), api_visibility="private")
    arrival.then(lambda model: _choose_model(model)[1:], question.model, samples, **QUIET)
    answered(arrival.then)
    answered(translate.click)
    answered(question.sentence.submit)
    for sample in samples:
        chosen = sample.click(lambda text: text, sample, question.sentence, api_visibility="private")
        answered(chosen.then)
    switched = question.model.input(_choose_model, question.model, [question.sentence, *samples], **QUIET)
    answered(switched.then)
    cancel.click(None, js=CANCEL, api_visibility="private")


Work = Callable[[object], list[Any]]
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


def _wire_views(desk: Desk, lanes: Lanes, answer: Answer, export: Export) -> None:
    """What a person asks of the record on screen, outside the viewer."""
    on_screen = gr.JSON(visible=False)

    def take_away(request: object) -> list[Any]:
        taken = desk.take_away(request)
        cache = answer.export.GRADIO_CACHE
        try:
            files = [save_bytes_to_cache(data, name, cache) for name, data in taken.files.items()]
        except OSError as error:
            raise UserError(DISK_FULL) from error
        return [*(gr.update(value=file, interactive=True) for file in files), taken.python, taken.curl]

    def head_map(request: object) -> list[Any]:
        return [gr.update(value=desk.head_map(request), visible=True)]

    menu = [*export.files, *export.calls]
    export.button.click(
        _guarded(take_away, menu, lanes), on_screen, [answer.message, *menu], js=ON_SCREEN, **QUIET
    )
    answer.which.click(
        _guarded(head_map, [answer.heads], lanes),
        on_screen,
        [answer.message, answer.heads],
        js=ON_SCREEN,
        api_visibility="private",
    )


def _serve(served: Api) -> None:
    """The named endpoints of the page's HTTP API; the lanes, not Gradio, limit how many work at once."""
    for work in (served.translate, served.attention, served.score, served.mute):
        api(_for_client(work), api_name=work.__name__, concurrency_limit=None)


def _guarded(work: Work, outputs: Sequence[Any], lanes: Lanes) -> Callable[[object], Awaitable[list[Any]]]:
    """Let slow `work` fill its outputs; an error is told in the message and keeps the last result."""

    @functools.wraps(work)
    async def guarded(request: object) -> list[Any]:
        try:
            return ["", *await lanes.slowly(functools.partial(work, request))]
        except UserError as error:
            told = html.escape(str(error))
        except Exception:
            logger.exception(work.__name__)
            told = UNEXPECTED
        return [told, *(gr.skip() for _ in outputs)]

    return guarded


def _for_client(work: Callable[..., Awaitable[dict[str, Any]]]) -> Callable[..., Awaitable[dict[str, Any]]]:
    """`work` for a client of the API, which reads a UserError's sentence."""

    @functools.wraps(work)
    async def served(*arguments: Any) -> dict[str, Any]:
        try:
            return await work(*arguments)
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from error

    return served


def _choose_model(model: str) -> list[Any]:
    """Return the new model's first example, if it has one, and its example buttons."""
    sentence = _examples(model)[0] or gr.skip()
    return [sentence, *(gr.update(**button) for button in _example_buttons(model))]


def _read_address(desk: Desk) -> str:
    """What a link asks for, if it is possible here, in place of what the page opens with."""
    opening = {
        "examples": {name: _examples(name)[0] for name in desk.translators},
        "captions": {name: CAPTIONS[name] for name in desk.translators if name in CAPTIONS},
        "most": {"beam": PAGE_MAX_BEAM, "penalty": PAGE_MAX_LENGTH_PENALTY},
    }
    return f"(...widgets) => Headlight.readAddress({json.dumps(opening)}, widgets)"


def main(host: str | None = None, port: int | None = None, models: Path = MODELS) -> None:
    """Serve Headlight's page.

    Args:
        host: address to listen on; 127.0.0.1 unless GRADIO_SERVER_NAME says otherwise.
        port: port to listen on; 7860 unless GRADIO_SERVER_PORT says otherwise.
        models: the folder that holds the model directories.
    """
    log_lines()
    host = host or os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1")
    try:
        port = environment.port() if port is None else port
        check_address(host, port)
    except UserError as error:
        sys.exit(str(error))
    translators, problems = load(models)
    for problem in problems:
        logger.warning(problem)
    os.environ["no_proxy"] = "*"  # Gradio asks this very server whether it runs; nothing else is asked
    service, page = Service(translators), build(translators, problems)
    service.install_signal_handlers()
    page.launch(server_name=host, server_port=port, prevent_thread_lock=True, **launch_options(service))
    log_lines()  # uvicorn's too, which has set up its own
    print(f"Headlight: http://{host}:{port}", flush=True)
    service.run(page)


if __name__ == "__main__":
    tyro.cli(main)
