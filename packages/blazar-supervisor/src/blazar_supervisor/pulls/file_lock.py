"""One fetcher of a file at a time, whichever process it is in: the daemon, or a command while the daemon is down."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from blazar_routing.errors import PullFailed
from blazar_store.flock import try_lock

_POLL_S = 0.2


@asynccontextmanager
async def file_lock(target: Path, *, sleep: Callable[[float], Awaitable[None]]) -> AsyncIterator[None]:
    """Hold the lock of ``target`` (``.name.lock`` beside it); wait while another process fetches the same file.

    It ends with the process, however that dies. The file goes away with its last holder.
    """
    path = target.with_name(f".{target.name}.lock")
    while (handle := await asyncio.to_thread(_try, path)) is None:
        await sleep(_POLL_S)
    try:
        yield
    finally:
        # First the name, then the lock: whoever waits on the old file notices that it has none any more.
        path.unlink(missing_ok=True)
        os.close(handle)


def _try(path: Path) -> int | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise PullFailed(
            f"nothing can be written to {path.parent}: {error.strerror or error}. "
            "Correct the permissions or choose another data directory, and run the same command again."
        ) from error
    if try_lock(handle) and _is_named(handle, path):
        return handle
    os.close(handle)
    return None


def _is_named(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False
