"""The table of replacements of a SentencePiece normaliser, as its model file holds it.

It has three parts: the size of a trie in bytes, the trie as a double array in units of 32 bits (the format
of the library Darts-clone), and the values, each ended by a zero byte. The table of the usual rule nmt_nfkc
has 225,000 entries in 0.3 MB, so it is searched in this form.
"""

from __future__ import annotations

import struct

import numpy as np
from jaxtyping import UInt32

MAX_TABLE = 4 << 20  # bytes
MAX_KEY = 64  # bytes that are replaced together; at most 12 in nmt_nfkc
MAX_VALUE = 128  # bytes that one replacement can have; at most 33 in nmt_nfkc


class Charsmap:
    """Replaces the longest match at each place of a text."""

    def __init__(self, table: bytes) -> None:
        """Raises ValueError if the table is too long or not one.

        Every lookup stays inside it and reads at most `MAX_KEY` bytes of the text.
        """
        self.table = table
        self._units: tuple[int, ...] = ()
        self._values = b""
        if table:
            size = int.from_bytes(table[:4], "little")
            if len(table) > MAX_TABLE or size % 4 or size == 0 or size + 4 > len(table):
                raise ValueError("the table is too long or cut short")
            self._units = struct.unpack_from(f"<{size // 4}I", table, 4)
            self._values = table[4 + size :]
            if _depth(np.frombuffer(table, "<u4", size // 4, 4)) > MAX_KEY:
                raise ValueError("the trie has a cycle or too long keys")

    def replace(self, text: str, start: int) -> tuple[str, int]:
        """What the longest match at `start` becomes, and where it ends; without one, the character itself."""
        units, values = self._units, self._values
        found, end = text[start], start + 1
        if not units:
            return found, end
        node = _offset(units[0])
        for place in range(start, len(text)):
            for byte in text[place].encode():
                node ^= byte
                # The lowest byte of a unit is the label of the edge to it; the highest bit marks a value.
                if node >= len(units) or units[node] & 0x800000FF != byte:
                    return found, end
                unit = units[node]
                node ^= _offset(unit)
            if unit >> 8 & 1 and node < len(units):
                first = units[node] & 0x7FFFFFFF
                value, _, _ = values[first : first + MAX_VALUE].partition(b"\0")
                found, end = value.decode("utf-8", "replace"), place + 1
        return found, end


def _offset(unit: int) -> int:
    """From a unit to its children's units."""
    return (unit >> 10) << ((unit & 1 << 9) >> 6)


def _depth(units: UInt32[np.ndarray, " U"]) -> int:
    """Length in bytes of the longest key of a trie, at most `MAX_KEY` + 1."""
    places = np.arange(len(units), dtype=np.uint32)
    children = places ^ (units >> 10 << ((units & 1 << 9) >> 6))  # of each unit: the place for the label 0
    labels = units & 0xFF
    edges = np.flatnonzero(units >> 31 == 0)
    parents = places[edges] ^ labels[edges]  # what `children` is for the units from which an edge comes
    reached = np.array([children[0]])
    for depth in range(MAX_KEY + 1):
        found = edges[np.isin(parents, reached)]
        if not len(found):
            return depth
        reached = children[found]
    return MAX_KEY + 1
