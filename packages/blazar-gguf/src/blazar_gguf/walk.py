"""The walk: magic, version, counts, key-values, tensor infos, in the one order GGUF allows.

Operations: :func:`start` reads the fixed part; :meth:`Walk.run` reads on to the end, or pauses before the first
large array; a paused walk is resumed by whoever needs what lies behind.

Goals: never allocate or loop beyond what the bytes left can justify; touch only the bytes that matter (fixed-size
arrays are skipped by one addition, strings hopped length by length); say exactly what is wrong and where.

The reader is deliberately more forgiving than the engine where a file is merely unusual (version 1, the other
byte order, gaps between tensors, foreign tensor types): it records a warning, and
:func:`blazar_gguf.would_load` knows which of those the engine refuses.

Sources: GGUF specification (ggml/docs/gguf.md); version 1 widths from its revision history.
"""

import struct
from typing import Final

from blazar_gguf.cursor import Cursor
from blazar_gguf.errors import GgufError, GgufMalformed, NotGguf, UnsupportedVersion
from blazar_gguf.layout import Layout, lay_out
from blazar_gguf.source import Source
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import ValueType
from blazar_gguf.values import (
    CODES,
    EAGER_BYTES,
    EAGER_ITEMS,
    SIZES,
    Field,
    LazyArray,
    Scalar,
    split_strings,
    text,
)

MAGIC: Final = b"GGUF"
MAX_VERSION: Final = 3
MAX_DIMS: Final = 4
MAX_KEY_BYTES: Final = 1 << 20
"""The specification says 65,535; the engine loads a file with a key of 70,000 bytes."""
MAX_STRINGS: Final = 1 << 24
"""Elements of a string array: sixty times the largest vocabulary, and the loop still ends in seconds."""
_KEY_VALUE_MIN: Final = {4: 4 + 1 + 4 + 1, 8: 8 + 1 + 4 + 1}
_TENSOR_MIN: Final = {4: 4 + 4 + 4 + 8, 8: 8 + 4 + 4 + 8}
_MAX_ELEMENTS: Final = (1 << 63) - 1
_PLACES: Final = {
    b"GGML": "an old GGML file, from before GGUF. Convert it again from the original model",
    b"ggjt": "an old GGJT file, from before GGUF. Convert it again from the original model",
    b"tjgg": "an old GGJT file, from before GGUF. Convert it again from the original model",
    b"lmgg": "an old GGML file, from before GGUF. Convert it again from the original model",
    b"<!DO": "an HTML page, perhaps a login or error page saved in place of the model. Download it again",
    b"<htm": "an HTML page, perhaps a login or error page saved in place of the model. Download it again",
    b"vers": "a Git LFS pointer. Fetch the file it stands for (git lfs pull)",
    b"PK\x03\x04": "a zip archive or PyTorch file, not GGUF",
}


def key_text(raw: bytes) -> str:
    r"""A key or tensor name as text; other bytes than UTF-8 stay tellable apart as ``\xNN``."""
    return raw.decode("utf-8", "backslashreplace")


class Walk:
    """A header being read.

    Results are published only when they are whole, so a reader in another thread sees the earlier or the later state.

    Attributes:
        version: 1, 2 or 3.
        n_tensors: declared number of tensors.
        n_kv: declared number of key-values.
        fields: those read so far, in file order.
        pending: key, element type and count of the large array a paused walk stands before; its field is not
            in ``fields`` yet.
        layout: tensors and where their data lie; None until the walk is complete.
    """

    def __init__(self, source: Source, *, version: int, order: str, pos: int) -> None:
        self.source = source
        self.version = version
        self.order = order
        self.width = 4 if version == 1 else 8
        self.fields: dict[str, Field] = {}
        self.pending: Field | None = None
        self.layout: Layout | None = None
        cursor = self._cursor(pos)
        self.n_tensors = cursor.count("the tensor count")
        self.n_kv = cursor.count("the key-value count")
        for what, n, least in (
            ("key-values", self.n_kv, _KEY_VALUE_MIN[self.width]),
            ("tensors", self.n_tensors, _TENSOR_MIN[self.width]),
        ):
            if n * least > cursor.left:
                raise cursor.beyond(f"the list of {what}", f"claims {n:,} of them", n * least)
        self._read = 0
        self._paused_at: Cursor = cursor

    @property
    def complete(self) -> bool:
        """True when all key-values and tensor infos have been read."""
        return self.layout is not None

    def _cursor(self, pos: int) -> Cursor:
        return Cursor(self.source, order=self.order, pos=pos, width=self.width)

    def run(self, *, pause: bool = False) -> None:
        """Read on to the end, or with ``pause`` only to the first large array.

        Raises:
            GgufError: of the kind that fits; the state stays as it was.
        """
        if self.layout is not None:
            return
        cursor = self._paused_at
        pos, fields, n = cursor.pos, dict(self.fields), self._read
        try:
            while n < self.n_kv:
                before = cursor.pos
                field = _read_field(cursor, n, pause=pause)
                if field.key in fields:
                    raise self._malformed(f"key {field.key!r} appears twice", before)
                if pause and field.n_bytes < 0:
                    cursor.seek(before)
                    self.fields, self._read, self.pending = fields, n, field
                    return
                fields[field.key] = field
                n += 1
            infos_offset = cursor.pos
            tensors = _read_tensors(cursor, self.n_tensors)
            layout = lay_out(
                fields,
                tensors,
                infos_offset=infos_offset,
                header_bytes=cursor.pos,
                file_bytes=self.source.size,
            )
        except GgufError as error:
            cursor.seek(pos)
            error.path = error.path or self.source.name or None
            raise
        self.fields, self._read, self.pending = fields, n, None
        self.layout = layout

    def _malformed(self, text: str, offset: int) -> GgufMalformed:
        return GgufMalformed(f"{text}: the file is damaged", path=self.source.name or None, offset=offset)


def start(source: Source) -> Walk:
    """Read magic and version and return a walk that stands before the first key-value.

    Raises:
        NotGguf, UnsupportedVersion, GgufTruncated, GgufTooLarge: as their names say.
    """
    cursor = Cursor(source)
    name = source.name or None
    if source.size == 0:
        raise NotGguf("the file is empty. Download it again", path=name)
    magic = cursor.take(min(4, source.size), "the magic")
    if magic != MAGIC:
        known = _PLACES.get(magic)
        raise NotGguf(
            f"this is {known}" if known else f"this is no GGUF file: it starts with {magic!r}, not with b'GGUF'",
            path=name,
        )
    version_at = cursor.pos
    version = cursor.u32("the version")
    order = "<"
    if version & 0xFFFF == 0 and version:
        order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if not 1 <= version <= MAX_VERSION:
        raise UnsupportedVersion(
            f"GGUF version {version} is unknown; versions 1 to {MAX_VERSION} can be read. Update blazar-gguf",
            version=version,
            path=name,
            offset=version_at,
        )
    return Walk(source, version=version, order=order, pos=cursor.pos)


def _bad(cursor: Cursor, text: str) -> GgufMalformed:
    return GgufMalformed(f"{text}: the file is damaged", path=cursor.source.name or None, offset=cursor.pos)


def _value_type(cursor: Cursor, key: str) -> ValueType:
    number = cursor.u32(f"the type of {key!r}")
    if number > ValueType.F64:
        raise _bad(cursor, f"key {key!r} has the unknown value type {number}")
    return ValueType(number)


def _read_field(cursor: Cursor, number: int, *, pause: bool) -> Field:
    """Read one key-value. With ``pause``, a large array is returned with ``n_bytes`` -1, unread."""
    length = cursor.length(f"key {number}")
    if length == 0:
        raise _bad(cursor, f"key {number} is empty")
    if length > MAX_KEY_BYTES:
        raise _bad(cursor, f"key {number} claims {length:,} bytes")
    raw_key = cursor.take(length, f"key {number}")
    key = key_text(raw_key)
    kind = _value_type(cursor, key)
    if kind is ValueType.ARRAY:
        return _read_array(cursor, key, raw_key, pause=pause)
    if kind is ValueType.STRING:
        size = cursor.length(f"the value of {key!r}")
        offset = cursor.pos
        decoded: Scalar | None = None
        if size <= EAGER_BYTES:
            decoded = text(cursor.take(size, f"the value of {key!r}"))
        else:
            cursor.skip(size, f"the value of {key!r}")
    else:
        size, offset = SIZES[kind], cursor.pos
        (decoded,) = struct.unpack(cursor.order + CODES[kind], cursor.take(size, f"the value of {key!r}"))
    return Field(key, kind, None, 1, offset, size, raw_key, decoded, cursor.source, cursor.order)


def _read_array(cursor: Cursor, key: str, raw_key: bytes, *, pause: bool) -> Field:
    what = f"the array {key!r}"
    element = _value_type(cursor, key)
    if element is ValueType.ARRAY:
        raise _bad(cursor, f"{what} holds arrays, which GGUF does not allow")
    count = cursor.count(what)
    is_text = element is ValueType.STRING
    least = count * (cursor.width if is_text else SIZES[element])
    if least > cursor.left:
        raise cursor.beyond(what, f"claims {count:,} elements", least)
    if is_text and count > MAX_STRINGS:
        raise _bad(cursor, f"{what} claims {count:,} strings, more than any vocabulary has")
    offset = cursor.pos
    small = count <= EAGER_ITEMS
    if pause and not small:
        return Field(key, ValueType.ARRAY, element, count, offset, -1, raw_key)
    index: list[int] = []
    if is_text:
        index = cursor.hop_strings(count, what)
        n_bytes = cursor.pos - offset
    else:
        n_bytes = count * SIZES[element]
        cursor.skip(n_bytes, what)
    if not small or n_bytes > EAGER_BYTES:
        lazy = LazyArray(
            cursor.source,
            element,
            length=count,
            offset=offset,
            n_bytes=n_bytes,
            order=cursor.order,
            index=index,
            length_width=cursor.width,
        )
        return Field(
            key, ValueType.ARRAY, element, count, offset, n_bytes, raw_key, None, cursor.source, cursor.order, lazy
        )
    cursor.seek(offset)
    data = cursor.take(n_bytes, what)
    values: tuple[Scalar, ...]
    if is_text:
        values = tuple(text(s) for s in split_strings(data, count, cursor.order, cursor.width))
    else:
        values = struct.unpack(f"{cursor.order}{count}{CODES[element]}", data)
    return Field(key, ValueType.ARRAY, element, count, offset, n_bytes, raw_key, values, cursor.source, cursor.order)


def _read_tensors(cursor: Cursor, count: int) -> tuple[TensorInfo, ...]:
    """Read all tensor infos, in file order."""
    out: list[TensorInfo] = []
    seen: set[bytes] = set()
    for number in range(count):
        what = f"tensor info {number}"
        length = cursor.length(what)
        if length > MAX_KEY_BYTES:
            raise _bad(cursor, f"the name of tensor {number} claims {length:,} bytes")
        raw = cursor.take(length, what)
        if raw in seen:
            raise _bad(cursor, f"tensor {key_text(raw)!r} appears twice")
        seen.add(raw)
        n_dims = cursor.u32(what)
        if n_dims > MAX_DIMS:
            raise _bad(cursor, f"tensor {key_text(raw)!r} claims {n_dims:,} dimensions, more than {MAX_DIMS}")
        rest = cursor.take(n_dims * cursor.width + 12, what)
        code = "Q" if cursor.width == 8 else "I"
        *dims, type_id, offset = struct.unpack(f"{cursor.order}{n_dims}{code}IQ", rest)
        info = TensorInfo(key_text(raw), tuple(dims), type_id, offset)
        _check_shape(cursor, info)
        out.append(info)
    return tuple(out)


def _check_shape(cursor: Cursor, info: TensorInfo) -> None:
    for d in info.dims:
        if d > _MAX_ELEMENTS:
            raise _bad(cursor, f"tensor {info.name!r} has a negative dimension")
    if info.n_elements > _MAX_ELEMENTS:
        raise _bad(cursor, f"tensor {info.name!r} claims more elements than any file could hold")
    kind = info.ggml_type
    if kind is not None and info.dims and info.dims[0] % kind.block:
        raise _bad(
            cursor,
            f"tensor {info.name!r} has rows of {info.dims[0]} elements, no multiple of {kind.name}'s {kind.block}",
        )
