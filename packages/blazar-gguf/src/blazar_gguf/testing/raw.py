"""A GGUF file in parts that can each be bent out of shape before it is put together.

:class:`blazar_gguf.GgufWriter` refuses to write nonsense; this writes whatever it is told.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from blazar_gguf.encoding import Encoder
from blazar_gguf.layout import padded
from blazar_gguf.reader import parse_metadata
from blazar_gguf.types import ValueType
from blazar_gguf.values import CODES, Field, Value
from blazar_gguf.writer import GgufWriter

Item = int | float | str | bytes


@dataclass(slots=True)
class RawField:
    """A key-value as it shall stand in the file.

    Attributes:
        key: any bytes.
        type: any number, also of types that do not exist.
        value: a number, text or bytes; a list for arrays.
        element_type: for arrays, likewise any number.
        claimed: length or count to write instead of the true one.
    """

    key: bytes
    type: int
    value: Item | list[Item]
    element_type: int = ValueType.U32
    claimed: int | None = None


@dataclass(slots=True)
class RawTensor:
    """A tensor info and its data, which need not agree."""

    name: bytes
    dims: list[int]
    type_id: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the parts of a file end, in bytes from its start.

    Attributes:
        fields: end of the key-values.
        infos: end of the tensor infos.
        whole: length of the file.
    """

    fields: int
    infos: int
    whole: int


@dataclass(slots=True)
class RawFile:
    """All parts of a file.

    Attributes:
        fields, tensors: what the header lists.
        magic, version, order: the start.
        claimed_fields, claimed_tensors: counts to write instead of the true ones.
        alignment: padding really used.
        cut: says where to end the file.
        tail: appended after everything.
        keep_data: when False the data section is left out.
    """

    fields: list[RawField]
    tensors: list[RawTensor]
    magic: bytes = b"GGUF"
    version: int = 3
    order: str = "<"
    claimed_fields: int | None = None
    claimed_tensors: int | None = None
    alignment: int = 32
    cut: Callable[[Ends], int] | None = None
    tail: bytes = b""
    keep_data: bool = True

    @classmethod
    def from_writer(cls, writer: GgufWriter) -> Self:
        """Take a healthy file apart."""
        return cls.from_bytes(writer.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Take a healthy file apart.

        Raises:
            GgufError: the file is not healthy.
        """
        meta, _ = parse_metadata(data)
        fields = [_raw_field(f) for f in meta.fields.known.values()]
        tensors = []
        for t in meta.tensors:
            start = meta.data_offset + t.offset
            end = start + padded(t.n_bytes, meta.alignment)
            tensors.append(RawTensor(t.name.encode(), list(t.dims), t.type_id, t.offset, data[start:end]))
        return cls(fields, tensors, alignment=meta.alignment)

    # -- bending -----------------------------------------------------------------------------------------------

    def find(self, key: str) -> RawField:
        """The field with that key.

        Raises:
            KeyError: there is none.
        """
        for one in self.fields:
            if one.key == key.encode():
                return one
        raise KeyError(key)

    def tensor(self, name: str) -> RawTensor:
        """The tensor of that name.

        Raises:
            KeyError: there is none.
        """
        for one in self.tensors:
            if one.name == name.encode():
                return one
        raise KeyError(name)

    def put(
        self,
        key: str,
        type_: int,
        value: Item | list[Item],
        *,
        element_type: int = ValueType.U32,
        claimed: int | None = None,
    ) -> None:
        """Replace a field where it stands, or append it."""
        new = RawField(key.encode(), type_, value, element_type, claimed)
        for place, one in enumerate(self.fields):
            if one.key == new.key:
                self.fields[place] = new
                return
        self.fields.append(new)

    def drop(self, key: str) -> None:
        """Remove a field."""
        self.fields.remove(self.find(key))

    def drop_tensor(self, name: str) -> None:
        """Remove a tensor and close the gap."""
        self.tensors.remove(self.tensor(name))
        self.lay_out(self.alignment)

    def lay_out(self, alignment: int) -> None:
        """Place the tensors one after another again, padded to ``alignment``."""
        self.alignment, position = alignment, 0
        for one in self.tensors:
            one.data = one.data + bytes(-len(one.data) % alignment)
            one.offset, position = position, position + len(one.data)

    # -- writing -----------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Put the parts together."""
        encoder = Encoder(self.order, self.version)
        out = [self.magic, encoder.number("I", self.version)]
        out.append(encoder.size(len(self.tensors) if self.claimed_tensors is None else self.claimed_tensors))
        out.append(encoder.size(len(self.fields) if self.claimed_fields is None else self.claimed_fields))
        out += [encoder.string(one.key) + _encode(encoder, one) for one in self.fields]
        end_fields = sum(map(len, out))
        for one in self.tensors:
            out += [encoder.string(one.name), encoder.number("I", len(one.dims))]
            out += [encoder.number("I" if self.version == 1 else "Q", d & (1 << 64) - 1) for d in one.dims]
            out += [encoder.number("I", one.type_id), encoder.number("Q", one.offset)]
        end_infos = sum(map(len, out))
        out.append(bytes(-end_infos % self.alignment))
        if self.keep_data:
            out += [one.data for one in self.tensors]
        whole = b"".join(out)
        if self.cut is not None:
            whole = whole[: self.cut(Ends(end_fields, end_infos, len(whole)))]
        return whole + self.tail

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the file."""
        Path(path).write_bytes(self.to_bytes())
        return Path(path)


def _encode(encoder: Encoder, one: RawField) -> bytes:
    head = encoder.number("I", one.type)
    if one.type != ValueType.ARRAY:
        return head + _scalar(encoder, one.type, one.value, one.claimed)
    items = one.value if isinstance(one.value, list) else [one.value]
    head += encoder.number("I", one.element_type)
    head += encoder.size(len(items) if one.claimed is None else one.claimed)
    if one.element_type == ValueType.ARRAY:
        return head + encoder.number("I", ValueType.U32) + encoder.size(0)
    return head + b"".join(_scalar(encoder, one.element_type, item, None) for item in items)


def _scalar(encoder: Encoder, kind: int, value: Item | list[Item], claimed: int | None) -> bytes:
    if isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        return encoder.size(len(raw) if claimed is None else claimed) + raw
    if isinstance(value, list):
        raise TypeError("a list needs the array type")
    if kind == ValueType.BOOL:
        return encoder.number("B", value)
    known = {number.value: code for number, code in CODES.items()}
    return encoder.number(known.get(kind, "I"), value)


def _raw_field(one: Field) -> RawField:
    value: Value = one.value
    if isinstance(value, (int, float, str)):
        return RawField(one.raw_key, one.type, one.raw() if isinstance(value, str) else value)
    items: list[Item] = list(value)
    return RawField(one.raw_key, one.type, items, ValueType.U32 if one.element_type is None else one.element_type)
