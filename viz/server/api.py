"""The viewer's request endpoint and the named endpoints of the HTTP API.

Both keep Gradio's protocol and bypass Gradio. Its queue computes and keeps results that nobody reads: here a
call is computed when its client reads it, and cancelled when the client disconnects. Its threads, through
which each request would pass, wait for Python's lock while models compute.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypedDict

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from model.decoding.options import LENGTH_PENALTY
from model.errors import UserError, quote_untrusted, said
from model.storage.checkpoint import FIRST_MODEL
from viz.payload import Payload
from viz.server.inbox import Call, Inbox
from viz.server.scheduler import Scheduler
from viz.server.work_queue import NOBODY, RETRY_LATER, RefusedError, asking

UNKNOWN_CALL = "There is no such call, or it was not read in time; call the endpoint again."


class TranslationValues(TypedDict):
    """A translation without weights."""

    translation: str
    source_tokens: list[str]
    target_tokens: list[str]
    log_probabilities: list[float]
    hypotheses: list[Mapping[str, object]]
    notices: list[str]


class Api:
    """The endpoints, one method each. Their errors are one sentence for the client."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    @property
    def endpoints(self) -> tuple[Callable[..., Awaitable[Any]], ...]:
        """All endpoints, each named like its function."""
        return self.translate, self.attention, self.score, self.mute

    async def attention(
        self,
        text: str,
        model: str = FIRST_MODEL,
        beam_size: int = 1,
        length_penalty: float = LENGTH_PENALTY,
        forced: list[int] | None = None,
    ) -> Payload:
        """Translate a sentence and return the full record: tokens, probabilities, attention weights.

        The translation begins with the token ids of `forced`; if these end with </s>, it is complete.
        """
        return await self._ask("translate", text, model, beam_size, length_penalty, forced=forced or [])

    async def translate(
        self,
        text: str,
        model: str = FIRST_MODEL,
        beam_size: int = 1,
        length_penalty: float = LENGTH_PENALTY,
        forced: list[int] | None = None,
    ) -> TranslationValues:
        """Translate a sentence and return the translation, its tokens, log-probabilities and hypotheses."""
        return _summary(await self.attention(text, model, beam_size, length_penalty, forced))

    async def score(self, text: str, target: str, model: str = FIRST_MODEL) -> TranslationValues:
        """Score a given translation: return the log-probability of each of its tokens."""
        return _summary(await self._ask("score", text, model, target=target))

    async def mute(
        self,
        text: str,
        heads: list[list[str | int]],
        model: str = FIRST_MODEL,
        beam_size: int = 1,
        length_penalty: float = LENGTH_PENALTY,
        forced: list[int] | None = None,
        baseline: str = "zero",
        sample: list[str] | None = None,
        other: str = "",
        row: int | None = None,
    ) -> Mapping[str, object]:
        """Translate with these heads muted, and compare with the original translation.

        A head is [kind, layer, head] with the kind encoder, decoder or cross, layers and heads counted
        from 0. Both translations begin with the token ids of `forced`. A muted head gives nothing, or with
        the baseline "mean" its mean over the sentences of `sample`, or with "sentence" what it gives for
        the sentence `other`; with a `row`, only in this row, counted from 0.

        `words` and `original_words` mark the words that the other translation lacks; `differences` are the
        changes of the original tokens' log-probabilities, in nats.
        """
        given = {"baseline": baseline, "sample": sample or [], "other": other, "row": row}
        muted = await self._ask(
            "mute", text, model, beam_size, length_penalty, heads=heads, forced=forced or [], **given
        )
        return {**_summary(muted.pop("payload")), **muted}

    async def _ask(
        self,
        do: str,
        text: str,
        model: str,
        beam_size: int = 1,
        length_penalty: float = LENGTH_PENALTY,
        **more: Any,
    ) -> Any:
        # Written as a browser writes it, 1 for 1.0, so that the page and the API share cached responses.
        whole = isinstance(length_penalty, float) and length_penalty.is_integer()
        penalty = int(length_penalty) if whole else length_penalty
        options = {"beam_size": beam_size, "length_penalty": penalty}
        request = {"do": do, "text": text, "model": model, **options, **more}
        answered = json.loads(await self.scheduler.ask(request))
        if "error" in answered:
            raise UserError(answered["error"])
        return answered["answer"]


def viewer_functions(scheduler: Scheduler) -> list[Callable[[Any], Awaitable[Response]]]:
    """Return the functions that the viewer calls by their names."""

    async def ask(request: Any) -> Response:
        has_ticket = isinstance(request, dict) and isinstance(request.get("ticket"), int)
        ticket = request.pop("ticket") if has_ticket else None
        try:
            return Response(await scheduler.ask(request, ticket), media_type="application/json")
        except RefusedError as refusal:
            answer = {"error": str(refusal), "said": said(refusal)}
            return JSONResponse(answer, 503 if scheduler.is_stopping else 200, RETRY_LATER)

    async def queue_position(ticket: Any) -> Response:
        position = scheduler.queue_position(ticket)
        return JSONResponse(said(position) if isinstance(position, str) else position)

    async def cancel(ticket: Any) -> Response:
        scheduler.cancel(ticket)
        return JSONResponse(None)

    return [ask, queue_position, cancel]


class Calls:
    """The routes of Gradio's protocol that cause work."""

    def __init__(self, api: Api, functions: Mapping[int, str]) -> None:
        self.endpoints = {endpoint.__name__: endpoint for endpoint in api.endpoints}
        self.viewer = {function.__name__: function for function in viewer_functions(api.scheduler)}
        self.functions = functions  # the numbers under which Gradio's clients know the endpoints
        self.inbox = Inbox()

    def routes(self) -> list[Route]:
        """Return the routes, which come before Gradio's own."""
        root = "/gradio_api"
        return [
            *(Route(f"{root}/call/{v2}{{name}}", self.start, methods=["POST"]) for v2 in ("v2/", "")),
            *(
                Route(f"{root}/call/{v2}{{name}}/{{call}}", self.stream, methods=["GET"])
                for v2 in ("v2/", "")
            ),
            Route(f"{root}/component_server", self.ask, methods=["POST"]),
            Route(f"{root}/queue/join", self.join, methods=["POST"]),
            Route(f"{root}/queue/data", self.stream_session, methods=["GET"]),
        ]

    async def ask(self, request: Request) -> Response:
        """Answer the viewer."""
        body = request.scope["json"]
        body = body if isinstance(body, dict) else {}
        name = body.get("fn_name")
        if not isinstance(name, str) or name not in self.viewer:
            known = ", ".join(self.viewer)
            raise HTTPException(404, f"The viewer has no function {quote_untrusted(name)}; it has: {known}.")
        return await self.viewer[name](body.get("data"))

    async def start(self, request: Request) -> Response:
        """Note a call whose result is read on its own: a list of arguments, or for v2 an object."""
        return self._note(request.path_params["name"], request, await request.body())

    async def join(self, request: Request) -> Response:
        """Note a call whose result is read in the stream of its session."""
        body = request.scope["json"]
        body = body if isinstance(body, dict) else {}
        function = body.get("fn_index")
        if not isinstance(body.get("session_hash"), str):
            raise HTTPException(400, "“session_hash” must be a text that names your session.")
        name = self.functions.get(function) if isinstance(function, int) else None
        return self._note(name, request, await request.body())

    async def stream(self, request: Request) -> Response:
        """Compute one call and stream its result."""
        call = self.inbox.pop(self.inbox.calls.get(request.path_params["call"]))
        if call is None:
            raise HTTPException(404, UNKNOWN_CALL)

        async def events() -> AsyncIterator[str]:
            result, error = await self._outcome(call)
            name, data = ("error", {"error": error}) if error else ("complete", [result])
            yield f"event: {name}\ndata: {json.dumps(data)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def stream_session(self, _: Request) -> Response:
        """Compute the calls of a session, one after the other, and stream the results."""
        client = asking.get(NOBODY)
        if not self.inbox.next_of(client):
            raise HTTPException(404, UNKNOWN_CALL)

        async def events() -> AsyncIterator[str]:
            while call := self.inbox.pop(self.inbox.next_of(client)):
                yield _message("process_starts", event_id=call.id, eta=None)
                result, error = await self._outcome(call)
                output = {"error": error} if error else {"data": [result], "is_generating": False}
                yield _message("process_completed", event_id=call.id, output=output, success=error is None)
            yield _message("close_stream", event_id=None)

        return StreamingResponse(events(), media_type="text/event-stream")

    def _note(self, name: str | None, request: Request, body: bytes) -> Response:
        if name not in self.endpoints:
            known = ", ".join(self.endpoints)
            raise HTTPException(404, f"There is no endpoint {quote_untrusted(name)}; choose one of: {known}.")
        _bind(self.endpoints[name], _arguments(request.scope["json"]))  # refuses what lacks a field
        call = Call(name, body)
        self.inbox.add(call)
        return JSONResponse({"event_id": call.id})

    async def _outcome(self, call: Call) -> tuple[Any, str | None]:
        """The result of a call, or the sentence that says why there is none."""
        with self.inbox.counted(call):
            bound = _bind(self.endpoints[call.endpoint], _arguments(json.loads(call.body)))
            try:
                return await self.endpoints[call.endpoint](*bound.args, **bound.kwargs), None
            except UserError as error:
                return None, str(error)


def _arguments(body: object) -> object:
    """A list of arguments in an envelope, or an object with their names."""
    return body["data"] if isinstance(body, dict) and "data" in body else body


def _bind(endpoint: Callable[..., Awaitable[Any]], given: Any) -> inspect.BoundArguments:
    """Return the arguments of a call. Raises HTTPException unless the endpoint takes them."""
    signature = inspect.signature(endpoint)
    try:
        return signature.bind(**given) if isinstance(given, dict) else signature.bind(*given)
    except TypeError as error:
        fields = signature.parameters.values()
        needed = " and ".join(f"“{one.name}”" for one in fields if one.default is one.empty)
        every = ", ".join(one.name for one in fields)
        raise HTTPException(400, f"{endpoint.__name__} needs {needed}; its fields are: {every}.") from error


def _message(kind: str, **fields: Any) -> str:
    return f"data: {json.dumps({'msg': kind, **fields})}\n\n"


def _summary(record: Payload) -> TranslationValues:
    return {
        "translation": record["text"],
        "source_tokens": [token["text"] for token in record["tokens"]["source"]],
        "target_tokens": [token["text"] for token in record["tokens"]["predicted"]],
        "log_probabilities": record["log_probabilities"],
        "hypotheses": record["hypotheses"],
        "notices": record["notices"],
    }
