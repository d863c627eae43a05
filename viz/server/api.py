"""The named endpoints of the page's HTTP API; each sends one of the viewer's requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import gradio as gr

from viz.server.scheduler import Scheduler


class Api:
    """The endpoints, one method each. Gradio sends their errors, one sentence, to the client."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

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
    ) -> dict[str, Any]:
        """Translate with these heads muted, and compare with the original translation.

        A head is [kind, layer, head] with the kind encoder, decoder or cross, layers and heads counted
        from 0. `words` and `original_words` mark the words that the other translation lacks; `differences`
        are the changes of the original tokens' log-probabilities, in nats.
        """
        muted = await self._ask("mute", text, model, beam_size, length_penalty, heads=heads)
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
            raise gr.Error(answered["error"], print_exception=False)
        answer: dict[str, Any] = answered["answer"]
        return answer


def _summary(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "translation": record["text"],
        "source_tokens": [token["text"] for token in record["tokens"]["source"]],
        "target_tokens": [token["text"] for token in record["tokens"]["predicted"]],
        "log_probabilities": record["log_probabilities"],
        "hypotheses": record["hypotheses"],
        "notices": record["notices"],
    }
