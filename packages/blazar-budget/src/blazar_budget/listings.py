"""Reading what engines and drivers print about devices. Text in, values out.

Rows without memory (``BLAS: Accelerate (0 MiB, 0 MiB free)``, every row of stable-diffusion.cpp) and the processor's
own row are not accelerators: taken into the pool they make it empty, and passed as ``--device CPU`` they stop a CUDA
build.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from blazar_budget.machine import Gpu, Vendor

_MIB: Final = 1 << 20
_ROW: Final = re.compile(r"^\s+(\S+): (.+) \((\d+) MiB, (\d+) MiB free\)\s*$")
_PROCESSOR: Final = "CPU"
_SMI_COLUMNS: Final = 4

SMI_QUERY: Final = ("--query-gpu=name,memory.total,memory.free,uuid", "--format=csv,noheader,nounits")
"""Arguments of ``nvidia-smi`` whose output :func:`parse_nvidia_smi` reads."""


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A row of ``--list-devices`` that can hold a model.

    Attributes:
        name: what ``--device`` accepts: ``CUDA0``, ``Vulkan1``, ``MTL0``.
        description: the product.
        total, free: bytes.
    """

    name: str
    description: str
    total: int
    free: int


def parse_list_devices(text: str) -> tuple[ListedDevice, ...]:
    """Return the accelerators that ``--list-devices`` names, in its order; none for "(none)" or no output.

    Rows without memory numbers, with a total of 0, and the processor's are left out.
    """
    found = []
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is None or row[1].upper() == _PROCESSOR or not int(row[3]):
            continue
        found.append(ListedDevice(row[1], row[2], int(row[3]) * _MIB, int(row[4]) * _MIB))
    return tuple(found)


def as_gpus(listed: Iterable[ListedDevice]) -> tuple[Gpu, ...]:
    """Return listed devices as accelerators of a machine, named as the engine names them."""
    return tuple(
        Gpu(row.description, row.total, row.free, vendor=vendor_of(row.description), device=row.name) for row in listed
    )


def parse_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs in the output of ``nvidia-smi`` with :data:`SMI_QUERY`; odd rows are left out."""
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) != _SMI_COLUMNS or not row[1].strip().isdigit() or not row[2].strip().isdigit():
            continue
        name, total, free, uuid = (cell.strip() for cell in row)
        found.append(Gpu(name, int(total) * _MIB, int(free) * _MIB, uuid, Vendor.NVIDIA))
    return tuple(found)


def vendor_of(name: str) -> Vendor:
    """Guess the maker from a product name."""
    lowered = name.lower()
    marks = (
        (Vendor.NVIDIA, ("nvidia", "geforce", "tesla", "quadro")),
        (Vendor.AMD, ("amd", "radeon", "instinct")),
        (Vendor.INTEL, ("intel",)),
        (Vendor.APPLE, ("apple",)),
    )
    return next((vendor for vendor, words in marks if any(word in lowered for word in words)), Vendor.OTHER)
