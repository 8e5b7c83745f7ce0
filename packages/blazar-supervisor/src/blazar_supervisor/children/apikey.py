"""The secret between the gateway and one child, in a file that lives as long as the child."""

import contextlib
import os
import secrets
from pathlib import Path


def mint_apikey() -> str:
    """Return a fresh secret from the system's entropy."""
    return secrets.token_urlsafe(32)


def write_apikey(path: Path, secret: str) -> None:
    """Write ``secret`` to ``path``, readable for this user only, replacing what an earlier child left.

    A file rather than an argument, since every user can read a process's arguments.
    """
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secret + "\n")
