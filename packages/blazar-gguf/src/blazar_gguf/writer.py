"""Writing GGUF files: enough to build models for tests and tools.

To change the metadata of an existing file without touching its weights see :mod:`blazar_gguf.copying`.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

from blazar_gguf.encoding import MAX_NAME_BYTES, Encoder, PlainValue, Typed
from blazar_gguf.errors import GgufWriteError
from blazar_gguf.ggml_types import TYPES_BY_NAME, GgmlType
from blazar_gguf.layout import ALIGNMENT_KEY, DEFAULT_ALIGNMENT, padded
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import ValueType
from blazar_gguf.walk import MAGIC, MAX_DIMS

Data = bytes | bytearray | memoryview | Callable[[], Iterable[bytes]]
"""A tensor's data: bytes, or a function that produces them in pieces when the file is written."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class _Pending:
    info: TensorInfo
    data: Data


class GgufWriter:
    """Collects key-values and tensors, then writes a file in one go.

    Keys keep the order in which they were added; the engine demands that tensor data follow one another in the
    order of the infos, which is what :meth:`write` does.

    Args:
        architecture: value of ``general.architecture``; left out when empty.
        version: 2 or 3 for files an engine shall load; 1 to test readers.
        big_endian: most significant byte first.
        alignment: of tensor data, in bytes; written as ``general.alignment`` unless it is the default of 32.

    Example::

        writer = GgufWriter("llama")
        writer.add("llama.block_count", 2)
        writer.add_tensor("output_norm.weight", (64,), "F32", bytes(64 * 4))
        writer.write("model.gguf")
    """

    def __init__(
        self,
        architecture: str = "",
        *,
        version: int = 3,
        big_endian: bool = False,
        alignment: int = DEFAULT_ALIGNMENT,
    ) -> None:
        if alignment <= 0 or alignment & (alignment - 1):
            raise GgufWriteError(f"alignment {alignment} is not a power of two")
        self.alignment = alignment
        self._encoder = Encoder(">" if big_endian else "<", version)
        self._fields: dict[str | bytes, bytes] = {}
        self._tensors: dict[str, _Pending] = {}
        self._data_bytes = 0
        if architecture:
            self.add("general.architecture", architecture)
        if alignment != DEFAULT_ALIGNMENT:
            self.add(ALIGNMENT_KEY, Typed(alignment, ValueType.U32))

    def add(self, key: str | bytes, value: PlainValue | Typed) -> Self:
        """Add a key, or replace it where it stands.

        Args:
            key: full key; bytes for one that is not UTF-8.
            value: int (stored as u32 where it fits), float (f32), bool, str, bytes (a string), a sequence of one
                of those (numbers as i32), or :class:`Typed` to choose the type.

        Raises:
            GgufWriteError: empty key, or a value that cannot be stored.
        """
        self._fields[key] = self._encoder.field(key, value)
        return self

    def add_tensor(self, name: str, dims: Sequence[int], kind: GgmlType | str, data: Data) -> Self:
        """Add a tensor.

        Args:
            name: at most 63 bytes.
            dims: elements per dimension, fastest first; at most 4.
            kind: a type or its name (``F32``, ``Q8_0``…).
            data: the bytes, or a function that yields them in pieces; their number is checked.

        Raises:
            GgufWriteError: the name is taken or too long, the shape does not suit the type, or the data have
                another size.
        """
        known = kind if isinstance(kind, GgmlType) else TYPES_BY_NAME.get(kind.upper())
        if known is None:
            raise GgufWriteError(f"{name}: unknown tensor type {kind!r}; known are {', '.join(TYPES_BY_NAME)}")
        if name in self._tensors:
            raise GgufWriteError(f"tensor {name!r} was added before")
        if len(name.encode()) > MAX_NAME_BYTES:
            raise GgufWriteError(f"tensor name {name!r} is longer than {MAX_NAME_BYTES} bytes")
        if len(dims) > MAX_DIMS or any(d < 0 for d in dims) or (dims and dims[0] % known.block):
            raise GgufWriteError(f"{name}: shape {tuple(dims)} does not suit {known.name} (blocks of {known.block})")
        info = TensorInfo(name, tuple(dims), known.id, padded(self._data_bytes, self.alignment))
        if not callable(data) and len(data) != info.n_bytes:
            raise GgufWriteError(f"{name}: {len(data):,} bytes of data, the shape needs {info.n_bytes:,}")
        self._tensors[name] = _Pending(info, data)
        self._data_bytes = info.offset + info.n_bytes
        return self

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """What was added so far."""
        return tuple(p.info for p in self._tensors.values())

    def header(self) -> bytes:
        """Everything before the data section, its padding included."""
        encoder = self._encoder
        parts = [MAGIC, encoder.number("I", encoder.version)]
        parts += [encoder.size(len(self._tensors)), encoder.size(len(self._fields)), *self._fields.values()]
        parts += [encoder.tensor_info(t.name, t.dims, t.type_id, t.offset) for t in self.tensors]
        header = b"".join(parts)
        return header + bytes(padded(len(header), self.alignment) - len(header))

    def pieces(self) -> Iterator[bytes]:
        """The file, piece by piece.

        Raises:
            GgufWriteError: a tensor's function yielded more or fewer bytes than its shape needs.
        """
        yield self.header()
        for pending in self._tensors.values():
            n = 0
            for piece in pending.data() if callable(pending.data) else (bytes(pending.data),):
                n += len(piece)
                yield piece
            if n != pending.info.n_bytes:
                raise GgufWriteError(f"{pending.info.name}: {n:,} bytes came, the shape needs {pending.info.n_bytes:,}")
            yield bytes(padded(n, self.alignment) - n)

    def to_bytes(self) -> bytes:
        """The whole file in memory."""
        return b"".join(self.pieces())

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the file; it appears under its name only when it is whole.

        Raises:
            GgufWriteError: see :meth:`pieces`.
            OSError: the disk is full, the folder is absent…
        """
        with replacing(path) as file:
            for piece in self.pieces():
                file.write(piece)
        return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path`` that takes its place when the block ends without an error.

    The bytes are on the disk before the name changes hands, so a crash leaves the old file or the new one.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.part")
    descriptor = os.open(temporary, _CREATE, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
