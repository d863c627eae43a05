"""Answers the request for an exported page that contains the model and translates without a server."""

from __future__ import annotations

from model import Translator
from viz.export import slug
from viz.server.handlers.records import payload_of, run_translation
from viz.server.handlers.registry import handler
from viz.server.validation import PortableRequest
from viz.static.site import portable


# Not cached, because it is some megabytes.
@handler("portable", PortableRequest, cost=2.0, is_cached=False)
def portable_page(translator: Translator, request: PortableRequest) -> dict[str, str]:
    """The page as text, and a name for its file."""
    payload = payload_of(translator, request, run_translation(translator, request))
    name = f"headlight-{slug(translator.name)}-{slug(payload['source_text'])}-with-model.html"
    return {"name": name, "html": portable(translator, payload, request.view, request.language)}
