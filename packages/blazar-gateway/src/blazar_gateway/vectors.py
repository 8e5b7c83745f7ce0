"""Arithmetic on vectors: cut, scaled to length 1, packed. Pure."""

import array
import base64
import math
import sys

from blazar_routing.errors import InvalidRequest


def cut(vector: list[float], dimensions: int | None) -> list[float]:
    """Return the first ``dimensions`` of a vector, of length 1 again.

    Raises:
        InvalidRequest: It has fewer.
    """
    if dimensions is None or dimensions == len(vector):
        return vector
    if not 1 <= dimensions <= len(vector):
        raise InvalidRequest(
            f"dimensions is {dimensions}; it takes a whole number from 1 to {len(vector)}, the length of its vectors.",
            param="dimensions",
        )
    return normalised(vector[:dimensions])


def normalised(vector: list[float]) -> list[float]:
    """Return a vector scaled to length 1; the null vector stays as it is."""
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length > 0 else vector


def as_base64(vector: list[float]) -> str:
    """Return a vector as OpenAI's clients decode it: little-endian 32-bit floats."""
    packed = array.array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return base64.b64encode(packed.tobytes()).decode("ascii")
