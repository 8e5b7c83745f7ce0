"""Files that clients upload for a later create: checked against their sha256, and whole or not there at all."""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from blazar_routing.errors import InvalidRequest, LaneError
from blazar_store.files import from_os_error, make_directory

_BLOCK_BYTES = 1 << 20
_KEPT_S = 24 * 3600.0
"""What no create has asked for within a day of its upload is removed at the next one."""


class Uploads:
    """A directory of uploaded files, named by their digests.

    Args:
        directory: Made when it is first needed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path_of(self, digest: str) -> Path:
        """Return where the file with a digest (``sha256:…``) is or would be."""
        return self._directory / digest.replace(":", "-")

    def has(self, digest: str) -> bool:
        """Return whether the file with a digest is there."""
        return self.path_of(digest).is_file()

    async def add(self, digest: str, pieces: AsyncIterator[bytes]) -> None:
        """Take a file.

        Raises:
            InvalidRequest: What arrived has another digest; nothing of it is kept.
            LaneError: It cannot be stored.
        """
        try:
            partial = await asyncio.to_thread(self._begin, digest)
            try:
                found = await self._write(partial, pieces)
                if found != digest:
                    raise InvalidRequest(f"digest mismatch, expected {digest}, got {found}", param="digest")
                await asyncio.to_thread(partial.replace, self.path_of(digest))
            finally:
                with contextlib.suppress(FileNotFoundError):
                    await asyncio.to_thread(partial.unlink)
        except OSError as error:
            raise LaneError(str(from_os_error(error, self._directory))) from error

    def _begin(self, digest: str) -> Path:
        make_directory(self._directory, mode=0o700)
        for old in self._directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - old.stat().st_mtime > _KEPT_S:
                    old.unlink()
        # Two that upload the same file do not write into each other's.
        return self._directory / f".{digest[-64:]}.{os.urandom(4).hex()}.partial"

    async def _write(self, partial: Path, pieces: AsyncIterator[bytes]) -> str:
        hasher = hashlib.sha256()
        block = bytearray()
        with await asyncio.to_thread(partial.open, "wb") as file:

            def flush(data: bytes) -> None:
                hasher.update(data)
                file.write(data)

            async for piece in pieces:
                block += piece
                if len(block) >= _BLOCK_BYTES:
                    await asyncio.to_thread(flush, bytes(block))
                    block.clear()
            await asyncio.to_thread(flush, bytes(block))
            await asyncio.to_thread(_to_disk, file.fileno())
        return f"sha256:{hasher.hexdigest()}"


def _to_disk(handle: int) -> None:
    os.fsync(handle)
