"""The machine's memory as the census counts it."""

from blazar_budget import Machine
from blazar_supervisor.residency.pools import Bytes, Pools


def pools_of(machine: Machine) -> Pools:
    """Return main memory and that of all accelerators that have memory of their own."""
    dedicated = [gpu for gpu in machine.gpus if not gpu.unified]
    return Pools(
        total=Bytes(machine.ram_total, sum(gpu.total for gpu in dedicated)),
        available=Bytes(machine.ram_available, sum(gpu.free for gpu in dedicated)),
    )
