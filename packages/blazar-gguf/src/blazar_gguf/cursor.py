"""A position in a source, with the bytes around it at hand.

Every read is checked against the bytes that are left *before* anything is allocated or looped over; that one rule
is what keeps hostile headers (a string of 2^60 bytes, an array of 2^60 items) harmless.
"""

import struct
from typing import Final

from blazar_gguf.errors import GgufError, GgufTooLarge, GgufTruncated
from blazar_gguf.source import Source
from blazar_gguf.values import STRIDE

_BLOCK: Final = 1 << 20
"""Bytes of one read once the first block is used up: bounds the memory of a walk."""

_BELIEVABLE: Final = 1 << 30
"""Bytes one value, or all key-values or tensor infos together, may sensibly take."""


class Cursor:
    """Reads forward through a source; ``pos`` is the absolute position in bytes."""

    __slots__ = ("_base", "_buf", "_next_block", "_u32", "_u64", "order", "pos", "size", "source", "width")

    def __init__(self, source: Source, *, order: str = "<", pos: int = 0, width: int = 8) -> None:
        """Start at ``pos``; ``width`` is the bytes of counts and lengths: 4 in version 1, else 8."""
        self.source = source
        self.size = source.size
        self.pos = pos
        self._buf = b""
        self._base = pos
        self._next_block = source.first_block()
        self.width = width
        self.order = order
        self.set_order(order)

    def set_order(self, order: str) -> None:
        """Read what follows in that byte order, ``<`` or ``>``."""
        self.order = order
        self._u32 = struct.Struct(order + "I").unpack_from
        self._u64 = struct.Struct(order + "Q").unpack_from

    @property
    def left(self) -> int:
        """Bytes between here and the end of the file."""
        return self.size - self.pos

    def seek(self, pos: int) -> None:
        """Go to an absolute position, backwards too."""
        self.pos = pos
        if pos < self._base:
            self._buf, self._base = b"", pos

    def _at(self, need: int, what: str) -> int:
        """Make ``need`` bytes available and return their index in the buffer.

        Raises:
            GgufTruncated: the file has fewer.
        """
        index = self.pos - self._base
        if index + need > len(self._buf):
            self._fill(need, what)
            index = 0
        return index

    def _fill(self, need: int, what: str) -> None:
        if need > self.left:
            raise self.truncated(what)
        self._buf = self.source.read_ahead(self.pos, need, max(need, min(self._next_block, self.left)))
        self._base = self.pos
        self._next_block = _BLOCK
        if len(self._buf) < need:
            raise self.truncated(what)

    def truncated(self, what: str) -> GgufTruncated:
        """The error for a file that ends here."""
        return GgufTruncated(
            f"the file ends inside {what}: it is incomplete or damaged. Download it again",
            path=self.source.name or None,
            offset=min(self.pos, self.size),
        )

    def beyond(self, what: str, claim: str, size: int) -> GgufError:
        """The error for a claim of ``size`` bytes that the rest of the file cannot hold.

        A believable size means that the file was cut short, an unbelievable one that it is damaged.
        """
        if size <= _BELIEVABLE:
            return self.truncated(what)
        return GgufTooLarge(
            f"{what} {claim}, more than the {max(0, self.left):,} bytes that are left can hold: the file is damaged",
            path=self.source.name or None,
            offset=self.pos,
        )

    def take(self, length: int, what: str) -> bytes:
        """Read ``length`` bytes, which the caller has bounded."""
        i = self._at(length, what)
        self.pos += length
        return self._buf[i : i + length]

    def u32(self, what: str) -> int:
        """Read an unsigned 32-bit number."""
        i = self._at(4, what)
        self.pos += 4
        value: int = self._u32(self._buf, i)[0]
        return value

    def u64(self, what: str) -> int:
        """Read an unsigned 64-bit number."""
        i = self._at(8, what)
        self.pos += 8
        value: int = self._u64(self._buf, i)[0]
        return value

    def count(self, what: str) -> int:
        """Read a count or length: 32 bits in version 1, 64 afterwards."""
        return self.u64(what) if self.width == 8 else self.u32(what)

    def length(self, what: str) -> int:
        """Read a string's length and check that the file can hold it."""
        length = self.count(what)
        if length > self.left:
            raise self.beyond(what, f"claims {length:,} bytes", length)
        return length

    def skip(self, length: int, what: str) -> None:
        """Move on without reading; an addition, whatever the length."""
        if length > self.left:
            raise self.truncated(what)
        self.pos += length

    def hop_strings(self, count: int, what: str) -> list[int]:
        """Step over ``count`` length-prefixed strings; return the position of each 1024th.

        This is most of the time of reading a large model's header, hence the shape: batches run without any check,
        and the one that leaves the buffer, which ``unpack_from`` notices, is gone through again with care.

        Raises:
            GgufTruncated: a string reaches beyond the end of the file.
        """
        index: list[int] = []
        width = self.width
        unpack = self._u64 if width == 8 else self._u32
        for first in range(0, count, STRIDE):
            index.append(self.pos)
            batch = min(STRIDE, count - first)
            buf = self._buf
            i = self.pos - self._base
            try:
                for _ in range(batch):
                    i += unpack(buf, i)[0] + width
            except (struct.error, OverflowError):
                self._hop_carefully(batch, what)
            else:
                self.pos = self._base + i
        if self.pos > self.size:
            raise self.truncated(what)
        return index

    def _hop_carefully(self, count: int, what: str) -> None:
        for _ in range(count):
            length = self.length(what)  # moves pos past the prefix
            self.pos += length
