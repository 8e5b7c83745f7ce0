"""Reading a header: from a file, from bytes, or just its front."""

import os

from blazar_gguf.meta import GgufMeta
from blazar_gguf.source import BufferSource, FileSource
from blazar_gguf.walk import start


def read_metadata_file(path: str | os.PathLike[str]) -> GgufMeta:
    """Read the whole header of a file: every key and every tensor info, large arrays left where they are.

    Blocks on disk; about 50 ms for a vocabulary of 262,144 tokens, under 1 ms for small headers.

    Args:
        path: one .gguf file; for a split set any of its parts (see :func:`blazar_gguf.resolve_shards`).

    Raises:
        GgufError: the file is missing, no GGUF file, truncated or malformed; the class says which.
    """
    walk = start(FileSource(path))
    walk.run()
    return GgufMeta.from_walk(walk)


def peek_header(path: str | os.PathLike[str]) -> GgufMeta:
    """Read only the front of a header, up to the first large array: architecture, shape, vocabulary size.

    The result is a full :class:`GgufMeta`: it reads on by itself when something further back is asked for.

    Raises:
        GgufError: as :func:`read_metadata_file`, for what was read.
    """
    walk = start(FileSource(path))
    walk.run(pause=True)
    return GgufMeta.from_walk(walk)


def parse_metadata(buffer: bytes | bytearray | memoryview) -> tuple[GgufMeta, int]:
    """Read a header that is in memory.

    Args:
        buffer: the file's bytes, from its start to at least the end of the header. It is kept, not copied, as
            long as lazy values refer to it.

    Returns:
        The metadata, and the number of bytes the header takes: the position after the last tensor info.

    Raises:
        GgufError: the bytes are no GGUF header, or end inside it (:class:`blazar_gguf.GgufTruncated`).
    """
    walk = start(BufferSource(buffer))
    walk.run()
    meta = GgufMeta.from_walk(walk)
    return meta, meta.header_bytes
