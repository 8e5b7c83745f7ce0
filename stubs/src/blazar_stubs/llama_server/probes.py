"""What the program prints about itself: help, version, devices, each in the variants found in the field."""

import os
import re

from blazar_stubs.llama_server.knobs import KnobError, Knobs

_HELP_FILE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "llama-server-b10434.help.txt")  # noqa: PTH118, PTH120 - importing pathlib doubles the start-up time

_LONG = re.compile(r"--[A-Za-z0-9][A-Za-z0-9._-]*")
_SPELLINGS = re.compile(r"^(?:-{1,2}[A-Za-z0-9][A-Za-z0-9._-]*,? *)+", re.MULTILINE)
"""The spellings at the beginning of an entry."""

_VERSIONS = {
    "semver": "version: 0.1.0-dev (build 1, commit 7e4c0a9)\nbuilt with GNU 11.4.0 for Linux x86_64\n",
    "nightly": "version: 0.4.1-dev (build 11026, commit b49650adb)\nbuilt with GNU 13.3.0 for Linux x86_64\n",
    "classic": "version: 9760 (6ee0f6579)\nbuilt with cc (Ubuntu 11.4.0) 11.4.0 for x86_64-linux-gnu\n",
    "cuda": (
        "ggml_cuda_init: found 1 CUDA devices (Total VRAM: 24080 MiB):\n"
        "  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes, VRAM: 24080 MiB\n"
        "version: 0.1.0-dev (build 1, commit 7e4c0a9)\nbuilt with GNU 11.4.0 for Linux x86_64\n"
    ),
    "unknown": "version: 0 (unknown)\nbuilt with GNU 11.4.0 for Linux x86_64\n",
}
_HEADER = "Available devices:\n"
_DEVICES = {
    "none": _HEADER + "  (none)\n",
    "empty": _HEADER,
    "one": _HEADER + "  CUDA0: NVIDIA GeForce RTX 4090 (24080 MiB, 23700 MiB free)\n",
    "several": _HEADER
    + "  CUDA0: NVIDIA GeForce RTX 4090 (24080 MiB, 23700 MiB free)\n"
    + "  CUDA1: NVIDIA GeForce RTX 3060 (12044 MiB, 11800 MiB free)\n"
    + "  Vulkan0: AMD Radeon Graphics (RADV GFX1103_R1) (15921 MiB, 15500 MiB free)\n",
    "zero-memory": _HEADER
    + "  BLAS: Accelerate (0 MiB, 0 MiB free)\n"
    + "  MTL0: Apple M2 Max (49152 MiB, 49151 MiB free)\n",
}


def help_text(knobs: Knobs) -> str:
    """The help text: the real one, one whose long flags have underscores, or a file's; less what shall be missing.

    Raises:
        KnobError: There is no such variant.
    """
    variant = knobs.get("help", "b10434")
    path = variant if "/" in variant else _HELP_FILE
    if "/" not in variant and variant not in {"b10434", "underscore"}:
        raise KnobError(f"stub: no help text is called {variant!r}; known: b10434, underscore, or a path")
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - see above
        text = file.read()
    for spelling in knobs.get("help_without", []):
        text = _without(text, spelling)
    return _underscored(text) if variant == "underscore" else text


def _underscored(text: str) -> str:
    """Long flags at the left margin with underscores inside; columns stay where they are."""
    return _SPELLINGS.sub(lambda head: _LONG.sub(lambda found: "--" + found[0][2:].replace("-", "_"), head[0]), text)


def _without(text: str, spelling: str) -> str:
    rows: list[str] = []
    skipping = False
    for row in text.split("\n"):
        if row.startswith("-"):
            skipping = spelling in row[:40].replace(",", " ").split()
        if not skipping:
            rows.append(row)
    return "\n".join(rows)


def version_text(knobs: Knobs) -> str:
    """What ``--version`` prints to stderr."""
    variant = knobs.get("version", "semver")
    return _VERSIONS.get(variant, variant + "\n")


def devices_text(knobs: Knobs) -> str:
    """What ``--list-devices`` prints."""
    variant = knobs.get("devices", "none")
    return _DEVICES.get(variant, variant if variant.endswith("\n") else variant + "\n")
