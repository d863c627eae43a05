"""A translator without a model: random softmax weights of any size, for tests of the drawing."""

from __future__ import annotations

import re
import zlib

import torch

from model.errors import UserError
from model.record import Alternative, AttentionRecord, Hypothesis, Token, Translation
from model.tokenizer import BOS_ID, EOS_ID

START = Token("<s>", "<s>", None, True, BOS_ID)
END = Token("</s>", "</s>", None, True, EOS_ID)
LONGEST = 128


def random_translation(
    source: list[str], target: list[str], layers: int = 4, heads: int = 8, seed: int = 0, sharp: float = 2.0
) -> Translation:
    """Return a translation whose weights are random softmax rows, larger `sharp` for more pointed ones."""
    torch.manual_seed(seed)
    source_tokens = _tokens(source)
    predicted = _tokens(target)
    read = (START, *predicted[:-1])
    steps, length = len(predicted), len(source_tokens)
    future = torch.ones(steps, steps).triu(1).bool()
    diagonal = torch.eye(steps, length) * 2 * sharp
    scores = torch.randn(layers, heads, steps, length) * sharp + diagonal
    own = (torch.randn(layers, heads, steps, steps) * sharp).masked_fill(future, -torch.inf)
    record = AttentionRecord(
        encoder=(torch.randn(layers, heads, length, length) * sharp).softmax(-1),
        decoder=own.softmax(-1),
        cross=scores.softmax(-1),
        source=source_tokens,
        read=read,
        predicted=predicted,
    )
    chances = (torch.randn(steps, 5) * 2).softmax(-1).sort(-1, descending=True).values.log()
    words = [Token(f"▁{word}", word, 0, False, _id(word)) for word in ("perhaps", "or", "else", "never")]
    alternatives = tuple(
        tuple(Alternative(token, float(chance)) for token, chance in zip((taken, *words), row, strict=True))
        for taken, row in zip(predicted, chances, strict=True)
    )
    text = " ".join(target)
    chosen = tuple(float(row[0]) for row in chances)
    total = sum(chosen)
    ids = tuple(token.id for token in predicted)
    other = (*ids[:-1], _id("indeed"), END.id)
    return Translation(
        source_text=" ".join(source),
        text=text,
        source_language="German",
        target_language="English",
        attention=record,
        log_probabilities=chosen,
        alternatives=alternatives,
        hypotheses=(
            Hypothesis(text, total / steps, total, ids, chosen),
            Hypothesis(f"{text} indeed", total / steps - 0.3, total - 2, other, (*chosen, -2.0)),
        ),
        timings={"encode": 4.0, "decode": 31.0},
    )


class FakeTranslator:
    """Answers each sentence with its own words, reversed in case."""

    def __init__(self, name: str, title: str, layers: int = 4, heads: int = 8) -> None:
        self.name = name
        self.title = title
        self.layers = layers
        self.heads = heads

    def translate(self, text: str, beam_size: int = 1, length_penalty: float = 1.0) -> Translation:
        words = re.findall(r"<[^>]*>|[^\s.,!?]+|[.,!?]", text)
        if not words:
            raise UserError("There is nothing to translate; type a sentence.")
        if len(words) + 1 > LONGEST:
            raise UserError(f"The sentence has {len(words) + 1} tokens; at most {LONGEST} fit. Shorten it.")
        if text == "crash":
            raise RuntimeError("a secret of the server")
        return random_translation(
            words, [word.swapcase() for word in words], self.layers, self.heads, seed=len(text)
        )


def _tokens(words: list[str]) -> tuple[Token, ...]:
    return (*(Token(f"▁{word}", word, index, False, _id(word)) for index, word in enumerate(words)), END)


def _id(word: str) -> int:
    """A place behind the specials in a vocabulary of 8,000, the same for the same word."""
    return 4 + zlib.crc32(word.encode()) % 7996
