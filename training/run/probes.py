"""Probes of a run: at some steps, every attention weight of a few fixed sentence pairs.

The page shows with them how each head developed during training. `model.storage.probes` documents the
file.
"""

from __future__ import annotations

from pathlib import Path

import torch

from model.errors import UserError
from model.inputs import source_ids
from model.results import KINDS
from model.storage.probes import PROBES, Part, Probe, ProbePair, Probes, weights_to_codes
from model.translator import Translator
from training.run.damage import reading

# Written for this purpose; short, because a file grows with the square of the number of tokens. In the
# second pair of each language words change their order; in the third one side negates with two words.
SENTENCES = {
    ("de", "en"): (
        ProbePair(
            "Der alte Kater schläft unter dem Küchentisch.",
            "The old cat is sleeping under the kitchen table.",
        ),
        ProbePair("Gestern hat meine Tante ein rotes Boot gekauft.", "My aunt bought a red boat yesterday."),
        ProbePair("Ich weiß nicht, wo die Ente wohnt.", "I don't know where the duck lives."),
    ),
    ("en", "fr"): (
        ProbePair("The old cat is sleeping under the table.", "Le vieux chat dort sous la table."),
        ProbePair("My aunt bought a red boat yesterday.", "Hier, ma tante a acheté un bateau rouge."),
        ProbePair("I don't know where the duck lives.", "Je ne sais pas où habite le canard."),
    ),
    ("en", "it"): (
        ProbePair("The old cat is sleeping under the table.", "Il vecchio gatto dorme sotto il tavolo."),
        ProbePair("My aunt bought a red boat yesterday.", "Ieri mia zia ha comprato una barca rossa."),
        ProbePair("I don't know where the duck lives.", "Non so dove abita l'anatra."),
    ),
    ("word", "reversed"): tuple(ProbePair(word, word[::-1]) for word in ("lantern", "notebook", "sunflower")),
}

SETTLED = 64  # steps without a probe of a run that begins with trained heads, which change slowly


def should_probe(step: int) -> bool:
    """Whether a run is probed after this step: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on.

    A run of 4,500 steps has 26 probes and one of 30,000 has 31, including the probe of the last step. The
    rule does not depend on the number of steps, so a run that is extended keeps its probes.
    """
    while step > 3 and step % 2 == 0:
        step //= 2
    return step <= 3


class ProbeRecorder:
    """Probes a model during training; this changes neither its weights nor the random state."""

    def __init__(
        self, translator: Translator, output: Path, step: int, start: int = 0, main: bool = True
    ) -> None:
        """Prepare to probe the run in `output`, which continues after `step`; only the main process writes.

        Both count from the first step of the history; `start` is the step at which this run began. Drops the
        run's probes of later steps, because the resumed run measures them again, and a probe that was made
        only because an earlier session ended there.
        """
        self.translator, self.output, self.start, self.main = translator, output, start, main
        checkpoint = translator.checkpoint
        if step and (output / PROBES).exists():
            with reading(output / PROBES, is_needed=False):
                self.probes = Probes.load(output)
            self.probes.keep(lambda at: at <= start or (at <= step and self._is_due(at)))
        else:
            sentences = readable_sentences(translator)
            tokenizers = checkpoint.source_tokenizer, checkpoint.target_tokenizer
            self.probes = Probes((Part.new(sentences, *tokenizers),))

    def record(self, step: int, last: bool = False) -> None:
        """Measure the model after this step, if it is the last one or one to probe, and write the file."""
        part = self.probes.current
        if self.main and part.sentences and (self._is_due(step) or (last and step > self.start)):
            part.measured[step] = tuple(measure(self.translator, pair) for pair in part.sentences)
            self.probes.save(self.output)

    def _is_due(self, step: int) -> bool:
        """Whether to probe after this step; a run that begins with trained heads waits for step 64."""
        since = step - self.start
        return should_probe(since) and (self.start == 0 or since >= SETTLED)


def readable_sentences(translator: Translator) -> tuple[ProbePair, ...]:
    """The pairs of the model's languages that its tokenizer, learned from any corpus, can read."""
    checkpoint = translator.checkpoint
    pairs = SENTENCES.get((checkpoint.info.source_language, checkpoint.info.target_language), ())
    rows = source_ids(checkpoint, [pair.source for pair in pairs], translator.max_tokens)
    return tuple(pair for pair, row in zip(pairs, rows, strict=True) if not isinstance(row, UserError))


def measure(translator: Translator, pair: ProbePair) -> Probe:
    """Probe the model in eval mode. Raises UserError if it cannot read the pair."""
    result = translator.score(pair.source, pair.target)
    encoder, decoder, cross = (weights_to_codes(getattr(result.attention, kind)) for kind in KINDS)
    return Probe(encoder, decoder, cross, torch.tensor(result.log_probabilities))
