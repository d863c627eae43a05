"""The named endpoints of the page's HTTP API, which ask what the viewer asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from model.errors import UserError
from viz.server.scheduler import Lanes


class Api:
    """What a client can call; each raises UserError with one sentence about what it was given."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes

    async def attention(
        self,
        text: str,
        model: str = "de-en",
        beam_size: int = 1,
        length_penalty: float = 1.0,
        prefix: list[int] | None = None,
    ) -> dict[str, Any]:
        """Translate a sentence and return the full record: tokens, probabilities, attention weights.

        The translation begins with the token ids of `prefix`; one that ends with </s> is the whole of it.
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
        """Return what the model makes of a given translation: the log-probability of each of its tokens."""
        return _summary(await self._ask("score", text, model, target=target))

    async def mute(
        self,
        text: str,
        heads: list[list[str | int]],
        model: str = "de-en",
        beam_size: int = 1,
        length_penalty: float = 1.0,
    ) -> dict[str, Any]:
        """Translate with these heads silent: the new words and what the former tokens lose or gain.

        A head is [kind, layer, head] with the kind encoder, decoder or cross, layers and heads counted
        from 0. `words` and `original_words` mark what the other translation lacks; `differences` are
        those of the original tokens' log-probabilities, in nats.
        """
        found = await self._ask("mute", text, model, beam_size, length_penalty, heads=heads)
        record = found.pop("payload")
        return _summary(record) | found

    async def _ask(
        self, do: str, text: str, model: str, beam_size: int = 1, length_penalty: float = 1.0, **more: Any
    ) -> dict[str, Any]:
        # As the browser writes 1.0, so that both share their answers.
        whole = isinstance(length_penalty, float) and length_penalty.is_integer()
        penalty = int(length_penalty) if whole else length_penalty
        options = {"beam_size": beam_size, "length_penalty": penalty}
        request = {"do": do, "text": text, "model": model, **options, **more}
        answered: dict[str, Any] = json.loads(await self.lanes.ask(request))
        if "error" in answered:
            raise UserError(answered["error"])
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
