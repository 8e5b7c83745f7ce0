"""The machine's memory, measured. Blocks; called in a thread."""

import psutil

from blazar_supervisor.residency.pools import Bytes, Pools


def measure_memory() -> Pools:
    """Return main memory, all of it and what is available now."""
    memory = psutil.virtual_memory()
    return Pools(total=Bytes(host=memory.total), available=Bytes(host=memory.available))
