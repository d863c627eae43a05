"""What others measured, as `make findings` prints it: every figure with its paper, its place and its setting.

What was not looked up in a stored source is not here.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One published figure, or the figures of one line of a table."""

    paper: str
    place: str
    setting: str
    figure: str


VOITA_2019 = "Voita et al. 2019", "table 2"
DALE = "Dale et al. 2023", "table 1, as later papers quote it"
LILT = "alignment-scripts of Lilt", "README"
ALTI = "Ferrando et al. 2022, repository of ALTI+", "6 layers"

PUBLISHED = {
    "judged": (
        Published(*DALE, "hallucinations, by the log-probability", "area .830"),
        Published(*DALE, "hallucinations, by ALTI", "area .849"),
        Published(*DALE, "fully detached, by the log-probability", "area .935"),
        Published(*DALE, "fully detached, by ALTI", "area .987"),
    ),
    "alignment": (
        Published(*LILT, "fast_align, both directions joined", "27.0%"),
        Published(*LILT, "MGIZA, both directions joined", "20.6%"),
        Published(*ALTI, "mean of a layer's heads, weights, the row that reads the word", "28.2%"),
        Published(*ALTI, "mean of a layer's heads, norms, the row that reads the word", "26.0%"),
        Published(*ALTI, "mean of a layer's heads, norms, the row that writes the word", "38.9%"),
    ),
    "single": (
        Published(
            "Michel et al. 2019",
            "table 1",
            "96 encoder heads of a WMT model, one removed at a time: BLEU changes significantly",
            "8 heads, 4 of them for the better",
        ),
    ),
    "removal": (
        Published(*VOITA_2019, "all heads: 48 of the encoder, 48 of the decoder, 48 cross", "BLEU 29.6"),
        Published(*VOITA_2019, "14 of the encoder, 31 of the decoder, 30 cross", "BLEU 29.62"),
        Published(*VOITA_2019, "12, 21, 25", "BLEU 29.36"),
        Published(*VOITA_2019, "8, 13, 15", "BLEU 29.06"),
        Published(*VOITA_2019, "5, 9, 12", "BLEU 28.90"),
        Published("Voita et al. 2019", "figure 7", "10 of 48 heads of the encoder alone", "BLEU -0.15"),
    ),
    "training": (
        Published("Voita et al. 2021", "abstract", "first", "language modelling of the target side"),
        Published("Voita et al. 2021", "abstract", "then", "nearly word-by-word translation"),
        Published("Voita et al. 2021", "abstract", "last", "more complicated orders"),
    ),
}
