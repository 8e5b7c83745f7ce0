"""A core for each process, so that the one that is measured shares it with nobody."""

import os
import sys

if sys.platform == "linux":

    def pin_to(core: int) -> None:
        """Let this process, and those it starts, run on ``core`` only."""
        os.sched_setaffinity(0, {core})

    def move_thread(thread_id: int, core: int) -> None:
        """Let a thread of any process run on ``core`` only."""
        os.sched_setaffinity(thread_id, {core})

    def usable_cores() -> list[int]:
        """Return the cores that this process may use."""
        return sorted(os.sched_getaffinity(0))

else:

    def pin_to(core: int) -> None:
        """Refuse: only Linux pins a process to a core."""
        raise OSError(f"cannot pin to core {core} on {sys.platform}")

    def move_thread(thread_id: int, core: int) -> None:
        """Refuse, likewise."""
        raise OSError(f"cannot move thread {thread_id} to core {core} on {sys.platform}")

    def usable_cores() -> list[int]:
        """Return none: this system does not let a process choose."""
        return []
