"""Does the fetched engine run on this machine? If not: which system library is missing, and which package has it."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from blazar_cli.errors import PartUnavailable

_TIMEOUT_S = 60.0
_MISSING = re.compile(r"(?P<library>lib[\w.+-]+\.so[\w.]*): cannot open shared object file")
_TOO_NEW = re.compile(r"version [`'](?P<symbol>GLIBC\w*_[\d.]+)' not found")

_PACKAGES: dict[str, str] = {
    "libgomp.so.1": "libgomp1 (Debian, Ubuntu: `sudo apt install libgomp1`) or libgomp (Fedora)",
    "libstdc++.so.6": "libstdc++6 (Debian, Ubuntu) or libstdc++ (Fedora)",
    "libssl.so.3": "libssl3 (Debian, Ubuntu) or openssl-libs (Fedora)",
    "libcurl.so.4": "libcurl4 (Debian, Ubuntu) or libcurl (Fedora)",
}


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """What the engine says of itself.

    Attributes:
        text: The line after ``version:``.
        commit: Of upstream's sources, abbreviated, or ``""``.
    """

    text: str
    commit: str


def check_engine(binary: Path) -> EngineVersion:
    """Start the engine with ``--version`` and return what it says.

    Raises:
        PartUnavailable: It does not start here; the text says what is missing.
    """
    # The program's own libraries lie beside it.
    path = os.pathsep.join(filter(None, (str(binary.parent), os.environ.get("LD_LIBRARY_PATH", ""))))
    try:
        done = subprocess.run(
            [binary, "--version"],
            env={**os.environ, "LD_LIBRARY_PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PartUnavailable(f"the fetched engine {binary} does not start: {error}.") from error
    said = (done.stderr + b"\n" + done.stdout).decode(errors="replace")
    if done.returncode != 0:
        raise explain_start_failure(binary, said)
    version = re.search(r"^version: (?P<text>.+?)\s*$", said, re.MULTILINE)
    commit = re.search(r"commit (?P<commit>[0-9a-f]+)|\((?P<short>[0-9a-f]{7,})\)", said)
    return EngineVersion(
        text=version["text"] if version else "unknown",
        commit=(commit["commit"] or commit["short"]) if commit else "",
    )


def explain_start_failure(binary: Path, said: str) -> PartUnavailable:
    """Return the error for an engine that ended at once.

    Args:
        binary: Its path.
        said: What it, or the dynamic loader, printed.
    """
    missing = _MISSING.search(said)
    if missing is not None:
        library = missing["library"]
        package = _PACKAGES.get(library, f"the one that holds {library}")
        return PartUnavailable(
            f"the fetched engine needs the system library {library}, which is not installed. "
            f"Install the package {package} and run the command again."
        )
    too_new = _TOO_NEW.search(said)
    if too_new is not None:
        return PartUnavailable(
            f"the fetched engine needs {too_new['symbol']}, and this system's C library is older. "
            "Use a newer system, or build llama.cpp here and register it with `blazar engine add-local PATH`."
        )
    tail = "\n".join(f"  {line}" for line in said.strip().splitlines()[-8:])
    return PartUnavailable(f"the fetched engine {binary} does not start. It said:\n{tail}")
