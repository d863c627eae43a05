"""From which value on something is said of a translation: the table that Python and the page share."""

from __future__ import annotations

import math

THRESHOLDS = {
    # Probability of a token below which the model was in doubt. The page rounds: 0.605 reads as 60 %.
    # Another word is a `rival` from this share of that probability on.
    "unsure": 0.605,
    "rival": 0.2,
    # Mean log-probability per token, in nats, below which a translation gets a notice.
    "unsure_translation": -0.85,
    # Share of the words of a sentence that stand in its translation from which the model does not read its
    # language, and the least number of words. Of 200 development sentences each (Tatoeba, captions), de-en
    # marks 0.5 % and 0 % in German, 73 % and 94 % in English and 67 % (Tatoeba) in French.
    "copied": 0.5,
    "copied_words": 4,
    # Mean log-probability per token of a given translation below which it hardly belongs to the sentence.
    "unrelated": -3.7,
    # Nats of `omissions.absence` from which a source word seems to be missing, by a head that was taught to
    # align or by the heads with the highest source focus; what a letter adds, letters that count at most,
    # a weight that is as good as none, and what a nat adds by which the end of the translation surprised.
    "missing": 5.125,
    "missing_free": 4.7,
    "letter": 0.2,
    "letters": 8,
    "unread": 0.01,
    "early_end": 0.15,
    # Nats that a word of the translation loses without a source word: a tenth of its probability, or clearly.
    "lost": -math.log(0.9),
    "linked": 1.0,
    # Nats that a translation loses without a head that it needs.
    "needed": math.log(1.5),
    # Words or heads that one sentence names.
    "named": 3,
    # Words that a word passed, and places that it moved, at least; words in a row that kept their order.
    "passed": 2,
    "ordered": 3,
    # Pieces of a word that the model knows only in parts, and the letters that they have on average at most.
    "spelled": 3,
    "piece": 3,
    # Share of a word that a connection carries at least to be listed among its routes.
    "flow": 0.01,
    # Loss of a trained model, divided by the loss of a uniform guess.
    "trained": 0.5,
    # Times as large as another sum, to be larger: rounding changes a sum by far less.
    "clearly": 1.01,
    # Share by which a removed cell changes a probability at least, to be worth a word.
    "removed": 0.05,
}
