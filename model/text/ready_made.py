"""The tokenizer of models whose tokens were made before training: a word list, and texts cut at spaces.

A tutorial's own tokenizer is code, which is never run. So a sentence is typed as its model read it: tokens
with spaces between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, get_args

from tokenizers import pre_tokenizers

from model.errors import UserError
from model.results import Token
from model.text.sentencepiece import Frame, Segment, SentencePieceTokenizer, check_vocabulary
from model.text.tokenizer import EOS_ID, SPACE, SPECIALS, UNK_ID

FILE_TYPE = "ready-made"
Cut = Literal["spaces", "words"]  # words: letters and digits in a row, and other signs in a row
CONTINUES = "@@"  # ends a piece that is not the last of its word (Sennrich et al. 2016)


@dataclass(frozen=True)
class ReadyMade:
    """Cuts a text into tokens."""

    cut: Cut = "spaces"
    lower_case: bool = False
    byte_fallback = False

    @cached_property
    def _splitter(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.WhitespaceSplit() if self.cut == "spaces" else pre_tokenizers.Whitespace()

    def segment(self, text: str) -> list[Segment]:
        """The tokens of a text, each with its place."""
        found = self._splitter.pre_tokenize_str(text)
        return [
            Segment(token.lower() if self.lower_case else token, True, start) for token, (start, _) in found
        ]


class ReadyMadeTokenizer(SentencePieceTokenizer):
    """One side of an imported model with a word list."""

    segmenter: ReadyMade

    @classmethod
    def from_json(cls, settings: Any, path: Path) -> ReadyMadeTokenizer:
        """Check everything that the cut relies on. Raises UserError."""
        match settings:
            case {
                "type": "ready-made",
                "vocabulary": list(vocabulary),
                "cut": str(cut),
                "lower_case": bool(lower_case),
                **frame,
            } if cut in get_args(Cut):
                check_vocabulary(vocabulary, path)
                rules = ReadyMade("words" if cut == "words" else "spaces", lower_case)
                return cls(rules, vocabulary, Frame.from_json(frame, vocabulary, path))
        raise UserError(f"{path} is not a tokenizer of an imported model; import the model again.")

    def to_json(self) -> str:
        rules = {"cut": self.segmenter.cut, "lower_case": self.segmenter.lower_case}
        settings = {"type": FILE_TYPE, "vocabulary": self.vocabulary} | rules | self.frame.to_json()
        return json.dumps(settings, ensure_ascii=False)

    @cached_property
    def _marks_spaces(self) -> bool:
        """Whether a token says that a space precedes it, as in SentencePiece."""
        return any(token.startswith(SPACE) for token in self.vocabulary)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids up to </s>, without special tokens; pieces of a word are joined."""
        tokens = [self.vocabulary[index] for index in takewhile(EOS_ID.__ne__, ids) if index >= len(SPECIALS)]
        if self._marks_spaces:
            return "".join(tokens).replace(SPACE, " ").strip()
        return re.sub(rf"{CONTINUES}( |$)", "", " ".join(tokens))

    def tokens(self, ids: Sequence[int], surfaces: Sequence[str] | None = None) -> tuple[Token, ...]:
        """Ids as tokens to show; without marks of spaces each token is a word, or continues one."""
        found = super().tokens(ids, surfaces)
        if self._marks_spaces:
            return found
        shown, word, continues = [], -1, False
        for token in found:
            if token.special and token.id != UNK_ID:
                shown.append(replace(token, word=None))
                continue
            word += not continues
            continues = token.text.endswith(CONTINUES)
            shown.append(replace(token, word=word, text=token.text.removesuffix(CONTINUES) or token.text))
        return tuple(shown)
