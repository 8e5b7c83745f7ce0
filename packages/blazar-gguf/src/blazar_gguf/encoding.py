"""Python values to the bytes of a GGUF file, the reverse of the walk."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from blazar_gguf.errors import GgufWriteError
from blazar_gguf.fields import infer_array_type, infer_type
from blazar_gguf.types import ValueType
from blazar_gguf.values import CODES, LazyArray, Scalar

PlainValue = Scalar | bytes | Sequence[Scalar] | Sequence[bytes]
"""What can be given as a value: a scalar, bytes for a string that is not UTF-8, or a sequence of one kind."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A value with the type it is to be stored as, where the inferred one is not wanted.

    Attributes:
        value: the value.
        type: its type; ARRAY for sequences.
        element_type: the elements' type, for ARRAY; inferred when None.
    """

    value: PlainValue
    type: ValueType
    element_type: ValueType | None = None


class Encoder:
    """Encodes in one byte order and version.

    Args:
        order: ``<`` or ``>``.
        version: 1 has 32-bit counts and lengths, 2 and 3 have 64-bit ones.
    """

    def __init__(self, order: str = "<", version: int = 3) -> None:
        self.order = order
        self.version = version
        self._size_code = "I" if version == 1 else "Q"

    def number(self, code: str, value: float) -> bytes:
        """One number, by its ``struct`` code."""
        return struct.pack(self.order + code, value)

    def size(self, n: int) -> bytes:
        """A count or length."""
        return self.number(self._size_code, n)

    def string(self, value: str | bytes) -> bytes:
        """A length-prefixed string."""
        raw = value.encode() if isinstance(value, str) else value
        return self.size(len(raw)) + raw

    def head(self, key: str | bytes, kind: ValueType) -> bytes:
        """Key and type number: what stands before every value."""
        if not key:
            raise GgufWriteError("a key must not be empty")
        return self.string(key) + self.number("I", kind)

    def field(self, key: str | bytes, value: PlainValue | Typed) -> bytes:
        """A whole key-value.

        Raises:
            GgufWriteError: the value does not fit its type, or has none.
        """
        typed = value if isinstance(value, Typed) else typed_value(key, value)
        try:
            return self.head(key, typed.type) + self._payload(typed)
        except (struct.error, TypeError, OverflowError) as error:
            raise GgufWriteError(
                f"{_shown(key)}: {typed.value!r:.80} cannot be stored as {typed.type.label}: {error}"
            ) from error

    def _payload(self, typed: Typed) -> bytes:
        value, kind = typed.value, typed.type
        if kind is ValueType.STRING:
            if not isinstance(value, (str, bytes)):
                raise TypeError("not a string")
            return self.string(value)
        if kind is ValueType.ARRAY:
            if isinstance(value, (str, bytes, int, float)):
                raise TypeError("not a sequence")
            element = typed.element_type
            if element is None:
                element = array_type(value)
            return self.number("I", element) + self.size(len(value)) + self._elements(element, value)
        if isinstance(value, (str, bytes)) or not isinstance(value, (int, float)):
            raise TypeError("not a number")
        return self.number(CODES[kind], value)

    def _elements(self, element: ValueType, values: Sequence[Scalar] | Sequence[bytes]) -> bytes:
        if element is ValueType.ARRAY:
            raise TypeError("arrays of arrays do not exist")
        if element is ValueType.STRING:
            return b"".join(self._strings(values))
        return struct.pack(f"{self.order}{len(values)}{CODES[element]}", *values)

    def _strings(self, values: Iterable[Scalar | bytes]) -> Iterable[bytes]:
        for value in values:
            if not isinstance(value, (str, bytes)):
                raise TypeError("not a string")
            yield self.string(value)

    def tensor_info(self, name: str, dims: Sequence[int], type_id: int, offset: int) -> bytes:
        """One entry of the tensor table."""
        code = "I" if self.version == 1 else "Q"
        return (
            self.string(name)
            + self.number("I", len(dims))
            + struct.pack(f"{self.order}{len(dims)}{code}", *dims)
            + self.number("I", type_id)
            + self.number("Q", offset)
        )


def array_type(values: Sequence[Scalar] | Sequence[bytes]) -> ValueType:
    """The element type for a sequence of plain values; strings may be text or bytes, mixed."""
    if isinstance(values, LazyArray):
        return values.element_type
    if any(isinstance(v, bytes) for v in values):
        return ValueType.STRING
    return infer_array_type(tuple(v for v in values if not isinstance(v, bytes)))


def typed_value(key: str | bytes, value: PlainValue) -> Typed:
    """Choose the type converters use for such a value."""
    if isinstance(value, bytes):
        return Typed(value, ValueType.STRING)
    if isinstance(value, (bool, int, float, str)):
        return Typed(value, infer_type(value))
    if isinstance(value, Sequence):
        return Typed(value, ValueType.ARRAY, _array_type_of(key, value))
    raise GgufWriteError(f"{_shown(key)}: {type(value).__name__} is no GGUF value; use int, float, bool, str or a list")


def _array_type_of(key: str | bytes, value: Sequence[Scalar] | Sequence[bytes]) -> ValueType:
    try:
        return array_type(value)
    except TypeError as error:
        raise GgufWriteError(f"{_shown(key)}: {error}") from error


def _shown(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode("utf-8", "backslashreplace")


MAX_NAME_BYTES: Final = 63
"""Longest tensor name the engine takes."""
