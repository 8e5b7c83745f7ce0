"""The file as a container: version, byte order, counts, layout, completeness, split sets."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from blazar_gguf.engine.keys import check_scalar
from blazar_gguf.engine.objection import refusal
from blazar_gguf.ggml_types import REMOVED_TYPES
from blazar_gguf.hparams import as_int
from blazar_gguf.layout import ALIGNMENT_KEY, padded
from blazar_gguf.meta import GgufMeta
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import LoadPrediction, ValueType

MAX_ITEMS: Final = 1 << 30
"""The engine's limit for a string's length and an array's count."""

MAX_NAME_BYTES: Final = 63


def check_container(meta: GgufMeta) -> LoadPrediction | None:
    """What the engine's GGUF reader objects to in a header that could be read."""
    return next((found for found in _objections(meta) if found is not None), None)


def _objections(meta: GgufMeta) -> Iterator[LoadPrediction | None]:
    if meta.version == 1:
        yield refusal("version", "GGUF version 1 is no longer read. Convert the model again")
    if meta.big_endian is not (sys.byteorder == "big"):
        yield refusal("byte-order", "the file is of the other byte order. Convert the model again for this machine")
    for field in meta.fields.known.values():
        if field.count > MAX_ITEMS or (field.type is ValueType.STRING and field.n_bytes > MAX_ITEMS):
            yield refusal("value-size", f"{field.key} is larger than the engine reads")
    alignment = meta.fields.find(ALIGNMENT_KEY)
    if alignment is not None:
        yield check_scalar(alignment, ValueType.U32)
    names: set[str] = set()
    for tensor in meta.tensors:
        yield _check_info(tensor, names)
    yield _check_places(meta)


def _check_info(tensor: TensorInfo, names: set[str]) -> LoadPrediction | None:
    if len(tensor.name.encode()) > MAX_NAME_BYTES:
        return refusal("tensor-name", f"tensor name {tensor.name!r:.80} is longer than {MAX_NAME_BYTES} bytes")
    name = tensor.name.split("\0", 1)[0]
    if name in names:
        return refusal("tensor-name", f"tensor {name!r} appears twice, as the engine reads names")
    names.add(name)
    if tensor.ggml_type is None:
        return refusal(
            "tensor-type",
            f"tensor {tensor.name!r} is of {tensor.type_name}, which the engine does not read",
            build_specific=tensor.type_id not in REMOVED_TYPES,
        )
    return None


def _check_places(meta: GgufMeta) -> LoadPrediction | None:
    """Tensors must follow one another without gaps, and lie within the file."""
    if meta.tensors and meta.data_offset > meta.file_bytes > 0:
        return refusal("incomplete", "the file ends before its tensor data. Download it again")
    expected = 0
    for tensor in meta.tensors:
        if tensor.offset != expected:
            return refusal(
                "tensor-offset", f"tensor {tensor.name!r} is at offset {tensor.offset:,}, the engine wants {expected:,}"
            )
        expected += padded(tensor.n_bytes, meta.alignment)
    missing = meta.missing_bytes
    if missing:
        return refusal("incomplete", f"{missing:,} bytes of tensor data are missing. Download the file again")
    return None


def check_split(meta: GgufMeta, parts: Sequence[GgufMeta]) -> LoadPrediction | None:
    """What the engine objects to in a set of parts.

    Args:
        meta: the first part.
        parts: the other parts, in order; empty for a model in one file.
    """
    stored = meta.fields.find("split.count")
    if stored is None:
        return None
    wrong = check_scalar(stored, ValueType.U16)
    count = as_int(stored.value) or 0
    if wrong is not None or count <= 1:
        return wrong
    number = meta.fields.find("split.no")
    if number is None:
        return refusal("split", "split.count is there and split.no is missing")
    wrong = check_scalar(number, ValueType.U16)
    if wrong is not None:
        return wrong
    if as_int(number.value):
        return refusal("split", "this is a later part of a split model; load the first one")
    if len(parts) != count - 1:
        return refusal(
            "split", f"split.count is {count}, {1 + len(parts)} parts are there under the names the engine looks for"
        )
    for place, part in enumerate(parts, 1):
        objection = check_container(part)
        if objection is not None:
            return objection
        if as_int(part.get("split.no")) != place:
            return refusal("split", f"part {place + 1} says it is another one")
    total = meta.fields.find("split.tensors.count")
    if total is None:
        return refusal("key-missing", "split.tensors.count is missing")
    wrong = check_scalar(total, ValueType.I32)
    there = len(meta.tensors) + sum(len(p.tensors) for p in parts)
    if wrong is None and as_int(total.value) != there:
        return refusal("split", f"split.tensors.count is {total.value}, the parts have {there} tensors")
    return wrong
