"""The *local* lane: a user's own binary becomes an engine row. Its absolute path is kept; nothing is copied."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from blazar_store.types import EngineRow
from blazar_supervisor.builds.probe import QUESTION_TIMEOUT_S, probe_binary


class EngineRegister(Protocol):
    """Whoever keeps engine rows: ``blazar_store.store.Store``."""

    def add_local_engine(self, row: EngineRow) -> EngineRow:
        """Store the row under a free tag and return it as stored."""


def add_local(
    store: EngineRegister,
    path: Path,
    *,
    timeout_s: float = QUESTION_TIMEOUT_S,
    now_s: Callable[[], float] = time.time,
) -> EngineRow:
    """Probe the binary at ``path``, register it, and return its row. Blocks for as long as the binary takes.

    Args:
        store: Where the row goes.
        path: The binary; ``~`` and relative paths are allowed.
        timeout_s: For each of the questions it is asked.
        now_s: The wall clock.

    Raises:
        NotAnEngine: It is none; the text says why and what to give instead.
        blazar_store.errors.StoreError: The row cannot be written.
    """
    binary = probe_binary(path, timeout_s=timeout_s)
    return store.add_local_engine(
        EngineRow(
            tag="local",
            kind=binary.kind.value,
            server_path=binary.path,
            local=True,
            version=binary.version.version if binary.version else "",
            commit=binary.version.commit if binary.version else "",
            active=False,
            installed_at=round(now_s()),
        )
    )
