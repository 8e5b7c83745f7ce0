"""How long the command takes to say something, compared with the least it could take."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blazar_cli.command_table import COMMANDS

ROUNDS = 15
_BLAZAR = str(Path(sys.executable).with_name("blazar"))
_BARE_APP = str(Path(__file__).with_name("bare_app.py"))


@dataclass(frozen=True, slots=True)
class Startup:
    """One command beside its floor; milliseconds, medians.

    Attributes:
        name: The command.
        floor: What it is compared with.
        ms: The command's time.
        floor_ms: The floor's time.
        allowed_ms: How much more than the floor is wanted at most.
    """

    name: str
    floor: str
    ms: float
    floor_ms: float
    allowed_ms: float


_PAIRS: tuple[tuple[str, list[str], str, list[str], float], ...] = (
    ("blazar version", [_BLAZAR, "version"], "python -c pass", [sys.executable, "-c", "pass"], 100.0),
    (
        "blazar --help",
        [_BLAZAR, "--help"],
        "bare rich-click app --help",
        [sys.executable, _BARE_APP, str(len(COMMANDS)), "--help"],
        60.0,
    ),
)


def _once_ms(command: list[str], env: Mapping[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60, check=True)
    return (time.perf_counter() - started) * 1000


def measure_startup(rounds: int = ROUNDS) -> list[Startup]:
    """Run each command and its floor in turn and return the medians."""
    env = {**os.environ, "COLUMNS": "100"}
    found = []
    for name, command, floor, floor_command, allowed_ms in _PAIRS:
        times: list[float] = []
        floor_times: list[float] = []
        _once_ms(command, env)  # writes the byte code
        _once_ms(floor_command, env)
        for _ in range(rounds):
            times.append(_once_ms(command, env))
            floor_times.append(_once_ms(floor_command, env))
        found.append(Startup(name, floor, statistics.median(times), statistics.median(floor_times), allowed_ms))
    return found
