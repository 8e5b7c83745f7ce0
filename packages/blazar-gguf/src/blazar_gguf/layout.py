"""Where the tensors' data lie: alignment, start of the data section, sizes, and what is odd about them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from blazar_gguf.errors import GgufMalformed
from blazar_gguf.ggml_types import REMOVED_TYPES
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import ValueType
from blazar_gguf.values import Field

ALIGNMENT_KEY: Final = "general.alignment"
DEFAULT_ALIGNMENT: Final = 32
_SHOWN: Final = 3
"""Tensors named in one warning; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The second half of a header.

    Attributes:
        tensors: infos in file order.
        infos_offset: position of the first tensor info.
        header_bytes: position after the last tensor info.
        alignment: bytes; a power of two.
        data_offset: where the data section starts in the file.
        data_bytes: what the tensors span, padding included.
        missing_bytes: how much of that lies beyond the end of the file: a download that has not finished.
        warnings: what is odd, one sentence each.
    """

    tensors: tuple[TensorInfo, ...]
    infos_offset: int
    header_bytes: int
    alignment: int
    data_offset: int
    data_bytes: int
    missing_bytes: int
    warnings: tuple[str, ...]


def padded(size: int, alignment: int) -> int:
    """Round up to a multiple of the alignment."""
    return -(-size // alignment) * alignment


def _alignment(fields: Mapping[str, Field], warnings: list[str]) -> int:
    field = fields.get(ALIGNMENT_KEY)
    if field is None:
        return DEFAULT_ALIGNMENT
    value = field.decoded
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0 or value & (value - 1):
        raise GgufMalformed(f"{ALIGNMENT_KEY} is {value!r}, not a power of two: the file is damaged")
    if field.type is not ValueType.U32:
        warnings.append(f"{ALIGNMENT_KEY} is stored as {field.type.label} instead of u32; the engine refuses that")
    return value


def _named(tensors: list[TensorInfo]) -> str:
    names = ", ".join(repr(t.name) for t in tensors[:_SHOWN])
    return names + (f" and {len(tensors) - _SHOWN} more" if len(tensors) > _SHOWN else "")


def _with_stored_bytes(tensors: tuple[TensorInfo, ...], data_bytes: int) -> tuple[TensorInfo, ...]:
    """Fill in what the file reserves for tensors of unknown types: up to the next offset, or the file's end."""
    if all(t.ggml_type for t in tensors):
        return tensors
    starts = sorted({t.offset for t in tensors})
    following = dict(zip(starts, [*starts[1:], max(data_bytes, starts[-1])], strict=True))
    return tuple(t if t.ggml_type else replace(t, stored_bytes=following[t.offset] - t.offset) for t in tensors)


def lay_out(
    fields: Mapping[str, Field],
    tensors: tuple[TensorInfo, ...],
    *,
    infos_offset: int,
    header_bytes: int,
    file_bytes: int,
) -> Layout:
    """Work out sizes and note oddities; positions and sizes in bytes.

    Raises:
        GgufMalformed: the alignment is no power of two.
    """
    warnings: list[str] = []
    alignment = _alignment(fields, warnings)
    data_offset = padded(header_bytes, alignment)
    tensors = _with_stored_bytes(tensors, max(0, file_bytes - data_offset))
    span = max((t.offset + t.n_bytes for t in tensors), default=0)
    unknown = [t for t in tensors if t.ggml_type is None and t.type_id not in REMOVED_TYPES]
    removed = [t for t in tensors if t.type_id in REMOVED_TYPES]
    misaligned = [t for t in tensors if t.offset % alignment]
    if unknown:
        warnings.append(f"unknown tensor types, sized by their place in the file: {_named(unknown)}")
    if removed:
        warnings.append(f"tensor types that current engines no longer read: {_named(removed)}")
    if misaligned:
        warnings.append(f"tensors that do not start at a multiple of {alignment} bytes: {_named(misaligned)}")
    if not unknown and not removed and not _contiguous(tensors, alignment):
        warnings.append("tensors do not follow one another without gaps; the engine refuses that")
    missing = max(0, data_offset + span - file_bytes) if tensors else 0
    if missing:
        warnings.append(f"the file is incomplete: {missing:,} bytes of tensor data are missing")
    return Layout(tensors, infos_offset, header_bytes, alignment, data_offset, span, missing, tuple(warnings))


def _contiguous(tensors: tuple[TensorInfo, ...], alignment: int) -> bool:
    expected = 0
    for t in tensors:
        if t.offset != expected:
            return False
        expected += padded(t.n_bytes, alignment)
    return True
