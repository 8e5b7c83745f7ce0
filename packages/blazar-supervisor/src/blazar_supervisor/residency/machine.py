"""The machine's memory, measured, and as the census counts it."""

import psutil

from blazar_budget.machine import Machine
from blazar_supervisor.residency.pools import Bytes, Pools


def pools_of(machine: Machine) -> Pools:
    """Return main memory and that of all accelerators that have memory of their own."""
    dedicated = [gpu for gpu in machine.gpus if not gpu.unified]
    return Pools(
        total=Bytes(machine.ram_total, sum(gpu.total for gpu in dedicated)),
        available=Bytes(machine.ram_available, sum(gpu.free for gpu in dedicated)),
    )


def measure_machine() -> Machine:
    """Return main memory as the system reports it. Blocks; called in a thread."""
    memory = psutil.virtual_memory()
    return Machine(ram_total=memory.total, ram_available=memory.available)
