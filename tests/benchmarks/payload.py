"""Size of the page's payload compared with BertViz's view of the same record: `make bench-payload`.

The record is of a model of the default shape with random weights: they hardly compress. BertViz's
model view is the content of its notebook cell: markup, script and the weights as JSON; d3 and jQuery are
loaded in addition, from the network. Ours is the payload that the page receives: every weight, tokens,
next words and measures. The exported file is the payload with the whole viewer in one page that works
offline.
"""

from __future__ import annotations

from bertviz import model_view

from model.results import AttentionRecord
from tests.benchmarks.decoding import Sentences, random_translator
from viz.export import document
from viz.payload import encode, to_json

LENGTHS = (12, 25, 60)  # source tokens; the translation has as many


def bertviz(record: AttentionRecord) -> int:
    """Bytes of BertViz's model view of a record."""
    view = model_view(
        encoder_attention=list(record.encoder[:, None]),
        decoder_attention=list(record.decoder[:, None]),
        cross_attention=list(record.cross[:, None]),
        encoder_tokens=[token.text for token in record.source],
        decoder_tokens=[token.text for token in record.read],
        html_action="return",
    )
    return len(view.data.encode())


def main() -> None:
    """Print bytes and ratios."""
    translator = random_translator()
    print(f"{'tokens':>8}{'BertViz':>12}{'payload':>12}{'BertViz / payload':>20}{'exported file':>16}")
    for length in LENGTHS:
        (text,) = Sentences(translator, 1, length).texts
        ids = translator.checkpoint.source_tokenizer.encode(text)
        result = translator.score(text, ids)
        payload = encode(result, "random")
        theirs, ours = bertviz(result.attention), len(to_json(payload).encode())
        exported = len(document(payload).encode())
        print(f"{length:8}{theirs:12,}{ours:12,}{theirs / ours:18.1f} x{exported:16,}")


if __name__ == "__main__":
    main()
