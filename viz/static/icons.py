"""Draws the icon of the page as PNG: a lamp with three beams, one of them strong."""

from __future__ import annotations

import struct
import zlib
from functools import cache

import numpy as np
from jaxtyping import Float, UInt8
from numpy.typing import NDArray

SAMPLES = 2  # of a pixel in each direction, for smooth edges
NIGHT, EDGE, LAMP, CORE = (18, 17, 16), (201, 116, 16), (240, 168, 48), (255, 243, 207)
CORNER = 0.36  # radius of the corners; the picture goes from -1 to 1
CENTRE, RADIUS = (-0.36, 0.0), 0.34
BEAMS = (((0.62, -0.46), 0.35), ((0.72, 0.0), 1.0), ((0.62, 0.46), 0.55))  # (end, strength) each
BEAM_WIDTH = 0.07
SAFE = 0.72  # what every shape of a maskable icon shows


@cache
def icon(size: int, *, maskable: bool = False) -> bytes:
    """Return the icon of `size` x `size` pixels; a maskable one fills the square, and the system cuts it."""
    line = (np.arange(size * SAMPLES) + 0.5) / (size * SAMPLES) * 2 - 1
    x, y = np.meshgrid(line, line)
    scale = SAFE if maskable else 1.0
    colour = _colours(x / scale, y / scale)
    outside = np.hypot(*(np.maximum(np.abs(side) - (1 - CORNER), 0) for side in (x, y))) > CORNER
    alpha = np.where(outside & (not maskable), 0.0, 255.0)
    samples = np.concatenate([colour, alpha[..., None]], axis=-1)
    pixels = samples.reshape(size, SAMPLES, size, SAMPLES, 4).mean(axis=(1, 3))
    return _png(pixels.round().astype(np.uint8))


def _colours(x: NDArray[np.float64], y: NDArray[np.float64]) -> Float[np.ndarray, "H W 3"]:
    picture = np.broadcast_to(np.array(NIGHT, float), (*x.shape, 3)).copy()
    for end, strength in BEAMS:
        on_beam = _distance_to_beam(x, y, end) < BEAM_WIDTH
        picture[on_beam] += strength * (np.array(LAMP) - picture[on_beam])
    depth = 1 - np.hypot(x - CENTRE[0], y - CENTRE[1]) / RADIUS  # 1 in the middle of the lamp, 0 at its edge
    shades = [np.interp(depth, (0, 0.45, 1), channel) for channel in zip(EDGE, LAMP, CORE, strict=True)]
    return np.where(depth[..., None] > 0, np.stack(shades, axis=-1), picture)


def _distance_to_beam(
    x: NDArray[np.float64], y: NDArray[np.float64], end: tuple[float, float]
) -> NDArray[np.float64]:
    """The distance to the line from the lamp to the end of a beam."""
    along = np.array(end) - CENTRE
    share = np.clip(((x - CENTRE[0]) * along[0] + (y - CENTRE[1]) * along[1]) / (along @ along), 0, 1)
    return np.hypot(x - CENTRE[0] - share * along[0], y - CENTRE[1] - share * along[1])


def _png(pixels: UInt8[np.ndarray, "H W 4"]) -> bytes:
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # 0: a line is written as it is
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)  # 8 bits of red, green, blue and alpha
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + checksum
