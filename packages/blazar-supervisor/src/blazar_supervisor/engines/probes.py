"""What a build says of itself: ``--version`` and ``--list-devices``. Pure parsers of the text."""

import re
from dataclasses import dataclass

_COUNTED = re.compile(r"^version: (\d+) \(([0-9a-f]+|unknown)\)", re.MULTILINE)
_SEMANTIC = re.compile(r"^version: (\S+) \(build (\d+), commit ([0-9a-f]+|unknown)\)", re.MULTILINE)
_DEVICE = re.compile(r"^\s+(\S+): (.+) \((\d+) MiB, (\d+) MiB free\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BuildVersion:
    """What ``--version`` said.

    Attributes:
        version: The number or semantic version, as printed.
        build: The build counter, or ``None``; repackaged builds say 1 (a shallow clone), so it decides nothing.
        commit: Abbreviated hash, or ``""``: the identity of a build.
    """

    version: str
    build: int | None
    commit: str


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device that the build can use; its name is what ``--device`` takes.

    Attributes:
        name: ``CUDA0``, ``Vulkan1``, ``MTL0``, …
        description: The device's own name.
        total_bytes: Its memory.
        free_bytes: Of it, free when the build was asked.
    """

    name: str
    description: str
    total_bytes: int
    free_bytes: int


def parse_version(text: str) -> BuildVersion | None:
    """Return the version in ``text``, wherever it stands: GPU builds print lines about devices first."""
    if match := _SEMANTIC.search(text):
        return BuildVersion(match[1], int(match[2]), _commit(match[3]))
    if match := _COUNTED.search(text):
        return BuildVersion(match[1], int(match[1]), _commit(match[2]))
    return None


def parse_devices(text: str) -> tuple[Accelerator, ...]:
    """Return the accelerators with memory that ``--list-devices`` named.

    Rows without memory (``BLAS: Accelerate (0 MiB, 0 MiB free)``) are no place for a model.
    """
    return tuple(
        Accelerator(match[1], match[2], int(match[3]) << 20, int(match[4]) << 20)
        for match in _DEVICE.finditer(text)
        if int(match[3]) > 0
    )


def _commit(text: str) -> str:
    return "" if text == "unknown" else text
