"""Copying a file with other metadata and the same tensors.

Only the header is written anew; tensor data are streamed, so memory stays flat whatever the size, and the result is
byte for byte the same after the header.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from blazar_gguf.encoding import Encoder, PlainValue, Typed
from blazar_gguf.errors import GgufWriteError
from blazar_gguf.layout import ALIGNMENT_KEY, padded
from blazar_gguf.meta import GgufMeta
from blazar_gguf.source import FileSource, Source
from blazar_gguf.types import ValueType
from blazar_gguf.values import Field
from blazar_gguf.walk import MAGIC, start
from blazar_gguf.writer import replacing

_CHUNK: Final = 4 << 20
"""Bytes copied at a time."""


def copy_with_metadata(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    changes: Mapping[str, PlainValue | Typed | None],
) -> Path:
    """Copy a GGUF file, changing, adding or removing keys.

    Keys that stay keep their place, type and bytes; new ones are appended. The target appears under its name only when
    it is whole, so it may be the source itself.

    Args:
        source: the file to copy; of a split model each part has its own keys.
        target: where to write.
        changes: key to new value, or to None to remove the key. A plain value takes the type the key has, where that
            is possible; :class:`Typed` chooses one.

    Returns:
        The target.

    Raises:
        GgufError: the source cannot be read, is incomplete, or changes meanwhile.
        GgufWriteError: a value cannot be stored, a key to remove is not there, or the alignment was to be changed.
        OSError: the target cannot be written.
    """
    reader = FileSource(source)
    walk = start(reader)
    walk.run()
    meta = GgufMeta.from_walk(walk)
    if meta.missing_bytes:
        raise GgufWriteError(
            f"{meta.missing_bytes:,} bytes of tensor data are missing; download the file again before copying it",
            path=meta.path,
        )
    if ALIGNMENT_KEY in changes:
        raise GgufWriteError(f"{ALIGNMENT_KEY} cannot be changed without moving every tensor")
    absent = [key for key, value in changes.items() if value is None and key not in meta.fields]
    if absent:
        raise GgufWriteError(f"key {absent[0]!r} is not in the file", path=meta.path)
    with replacing(target) as out:
        for piece in copied(meta, reader, changes):
            out.write(piece)
    return Path(target)


def copied(meta: GgufMeta, source: Source, changes: Mapping[str, PlainValue | Typed | None]) -> Iterator[bytes]:
    """The changed file, piece by piece; the checks are :func:`copy_with_metadata`'s.

    Args:
        meta: the complete header of the file.
        source: its bytes.
        changes: see :func:`copy_with_metadata`.
    """
    encoder = Encoder(">" if meta.big_endian else "<", meta.version)
    known = meta.fields.known
    new = {key: value for key, value in changes.items() if key not in known and value is not None}
    count = len(known) + len(new) - sum(value is None for value in changes.values())
    written = 0
    for piece in _header(meta, source, encoder, changes, new, count):
        written += len(piece)
        yield piece
    yield bytes(padded(written, meta.alignment) - written)
    yield from _range(source, meta.data_offset, meta.file_bytes)


def _header(
    meta: GgufMeta,
    source: Source,
    encoder: Encoder,
    changes: Mapping[str, PlainValue | Typed | None],
    new: Mapping[str, PlainValue | Typed],
    count: int,
) -> Iterator[bytes]:
    yield MAGIC + encoder.number("I", meta.version)
    yield encoder.size(len(meta.tensors)) + encoder.size(count)
    for field in meta.fields.known.values():
        if field.key not in changes:
            yield from _unchanged(field, source, encoder)
            continue
        value = changes[field.key]
        if value is not None:
            yield _changed(field, value, encoder)
    for key, value in new.items():
        yield encoder.field(key, value)
    yield from _range(source, meta.layout.infos_offset, meta.header_bytes)


def _unchanged(field: Field, source: Source, encoder: Encoder) -> Iterator[bytes]:
    yield encoder.head(field.raw_key, field.type)
    if field.type is ValueType.STRING:
        yield encoder.size(field.n_bytes)
    elif field.element_type is not None:
        yield encoder.number("I", field.element_type) + encoder.size(field.count)
    yield from _range(source, field.offset, field.offset + field.n_bytes)


def _changed(field: Field, value: PlainValue | Typed, encoder: Encoder) -> bytes:
    """Encode a new value in the type the key has, or in the inferred one where it does not fit."""
    if isinstance(value, Typed):
        return encoder.field(field.raw_key, value)
    try:
        return encoder.field(field.raw_key, Typed(value, field.type, field.element_type))
    except GgufWriteError:
        return encoder.field(field.raw_key, value)


def _range(source: Source, position: int, end: int) -> Iterator[bytes]:
    while position < end:
        piece = source.read_at(position, min(_CHUNK, end - position))
        if not piece:
            raise GgufWriteError("the file became shorter while it was copied", path=source.name or None)
        position += len(piece)
        yield piece
