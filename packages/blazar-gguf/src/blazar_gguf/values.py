"""Metadata values: how they lie in the file, and arrays that are decoded only when somebody looks.

Small values are plain Python objects. An array of more than a few thousand elements becomes a :class:`LazyArray`,
which remembers where its elements are and reads them when asked, so opening a model with a vocabulary of 262,144
tokens costs no more memory than one with 300.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

from blazar_gguf.errors import GgufTruncated
from blazar_gguf.source import Source
from blazar_gguf.types import ValueType

EAGER_ITEMS: Final = 4096
"""Arrays up to this many elements are decoded at once; per-layer arrays reach 512."""

EAGER_BYTES: Final = 1 << 16
"""Strings and arrays that take more bytes than this in the file are decoded on demand."""

STRIDE: Final = 1024
"""A lazy string array remembers the position of each 1024th element, for random access."""

CODES: Final = {
    ValueType.U8: "B",
    ValueType.I8: "b",
    ValueType.U16: "H",
    ValueType.I16: "h",
    ValueType.U32: "I",
    ValueType.I32: "i",
    ValueType.F32: "f",
    ValueType.BOOL: "?",
    ValueType.U64: "Q",
    ValueType.I64: "q",
    ValueType.F64: "d",
}
"""``struct`` codes of the types with a fixed size. Any non-zero byte is a true bool, as the engine reads it."""

SIZES: Final = {kind: struct.calcsize("<" + code) for kind, code in CODES.items()}
"""Bytes of one element of each fixed-size type."""

Scalar = int | float | bool | str
"""A decoded scalar. Text is UTF-8; bytes that are not valid UTF-8 become U+FFFD (see :attr:`Field.raw`)."""


def text(raw: bytes) -> str:
    """Decode a string value; GGUF promises UTF-8, files do not always keep the promise."""
    return raw.decode("utf-8", "replace")


class LazyArray(Sequence[Scalar]):
    """A large array, read from the file when it is looked at; nothing is cached.

    ``len``, ``element_type`` and single items are cheap; iteration and :meth:`load` decode everything once.

    Raises (from every access to elements):
        GgufChanged, GgufFileUnreadable, GgufTruncated: the file is no longer what it was.
    """

    __slots__ = ("_index", "_length", "_n_bytes", "_offset", "_order", "_source", "_width", "element_type")

    def __init__(
        self,
        source: Source,
        element_type: ValueType,
        *,
        length: int,
        offset: int,
        n_bytes: int,
        order: str = "<",
        index: Sequence[int] = (),
        length_width: int = 8,
    ) -> None:
        """Describe an array without reading it.

        Args:
            source: where the bytes are.
            element_type: any type but ARRAY.
            length: number of elements.
            offset: byte position of the first element.
            n_bytes: bytes of all elements, length prefixes included.
            order: ``<`` or ``>``.
            index: for strings, the positions of elements 0, 1024, 2048…
            length_width: bytes of a string's length prefix: 4 in version 1, else 8.
        """
        self.element_type = element_type
        self._source = source
        self._length = length
        self._offset = offset
        self._n_bytes = n_bytes
        self._order = order
        self._index = index
        self._width = length_width

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<LazyArray of {self._length:,} {self.element_type.label}>"

    @overload
    def __getitem__(self, index: int) -> Scalar: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Scalar]: ...
    def __getitem__(self, index: int | slice) -> Scalar | Sequence[Scalar]:
        wanted = range(self._length)[index]
        if isinstance(wanted, int):
            return self._decode(wanted, wanted + 1)[0]
        if not wanted:
            return ()
        low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1]) + 1
        part = self._decode(low, high)
        return tuple(part[i - low] for i in wanted)

    def __iter__(self) -> Iterator[Scalar]:
        return iter(self.load())

    def load(self) -> tuple[Scalar, ...]:
        """Decode all elements; strings as text."""
        return tuple(self._decode(0, self._length))

    def load_bytes(self) -> list[bytes]:
        """Decode all elements of a string array as they are stored; tokens may be any bytes.

        Raises:
            TypeError: the elements are no strings.
        """
        if self.element_type is not ValueType.STRING:
            raise TypeError(f"elements are {self.element_type.label}, not str")
        return self._strings(0, self._length)

    def raw(self) -> bytes:
        """The elements' bytes exactly as they lie in the file."""
        return self._read(self._offset, self._n_bytes)

    def _read(self, offset: int, length: int) -> bytes:
        data = self._source.read_at(offset, length)
        if len(data) != length:
            raise GgufTruncated("the file ends inside an array", path=self._source.name or None, offset=offset)
        return data

    def _decode(self, low: int, high: int) -> Sequence[Scalar]:
        if self.element_type is ValueType.STRING:
            return [raw.decode("utf-8", "replace") for raw in self._strings(low, high)]
        size = SIZES[self.element_type]
        data = self._read(self._offset + low * size, (high - low) * size)
        return struct.unpack(f"{self._order}{high - low}{CODES[self.element_type]}", data)

    def _strings(self, low: int, high: int) -> list[bytes]:
        """Elements ``low`` to ``high`` as bytes, reading from the nearest remembered position before them."""
        first = low // STRIDE
        start = self._index[first] if first < len(self._index) else self._offset
        skipped = low - (first * STRIDE if first < len(self._index) else 0)
        after = -(-high // STRIDE)
        stop = self._index[after] if after < len(self._index) else self._offset + self._n_bytes
        return split_strings(self._read(start, stop - start), high - low + skipped, self._order, self._width)[skipped:]


def split_strings(data: bytes, count: int, order: str, width: int = 8) -> list[bytes]:
    """Cut ``count`` length-prefixed strings off the front of ``data``, which is known to hold them."""
    unpack = struct.Struct(order + ("Q" if width == 8 else "I")).unpack_from
    out: list[bytes] = []
    append = out.append
    pos = 0
    for _ in range(count):
        start = pos + width
        pos = start + unpack(data, pos)[0]
        append(data[start:pos])
    return out


Value = Scalar | tuple[Scalar, ...] | LazyArray
"""What ``meta.fields[key]`` returns."""


@dataclass(frozen=True, slots=True)
class Field:
    r"""One key-value pair and its place in the file.

    Attributes:
        key: the key as text (undecodable bytes as ``\xNN``).
        type: stored type.
        element_type: type of the elements, for an array.
        count: number of elements; 1 for a scalar.
        offset: byte position of the payload (after a string's or an array's length).
        n_bytes: bytes of the payload.
        raw_key: the key's bytes.
        decoded: the value, or None where it is decoded on demand.
        source: where the payload is read from; None for fields made in memory.
        order: byte order of the payload.
        lazy: the array that stands for the payload, where it is large.
    """

    key: str
    type: ValueType
    element_type: ValueType | None = None
    count: int = 1
    offset: int = 0
    n_bytes: int = 0
    raw_key: bytes = b""
    decoded: Scalar | tuple[Scalar, ...] | None = None
    source: Source | None = None
    order: str = "<"
    lazy: LazyArray | None = None

    @property
    def type_label(self) -> str:
        """E.g. ``u32``, ``str`` or ``arr[str, 262144]``."""
        if self.element_type is None:
            return self.type.label
        return f"arr[{self.element_type.label}, {self.count}]"

    @property
    def value(self) -> Value:
        """The value; large strings are read now, large arrays stay lazy."""
        if self.lazy is not None:
            return self.lazy
        if self.decoded is not None:
            return self.decoded
        return text(self.raw())

    def raw(self) -> bytes:
        """The payload exactly as stored; for a string its bytes.

        Raises:
            GgufChanged, GgufFileUnreadable: the file is no longer what it was.
            ValueError: the field was made in memory and has no stored form.
        """
        if self.source is None:
            raise ValueError(f"{self.key} was not read from a file")
        data = self.source.read_at(self.offset, self.n_bytes)
        if len(data) != self.n_bytes:
            raise GgufTruncated("the file ends inside a value", path=self.source.name or None, offset=self.offset)
        return data
