"""Damaged, unusual and hostile files, each with what llama-server b10434 does with it.

The outcomes were measured with the stock engine on files bent in the same way. Every file is a healthy tiny model
with one thing changed.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blazar_gguf.testing.raw import Ends, RawField, RawFile
from blazar_gguf.testing.tiny import TinyShape, tiny_model
from blazar_gguf.types import Prediction, ValueType

_T = ValueType
_LOADS, _REFUSES, _ABORTS = Prediction.LOADS, Prediction.REFUSES, Prediction.ABORTS
Bend = Callable[[RawFile], None]


@dataclass(frozen=True, slots=True)
class OddFile:
    """One case.

    Attributes:
        name: short and telling; also the key in :data:`ODD_FILES`.
        bend: what is done to the healthy file.
        outcome: what the engine does.
    """

    name: str
    bend: Bend
    outcome: Prediction

    def raw(self) -> RawFile:
        """The parts of the bent file."""
        file = RawFile.from_writer(tiny_model("llama", shape=TinyShape(layers=4)))
        self.bend(file)
        return file

    def to_bytes(self) -> bytes:
        """The bent file."""
        return self.raw().to_bytes()


_CASES: dict[str, OddFile] = {}


def _case(name: str, outcome: Prediction, bend: Bend) -> None:
    _CASES[name] = OddFile(name, bend, outcome)


def _with(**changes: object) -> Bend:
    """Set attributes of the file."""

    def bend(file: RawFile) -> None:
        for name, value in changes.items():
            setattr(file, name, value)

    return bend


def _put(key: str, type_: int, value: int | float | str | bytes | list[int | float | str | bytes], **rest: int) -> Bend:
    return lambda file: file.put(key, type_, value, **rest)


def _third(**changes: object) -> Bend:
    """Set attributes of the fourth tensor, a norm vector of the first block."""

    def bend(file: RawFile) -> None:
        for name, value in changes.items():
            setattr(file.tensors[3], name, value)

    return bend


def _first(**changes: object) -> Bend:
    def bend(file: RawFile) -> None:
        for name, value in changes.items():
            setattr(file.tensors[0], name, value)

    return bend


def _claim_fields(*, number: int = 0, by: int | None = None) -> Bend:
    """Lie about the count of key-values: with a number, or with one that is off ``by`` some."""

    def bend(file: RawFile) -> None:
        file.claimed_fields = number if by is None else len(file.fields) + by

    return bend


def _claim_tensors(*, number: int = 0, by: int | None = None) -> Bend:
    def bend(file: RawFile) -> None:
        file.claimed_tensors = number if by is None else len(file.tensors) + by

    return bend


def _drop(key: str) -> Bend:
    return lambda file: file.drop(key)


def _append(key: bytes) -> Bend:
    return lambda file: file.fields.append(RawField(key, _T.U32, 1))


def _keep(length: int) -> Bend:
    def first_bytes(_: Ends) -> int:
        return length

    return _with(cut=first_bytes)


def _cut(where: Callable[[Ends], int]) -> Bend:
    return _with(cut=where)


def _aligned(declared: int, used: int, kind: int = _T.U32) -> Bend:
    def bend(file: RawFile) -> None:
        file.put("general.alignment", kind, declared)
        if used != file.alignment:
            file.lay_out(used)

    return bend


def _shift(by: int) -> Bend:
    def bend(file: RawFile) -> None:
        file.tensors[3].offset += by

    return bend


def _swap_infos(file: RawFile) -> None:
    """List two tensors in the other order; their data stay where they are."""
    tensors = file.tensors
    data = [t.data for t in tensors]
    tensors[2], tensors[3] = tensors[3], tensors[2]
    for one, kept in zip(tensors, data, strict=True):
        one.data = kept


def _repeat_name(file: RawFile) -> None:
    file.tensors[3].name = file.tensors[2].name


def _more_dims(file: RawFile) -> None:
    file.tensors[3].dims += [1] * 4


def _split(file: RawFile) -> None:
    file.put("split.no", _T.U16, 0)
    file.put("split.count", _T.U16, 2)
    file.put("split.tensors.count", _T.I32, len(file.tensors))


def _bad_token(file: RawFile) -> None:
    tokens = file.find("tokenizer.ggml.tokens").value
    assert isinstance(tokens, list)
    tokens[tokens.index("a")] = b"\xff"


_case("control", _LOADS, _with())
_case("empty file", _REFUSES, _keep(0))
_case("magic only", _REFUSES, _keep(4))
_case("header only (24 B, counts kept)", _REFUSES, _keep(24))
_case("wrong magic GGML", _REFUSES, _with(magic=b"GGML"))
_case("ggjt magic", _REFUSES, _with(magic=b"tjgg"))
_case("html error page", _REFUSES, _with(magic=b"<!DO"))
_case("version 0", _REFUSES, _with(version=0))
_case("version 1", _REFUSES, _with(version=1))
_case("version 2", _LOADS, _with(version=2))
_case("version 4", _REFUSES, _with(version=4))
_case("big-endian", _REFUSES, _with(order=">"))
_case("truncated inside key-values", _REFUSES, _cut(lambda e: e.fields // 2))
_case("truncated inside tensor infos", _REFUSES, _cut(lambda e: (e.fields + e.infos) // 2))
_case("truncated inside tensor data", _REFUSES, _cut(lambda e: (e.infos + e.whole) // 2))
_case("truncated by 1 byte", _REFUSES, _cut(lambda e: e.whole - 1))
_case("no data section", _REFUSES, _with(keep_data=False))
_case("trailing garbage", _LOADS, _with(tail=b"x" * 1000))
_case("kv count 0", _REFUSES, _claim_fields(number=0))
_case("kv count +1", _REFUSES, _claim_fields(by=1))
_case("kv count -1", _REFUSES, _claim_fields(by=-1))
_case("kv count 2^40", _REFUSES, _claim_fields(number=1 << 40))
_case("kv count 2^63", _REFUSES, _claim_fields(number=1 << 63))
_case("tensor count 2^62", _REFUSES, _claim_tensors(number=1 << 62))
_case("tensor count -1", _REFUSES, _claim_tensors(by=-1))
_case("tensor count +1", _REFUSES, _claim_tensors(by=1))
_case("duplicate key", _REFUSES, lambda file: file.fields.append(RawField(b"llama.block_count", _T.U32, 4)))
_case("empty key", _REFUSES, _append(b""))
_case("key with NUL", _LOADS, _append(b"a\0b"))
_case("key 70000 bytes", _LOADS, _append(b"k" * 70000))
_case("key non-UTF-8", _LOADS, _append(b"\xff\xfe"))
_case("string length 2^60", _REFUSES, _put("x.s", _T.STRING, b"", claimed=1 << 60))
_case("array count 2^60", _REFUSES, _put("x.a", _T.ARRAY, [], claimed=1 << 60))
_case("array count 2^31 u8", _REFUSES, _put("x.a", _T.ARRAY, [], element_type=_T.U8, claimed=1 << 31))
_case("nested array", _REFUSES, _put("x.a", _T.ARRAY, [0], element_type=_T.ARRAY))
_case("array zero length", _LOADS, _put("x.a", _T.ARRAY, []))
_case("value type 13", _REFUSES, _put("x.t", 13, 0))
_case("bool value 2", _LOADS, _put("tokenizer.ggml.add_bos_token", _T.BOOL, 2))
_case("non-UTF-8 general.name", _LOADS, _put("general.name", _T.STRING, b"\xff\xfe\xfa"))
_case("empty string general.name", _LOADS, _put("general.name", _T.STRING, b""))
_case("chat_template non-UTF-8", _LOADS, _put("tokenizer.chat_template", _T.STRING, b"{{ messages }}\xff"))
_case("chat_template broken jinja", _REFUSES, _put("tokenizer.chat_template", _T.STRING, b"{% for x in %}"))
_case("no general.architecture", _REFUSES, _drop("general.architecture"))
_case("unknown architecture", _REFUSES, _put("general.architecture", _T.STRING, b"nosuch"))
_case("architecture as u32", _REFUSES, _put("general.architecture", _T.U32, 1))
_case("no context_length", _REFUSES, _drop("llama.context_length"))
_case("no block_count", _REFUSES, _drop("llama.block_count"))
_case("no head_count_kv", _REFUSES, _drop("llama.attention.head_count_kv"))
_case("block_count as i32", _REFUSES, _put("llama.block_count", _T.I32, 4))
_case("block_count as u64", _REFUSES, _put("llama.block_count", _T.U64, 4))
_case("block_count as string", _REFUSES, _put("llama.block_count", _T.STRING, b"4"))
_case("block_count as f32", _REFUSES, _put("llama.block_count", _T.F32, 4.0))
_case("block_count 0", _ABORTS, _put("llama.block_count", _T.U32, 0))
_case("block_count 513", _ABORTS, _put("llama.block_count", _T.U32, 513))
_case("block_count +1", _REFUSES, _put("llama.block_count", _T.U32, 5))
_case("block_count -1", _REFUSES, _put("llama.block_count", _T.U32, 3))
_case("head_count 0", _REFUSES, _put("llama.attention.head_count", _T.U32, 0))
_case("context_length 0", _LOADS, _put("llama.context_length", _T.U32, 0))
_KV_HEADS: Final = "llama.attention.head_count_kv"
_case("head_count_kv array u32", _LOADS, _put(_KV_HEADS, _T.ARRAY, [2] * 4))
_case("head_count_kv array i32", _LOADS, _put(_KV_HEADS, _T.ARRAY, [2] * 4, element_type=_T.I32))
_case("head_count_kv array i64", _REFUSES, _put(_KV_HEADS, _T.ARRAY, [2] * 4, element_type=_T.I64))
_case("head_count_kv array wrong length", _REFUSES, _put(_KV_HEADS, _T.ARRAY, [2] * 3))
_case("alignment 0", _REFUSES, _aligned(0, 32))
_case("alignment 3", _REFUSES, _aligned(3, 32))
_case("alignment as u64", _REFUSES, _aligned(32, 32, _T.U64))
_case("alignment 64 declared, data at 32", _REFUSES, _aligned(64, 32))
_case("alignment 64, consistent", _LOADS, _aligned(64, 64))
_case("alignment 8, consistent", _ABORTS, _aligned(8, 8))
_case("tensor offset gap", _REFUSES, _shift(32))
_case("tensor offset misaligned", _REFUSES, _shift(1))
_case("tensor infos out of offset order", _REFUSES, _swap_infos)
_case("duplicate tensor name", _REFUSES, _repeat_name)
_case("tensor name 63 bytes", _REFUSES, _third(name=b"n" * 63))
_case("tensor name 64 bytes", _REFUSES, _third(name=b"n" * 64))
_case("tensor 5 dims", _REFUSES, _more_dims)
_case("tensor 0 dims", _REFUSES, _third(dims=[]))
_case("tensor dim 0", _REFUSES, _third(dims=[0]))
_case("tensor dim -1", _REFUSES, _third(dims=[-1]))
_case("tensor dims overflow", _REFUSES, _third(dims=[1 << 40, 1 << 40]))
_case("tensor type 4", _REFUSES, _first(type_id=4))
_case("tensor type 31", _REFUSES, _first(type_id=31))
_case("tensor type 42", _REFUSES, _first(type_id=42))
_case("tensor type 43", _REFUSES, _first(type_id=43))
_case("tensor type 255", _REFUSES, _first(type_id=255))


def _odd_row(file: RawFile) -> None:
    file.tensors[1].dims, file.tensors[1].type_id = [127], 2


_case("row not multiple of block", _REFUSES, _odd_row)
_case("split.count 2, one file", _REFUSES, _split)
_case("empty token list", _REFUSES, _put("tokenizer.ggml.tokens", _T.ARRAY, [], element_type=_T.STRING))
_case("scores shorter than tokens", _REFUSES, _put("tokenizer.ggml.scores", _T.ARRAY, [0.0] * 10, element_type=_T.F32))
_case("non-UTF-8 token", _LOADS, _bad_token)

ODD_FILES: Final[Mapping[str, OddFile]] = _CASES
"""All cases by name."""


def odd_file(name: str, folder: str | os.PathLike[str]) -> Path:
    """Write one case into a folder, under a name made of its own.

    Raises:
        KeyError: there is no such case.
    """
    slug = "".join(c if c.isalnum() else "-" for c in name.lower().replace("+", "plus").replace("-1", "minus1"))
    path = Path(folder) / f"{slug.strip('-')}.gguf"
    path.write_bytes(ODD_FILES[name].to_bytes())
    return path
