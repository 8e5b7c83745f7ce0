"""Put a launcher for a stub where a test wants an engine binary."""

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never


class Variant(StrEnum):
    """What kind of build the stub passes for; any knob can be added to it."""

    B10434 = "b10434"
    """The build the help text was taken from: no GPU, semantic version."""
    CLASSIC = "classic"
    """An older build: version by commit count."""
    UNDERSCORE = "underscore"
    """A sibling engine whose long flags have underscores."""
    ONE_GPU = "one-gpu"
    """One CUDA device."""
    SEVERAL_GPUS = "several-gpus"
    """Two CUDA devices and a Vulkan one."""
    ZERO_MEMORY = "zero-memory"
    """An accelerator without memory beside a Metal device."""


def install_stub(
    directory: str | os.PathLike[str],
    *,
    variant: Variant | str = Variant.B10434,
    name: str = "llama-server",
    knobs: dict[str, Any] | None = None,
) -> Path:
    """Write an executable named `name` into `directory` (made if missing) and return its path.

    Args:
        directory: Where.
        variant: What the build says of itself.
        name: The file's name.
        knobs: Further process knobs for every process started from this file (see ``README.md``); a model's own
            sidecar wins over them.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    source = Path(__file__).resolve().parent.parent
    # -I and -S: no site-packages, no user site, no environment; start-up is what this is all about.
    target.write_text(
        f"#!{sys.executable} -IS\n"
        "import sys\n"
        f"sys.path.insert(0, {str(source)!r})\n"
        "from blazar_stubs.llama_server.main import main\n"
        "main()\n",
        "utf-8",
    )
    target.chmod(0o755)
    merged = _knobs_of(Variant(variant)) | (knobs or {})
    sidecar = target.with_name(name + ".stub.json")
    if merged:
        sidecar.write_text(json.dumps(merged), "utf-8")
    else:
        sidecar.unlink(missing_ok=True)
    return target


def _knobs_of(variant: Variant) -> dict[str, Any]:
    match variant:
        case Variant.B10434:
            return {}
        case Variant.CLASSIC:
            return {"version": "classic", "devices": "empty"}
        case Variant.UNDERSCORE:
            return {"help": "underscore"}
        case Variant.ONE_GPU:
            return {"devices": "one", "version": "cuda"}
        case Variant.SEVERAL_GPUS:
            return {"devices": "several", "version": "cuda"}
        case Variant.ZERO_MEMORY:
            return {"devices": "zero-memory"}
        case _:
            assert_never(variant)
