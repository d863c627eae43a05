"""The viewer's request endpoint and the named endpoints of the HTTP API.

Both keep Gradio's protocol and bypass Gradio. Its queue computes and keeps results that nobody reads: here a
call is computed when its client reads it, and cancelled when the client disconnects. Its threads, through
which each request would pass, wait for Python's lock while models compute.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from model.errors import UserError, quote_untrusted, said
from viz.server.scheduler import Scheduler
from viz.server.work_queue import BUSY, NOBODY, RETRY_LATER, RefusedError, asking

MAX_UNREAD = 16 * 2**20  # bytes of calls that no client reads yet
CALL_BYTES = 4096  # that the smallest call takes, with what Python needs for it
FRESH_SECONDS = 2  # in which a client that waits for its call comes back to read it
UNREAD_SECONDS = 20
MAX_OPEN = 32  # calls that one session may have started
TOO_MANY_UNREAD = f"Too many calls of your address have not been read; try again in {FRESH_SECONDS} seconds."
UNKNOWN_CALL = "There is no such call, or it was not read in time; call the endpoint again."


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
        model: str = "de-en",
        beam_size: int = 1,
        length_penalty: float = 1.0,
        prefix: list[int] | None = None,
    ) -> dict[str, Any]:
        """Translate a sentence and return the full record: tokens, probabilities, attention weights.

        The translation begins with the token ids of `prefix`; if these end with </s>, it is complete.
        """
        return await self._ask("translate", text, model, beam_size, length_penalty, prefix=prefix or [])

    async def translate(
        self,
        text: str,
        model: str = "de-en",
        beam_size: int = 1,
        length_penalty: float = 1.0,
        prefix: list[int] | None = None,
    ) -> dict[str, Any]:
        """Translate a sentence and return the translation, its tokens, log-probabilities and hypotheses."""
        return _summary(await self.attention(text, model, beam_size, length_penalty, prefix))

    async def score(self, text: str, target: str, model: str = "de-en") -> dict[str, Any]:
        """Score a given translation: return the log-probability of each of its tokens."""
        return _summary(await self._ask("score", text, model, target=target))

    async def mute(
        self,
        text: str,
        heads: list[list[str | int]],
        model: str = "de-en",
        beam_size: int = 1,
        length_penalty: float = 1.0,
        prefix: list[int] | None = None,
        baseline: str = "zero",
        sample: list[str] | None = None,
        other: str = "",
        row: int | None = None,
    ) -> dict[str, Any]:
        """Translate with these heads muted, and compare with the original translation.

        A head is [kind, layer, head] with the kind encoder, decoder or cross, layers and heads counted
        from 0. Both translations begin with the token ids of `prefix`. A muted head gives nothing, or with
        the baseline "mean" its mean over the sentences of `sample`, or with "sentence" what it gives for
        the sentence `other`; with a `row`, only in this row, counted from 0.

        `words` and `original_words` mark the words that the other translation lacks; `differences` are the
        changes of the original tokens' log-probabilities, in nats.
        """
        given = {"baseline": baseline, "sample": sample or [], "other": other, "row": row}
        muted = await self._ask(
            "mute", text, model, beam_size, length_penalty, heads=heads, prefix=prefix or [], **given
        )
        return _summary(muted.pop("payload")) | muted

    async def _ask(
        self, do: str, text: str, model: str, beam_size: int = 1, length_penalty: float = 1.0, **more: Any
    ) -> dict[str, Any]:
        # Written as a browser writes it, 1 for 1.0, so that the page and the API share cached responses.
        whole = isinstance(length_penalty, float) and length_penalty.is_integer()
        penalty = int(length_penalty) if whole else length_penalty
        options = {"beam_size": beam_size, "length_penalty": penalty}
        request = {"do": do, "text": text, "model": model, **options, **more}
        answered: dict[str, Any] = json.loads(await self.scheduler.ask(request))
        if "error" in answered:
            raise UserError(answered["error"])
        answer: dict[str, Any] = answered["answer"]
        return answer


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


@dataclass
class Call:
    """A call of an endpoint, which waits for its client to read the result."""

    compute: Callable[[], Awaitable[Any]]
    size: int  # in bytes
    session: str | None = None  # None for a call that is read on its own
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    address: str = field(default_factory=lambda: asking.get(NOBODY).address)
    started: float = field(default_factory=time.monotonic)


class UnreadCalls:
    """The calls that no client reads yet, by their ids, the oldest first.

    When they have too many bytes, the oldest one of the address with most makes room. But no address can
    displace its own calls that have just come, because their clients may be on their way to read them: then
    the new call is refused. Every call is dropped after a while.
    """

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.sizes: Counter[str] = Counter()  # of the calls of each address

    def add(self, call: Call) -> None:
        """Keep a call. Raises HTTPException if there is no room for it."""
        while self.sizes.total() + call.size > MAX_UNREAD:
            ((most, _),) = self.sizes.most_common(1)
            oldest = next(each for each in self.calls.values() if each.address == most)
            if most == call.address and time.monotonic() - oldest.started < FRESH_SECONDS:
                raise HTTPException(429, TOO_MANY_UNREAD, {"Retry-After": str(FRESH_SECONDS)})
            self.take(oldest.id)
        self.calls[call.id] = call
        self.sizes[call.address] += call.size
        asyncio.get_running_loop().call_later(UNREAD_SECONDS, self.take, call.id)

    def take(self, identifier: str) -> Call | None:
        """Remove a call and return it, None if there is none."""
        call = self.calls.pop(identifier, None)
        if call is not None:
            self.sizes[call.address] -= call.size
            if not self.sizes[call.address]:
                del self.sizes[call.address]
        return call

    def take_session(self, session: str) -> list[Call]:
        """Remove the calls of a session and return them."""
        calls = [call for call in self.calls.values() if call.session == session]
        for call in calls:
            self.take(call.id)
        return calls


class Calls:
    """The routes of Gradio's protocol that cause work."""

    def __init__(self, api: Api, functions: Mapping[int, str]) -> None:
        self.endpoints = {endpoint.__name__: endpoint for endpoint in api.endpoints}
        self.viewer = {function.__name__: function for function in viewer_functions(api.scheduler)}
        self.functions = functions  # the numbers under which Gradio's clients know the endpoints
        self.unread = UnreadCalls()
        self.reading: dict[str, list[Call]] = {}  # by session: its further calls

    def routes(self) -> list[Route]:
        """Return the routes, which come before Gradio's own."""
        root = "/gradio_api"
        return [
            *(Route(f"{root}/call/{v2}{{name}}", self.start, methods=["POST"]) for v2 in ("v2/", "")),
            *(Route(f"{root}/call/{v2}{{name}}/{{call}}", self.read, methods=["GET"]) for v2 in ("v2/", "")),
            Route(f"{root}/component_server", self.ask, methods=["POST"]),
            Route(f"{root}/queue/join", self.join, methods=["POST"]),
            Route(f"{root}/queue/data", self.read_session, methods=["GET"]),
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
        body = request.scope["json"]
        named = "/v2/" in request.url.path
        given = body if named or not isinstance(body, dict) else body.get("data")
        return self._note(request.path_params["name"], given, await _size(request))

    async def join(self, request: Request) -> Response:
        """Note a call whose result is read in the stream of its session."""
        body = request.scope["json"]
        body = body if isinstance(body, dict) else {}
        function, session = body.get("fn_index"), body.get("session_hash")
        if not isinstance(session, str):
            raise HTTPException(400, "“session_hash” must be a text that names your session.")
        name = self.functions.get(function) if isinstance(function, int) else None
        return self._note(name, body.get("data"), await _size(request), session)

    async def read(self, request: Request) -> Response:
        """Compute one call and stream its result."""
        call = self.unread.take(request.path_params["call"])
        if call is None:
            raise HTTPException(404, UNKNOWN_CALL)

        async def events() -> AsyncIterator[str]:
            result, error = await _outcome(call)
            name, data = ("error", {"error": error}) if error else ("complete", [result])
            yield f"event: {name}\ndata: {json.dumps(data)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def read_session(self, request: Request) -> Response:
        """Compute the calls of a session, one after the other, and stream the results."""
        session = request.query_params.get("session_hash", "")
        calls = self.unread.take_session(session)
        if not calls:
            raise HTTPException(404, UNKNOWN_CALL)
        self.reading[session] = calls

        async def events() -> AsyncIterator[str]:
            try:
                while calls:
                    yield _message("process_starts", event_id=calls[0].id, eta=None)
                    result, error = await _outcome(calls[0])
                    output = {"error": error} if error else {"data": [result], "is_generating": False}
                    yield _message(
                        "process_completed", event_id=calls[0].id, output=output, success=error is None
                    )
                    del calls[0]
            finally:
                if self.reading.get(session) is calls:
                    del self.reading[session]
            yield _message("close_stream", event_id=None)

        return StreamingResponse(events(), media_type="text/event-stream")

    def _note(self, name: str | None, given: object, size: int, session: str | None = None) -> Response:
        if name not in self.endpoints:
            known = ", ".join(self.endpoints)
            raise HTTPException(404, f"There is no endpoint {quote_untrusted(name)}; choose one of: {known}.")
        call = Call(_bind(self.endpoints[name], given), size, session)
        if session in self.reading:
            if len(self.reading[session]) >= MAX_OPEN:
                raise HTTPException(503, BUSY, RETRY_LATER)
            self.reading[session].append(call)
        else:
            self.unread.add(call)
        return JSONResponse({"event_id": call.id})


async def _size(request: Request) -> int:
    """The bytes that a call takes, about as many as its request's body has."""
    return CALL_BYTES + len(await request.body())


def _bind(endpoint: Callable[..., Awaitable[Any]], given: object) -> Callable[[], Awaitable[Any]]:
    """Return the call of the endpoint with these arguments. Raises HTTPException unless it takes them."""
    signature = inspect.signature(endpoint)
    try:
        bound = signature.bind(**given) if isinstance(given, dict) else signature.bind(*given)  # type: ignore[misc]
    except TypeError as error:
        fields = signature.parameters.values()
        needed = " and ".join(f"“{one.name}”" for one in fields if one.default is one.empty)
        every = ", ".join(one.name for one in fields)
        raise HTTPException(400, f"{endpoint.__name__} needs {needed}; its fields are: {every}.") from error
    return lambda: endpoint(*bound.args, **bound.kwargs)


async def _outcome(call: Call) -> tuple[Any, str | None]:
    """The result of a call, or the sentence that says why there is none."""
    try:
        return await call.compute(), None
    except UserError as error:
        return None, str(error)


def _message(kind: str, **fields: Any) -> str:
    return f"data: {json.dumps({'msg': kind, **fields})}\n\n"


def _summary(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "translation": record["text"],
        "source_tokens": [token["text"] for token in record["tokens"]["source"]],
        "target_tokens": [token["text"] for token in record["tokens"]["predicted"]],
        "log_probabilities": record["log_probabilities"],
        "hypotheses": record["hypotheses"],
        "notices": record["notices"],
    }
