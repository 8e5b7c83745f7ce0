"""What a machine has: values that the probe fills and the verdict reads. No input or output here."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_MIB: Final = 1 << 20
CACHE_RAM_DEFAULT_MB: Final = 8192
"""The engine's own ``--cache-ram``."""
_CACHE_RAM_PERCENT: Final = 30


class Vendor(StrEnum):
    """Who made an accelerator."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    APPLE = "apple"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Gpu:
    """An accelerator with memory of its own, or Apple's share of unified memory.

    Attributes:
        name: the product's name, or what the engine prints.
        total: bytes of memory.
        free: bytes not in use right now.
        uuid: stable identity, empty when the driver gives none.
        vendor: who made it.
        device: the engine's name for it (``CUDA0``), empty when it was not asked.
        unified: shares its memory with the processor.
    """

    name: str
    total: int
    free: int
    uuid: str = ""
    vendor: Vendor = Vendor.OTHER
    device: str = ""
    unified: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory of this machine, limits of its container included.

    Attributes:
        ram_total: bytes the processes here may use in all.
        ram_available: bytes they could get now without swapping.
        gpus: accelerators; none on a plain host.
        notes: what could not be found out, one sentence each.
    """

    ram_total: int
    ram_available: int
    gpus: tuple[Gpu, ...] = ()
    notes: tuple[str, ...] = ()

    def capacity(self) -> "Memory":
        """All memory there is: decides whether a model could ever fit here."""
        return Memory(self.ram_total, tuple(Pool(_label(g, i), g.total, g.unified) for i, g in enumerate(self.gpus)))

    def available(self) -> "Memory":
        """Memory that is free now: decides whether something must go first."""
        pools = tuple(Pool(_label(g, i), g.free, g.unified) for i, g in enumerate(self.gpus))
        return Memory(self.ram_available, pools)


@dataclass(frozen=True, slots=True)
class Pool:
    """Memory of one accelerator that a model may take.

    Attributes:
        device: its name in breakdowns, the engine's where known.
        bytes: how much.
        unified: it is part of the host's memory, not additional to it.
    """

    device: str
    bytes: int
    unified: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """What a model may take: the host's memory and that of accelerators.

    Attributes:
        ram_bytes: host memory.
        pools: accelerators in the engine's order.
    """

    ram_bytes: int
    pools: tuple[Pool, ...] = ()

    @property
    def device_bytes(self) -> int:
        """Memory of all accelerators together."""
        return sum(pool.bytes for pool in self.pools)

    def minus(self, used: Mapping[str, int], ram_used: int = 0) -> "Memory":
        """What is left beside running children.

        Args:
            used: bytes by device name.
            ram_used: bytes of host memory.
        """
        pools = tuple(Pool(p.device, max(p.bytes - used.get(p.device, 0), 0), p.unified) for p in self.pools)
        return Memory(max(self.ram_bytes - ram_used, 0), pools)


def cap_cache_ram_mb(requested_mb: int | None, ram_total: int) -> int:
    """Return ``--cache-ram`` in MiB: what was asked for, at most 30 % of physical memory.

    An uncapped prompt cache once drove a machine into swapping; the cap holds for explicit values too.

    Args:
        requested_mb: the setting in MiB; None for the default of 8192, negative for "no limit".
        ram_total: physical memory in bytes.
    """
    cap = ram_total * _CACHE_RAM_PERCENT // 100 // _MIB
    wanted = CACHE_RAM_DEFAULT_MB if requested_mb is None else requested_mb
    return cap if wanted < 0 else min(wanted, cap)


def _label(gpu: Gpu, index: int) -> str:
    return gpu.device or f"GPU{index}"
