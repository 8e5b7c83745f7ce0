"""What kind of file a path is, before it is run: an executable's format and machine, from its first bytes."""

import platform
import struct
import sys
from pathlib import Path

_ELF_MACHINES = {3: "x86", 40: "ARM (32 bit)", 62: "x86-64", 183: "ARM64", 243: "RISC-V", 22: "s390x", 21: "PowerPC64"}
_ELF_OF = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183, "riscv64": 243, "s390x": 22, "ppc64le": 21}
_MACH_MAGICS = {b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"}


def foreign_format(path: Path, *, system: str = sys.platform, machine: str | None = None) -> str | None:
    """Return why a file cannot be a program for this machine, or ``None`` when nothing speaks against it.

    Args:
        path: A readable file.
        system: ``sys.platform`` of the machine that is to run it.
        machine: Its processor, as ``platform.machine()`` says.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(64)
    here = (machine or platform.machine()).lower()
    if head[:4] == b"\x7fELF":
        return _foreign_elf(head, system=system, machine=here)
    if head[:4] in _MACH_MAGICS:
        return None if system == "darwin" else "it is a program for macOS"
    if head[:2] == b"MZ":
        return "it is a program for Windows"
    if head[:4] == b"GGUF":
        return "it is a model file; add it with `blazar models add PATH`"
    if head[:2] == b"#!":
        return None
    if head[:2] == b"\x1f\x8b" or head[:4] in {b"PK\x03\x04", b"\xfd7zX"}:
        return "it is an archive; unpack it and give the path of llama-server inside"
    return "it is neither a program nor a script"


def _foreign_elf(head: bytes, *, system: str, machine: str) -> str | None:
    if system != "linux":
        return "it is a program for Linux"
    if len(head) < 20:
        return "it is an executable that was cut short"
    order = "<" if head[5] == 1 else ">"
    (built_for,) = struct.unpack_from(f"{order}H", head, 18)
    expected = _ELF_OF.get(machine)
    if expected is not None and built_for != expected:
        return f"it is built for {_ELF_MACHINES.get(built_for, 'another processor')}, and this machine is {machine}"
    return None
