"""The file that a download grows in, and what is written down beside it. Blocks; one thread at a time.

Beside ``model.gguf`` there are, until it is whole, ``.model.gguf.partial`` with the bytes and
``.model.gguf.partial.json`` with which of them are there and of which file they are. The final name appears by one
rename, after the hash was compared.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from blazar_routing.errors import PullFailed
from blazar_supervisor.pulls.parts import Identity, Ranges

_HASH_BLOCK = 1 << 20
_GIB = 1 << 30
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class PartialFile:
    """One download on disk.

    Args:
        target: The final path; its directory is created.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(f".{target.name}.partial")
        self.state_path = target.with_name(f".{target.name}.partial.json")
        self.ranges = Ranges()
        self.identity: Identity | None = None
        self._handle: int | None = None

    def open(self) -> None:
        """Open the file, or begin it, and read what is known of it.

        Raises:
            PullFailed: It cannot be written.
        """
        with self._explained():
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            self._read_state()

    def begin(self, identity: Identity) -> bool:
        """Say which file is fetched; return whether what is on disk belongs to it and is kept.

        Without a tag nothing tells that the bytes of an earlier run are of this very file, so they are not kept.
        """
        if self.identity == identity and identity.tag is not None:
            return True
        had = self.ranges.total
        self.identity = identity
        self.reset()
        return not had

    def reset(self) -> None:
        """Forget every byte."""
        with self._explained():
            self.ranges = Ranges()
            os.ftruncate(self._open_handle(), 0)

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at their place.

        Raises:
            PullFailed: The disk is full, or fails.
        """
        with self._explained():
            handle, view = self._open_handle(), memoryview(data)
            at = offset
            while view:
                written = os.pwrite(handle, view, at)
                at += written
                view = view[written:]
            self.ranges.add(offset, at)

    def save(self) -> None:
        """Write down what is there, after it is safely there."""
        if self.identity is None:
            return
        with self._explained():
            os.fsync(self._open_handle())
            state = {"size": self.identity.size, "tag": self.identity.tag, "ranges": list(self.ranges)}
            fresh = self.state_path.with_name(f"{self.state_path.name}.new")
            fresh.write_text(json.dumps(state))
            fresh.replace(self.state_path)

    def sha256(self) -> str:
        """Return the hash of the whole file, as 64 hex digits."""
        digest = hashlib.sha256()
        handle, at = self._open_handle(), 0
        while block := os.pread(handle, _HASH_BLOCK, at):
            digest.update(block)
            at += len(block)
        return digest.hexdigest()

    def begins_with(self, magic: bytes) -> bool:
        """Return whether the file starts with these bytes."""
        return os.pread(self._open_handle(), len(magic), 0) == magic

    def finish(self) -> None:
        """Give the file its final name, safely on disk."""
        with self._explained():
            os.fsync(self._open_handle())
            self.path.replace(self.target)
            self.state_path.unlink(missing_ok=True)
            directory = os.open(self.target.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def discard(self) -> None:
        """Remove what was fetched."""
        self.path.unlink(missing_ok=True)
        self.state_path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; the second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.close(handle)

    def _open_handle(self) -> int:
        if self._handle is None:
            raise RuntimeError("the partial file is not open")
        return self._handle

    def _read_state(self) -> None:
        try:
            state = json.loads(self.state_path.read_bytes())
            identity = Identity(int(state["size"]), state["tag"])
            ranges = Ranges((int(start), int(stop)) for start, stop in state["ranges"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        # Whoever cut the file since must not make us believe that its end is there.
        longest = max((stop for _, stop in ranges), default=0)
        if longest <= min(identity.size, os.fstat(self._open_handle()).st_size):
            self.identity, self.ranges = identity, ranges

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # What is written down stays true: bytes beyond it are fetched again.
            if error.errno in _NO_ROOM:
                raise no_room(self.target) from error
            raise PullFailed(
                f"{self.target} cannot be written: {error.strerror or error}. "
                "Correct the permissions or choose another data directory, and run the same command again."
            ) from error


def no_room(target: Path, *, needed: int | None = None, free: int | None = None) -> PullFailed:
    """Return what is said when the disk is too small."""
    if needed is None or free is None:
        figures = "the disk is full"
    else:
        figures = f"it needs {needed / _GIB:.2f} GiB, and {free / _GIB:.2f} GiB are free"
    return PullFailed(
        f"there is no room for {target.name} in {target.parent}: {figures}. "
        "Make room (`blazar models rm NAME` removes a model that was pulled) and run the same command again: "
        "it goes on where it stopped."
    )
