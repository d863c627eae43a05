"""Changes of a file's bytes, as a stranger could make them."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import strategies as st

HEADER = 3000  # bytes in which a file's header and structure are
NUMBERS = [0, 1, 0x7F, 0xFF, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1]
# With the bytes of a size or an offset, a number, infinity and the brackets of JSON.
WORDS = [
    *(struct.pack("<Q", number)[:size] for number in NUMBERS for size in (1, 4, 8)),
    *(b"null", b"-1", b"1e999", b"NaN", b'"', b"[", b"{}", b"\0", b"\xff\xfe", b"\\ud800", b"9" * 400),
]


Change = tuple[str, int, int, bytes]  # a kind, the first byte and the end of those that change, new bytes


@st.composite
def changes(draw: st.DrawFn, size: int) -> list[Change]:
    """Changes of some bytes of a file of this size, half of them in the header."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, draw(st.sampled_from([min(size, HEADER), size])) - 1))
        new = draw(st.sampled_from(WORDS) | st.binary(min_size=1, max_size=1))
        kind = draw(st.sampled_from(["replace", "replace", "insert", "remove", "repeat", "cut"]))
        found.append((kind, start, start + draw(st.integers(1, 16)), new))
    return found


def change(path: Path, made: list[Change]) -> None:
    """Make these changes."""
    content = path.read_bytes()
    for kind, start, end, new in made:
        before, inside, after = content[:start], content[start:end], content[end:]
        content = (
            before
            + {
                "replace": new + content[start + len(new) :],
                "insert": new + inside + after,
                "remove": after,
                "repeat": inside * 50 + after,
                "cut": b"",
            }[kind]
        )
    path.write_bytes(content)
