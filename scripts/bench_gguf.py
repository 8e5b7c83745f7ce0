#!/usr/bin/env python3
"""Time blazar-gguf beside gguf-py's GGUFReader, on one file, in one run.

Each measurement is a fresh process (imports are not timed), best of several; memory is what the process grew by while
it read. The ratios are what to look at; the milliseconds depend on the machine.

    uv run --group compare scripts/bench_gguf.py gemma3-270m-q4_k_m.gguf
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PROLOGUE = """
import json, resource, sys, time
path = sys.argv[1]
def grown(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""
_EPILOGUE = """
before = grown()
wall, cpu = time.perf_counter(), time.process_time()
kept = work()
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps([wall, cpu, grown() - before]))
"""
_WORK = {
    "gguf-py: GGUFReader(path)": "from gguf import GGUFReader\ndef work(): return GGUFReader(path)",
    "blazar-gguf: metadata, all tensor infos": (
        "from blazar_gguf import read_metadata_file\n"
        "def work():\n    m = read_metadata_file(path)\n    return m, m.tensors"
    ),
    "blazar-gguf: peek (architecture, shape)": (
        "from blazar_gguf import peek_header\n"
        "def work():\n"
        "    m = peek_header(path)\n"
        "    return m, m.architecture, m.block_count, m.vocab_size, m.head_counts_kv"
    ),
    "blazar-gguf: everything, tokens as bytes": (
        "from blazar_gguf import ValueType, read_metadata_file\n"
        "def work():\n"
        "    m = read_metadata_file(path)\n"
        "    lazy = [f.lazy for f in m.fields.known.values() if f.lazy is not None]\n"
        "    return m, [a.load_bytes() if a.element_type is ValueType.STRING else a.load() for a in lazy]"
    ),
    "blazar-gguf: prediction (would_load)": (
        "from blazar_gguf import read_metadata_file, would_load\n"
        "def work(): return would_load(read_metadata_file(path))"
    ),
}
_REFERENCE, *_OURS = _WORK


@dataclass(frozen=True, slots=True)
class Timing:
    """Best of some runs: seconds of wall clock and of CPU, and KiB the process grew by."""

    wall_s: float
    cpu_s: float
    grown_kib: int


def measure(code: str, path: Path, rounds: int) -> Timing:
    """Run the snippet in fresh processes and keep the best of each figure."""
    runs = []
    for _ in range(rounds):
        program = _PROLOGUE + code + _EPILOGUE
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    return Timing(*(min(column) for column in zip(*runs, strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a .gguf file with a large vocabulary")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each of ours (default 5); the reader gets two")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    missing = [name for name in ("gguf", "blazar_gguf") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"{missing[0]} is not installed here. Type: uv run --group compare scripts/bench_gguf.py {given.file}")
    reference = measure(_WORK[_REFERENCE], given.file, min(2, given.rounds))
    results = {_REFERENCE: reference} | {name: measure(_WORK[name], given.file, given.rounds) for name in _OURS}
    if given.json:
        rows = {name: [t.wall_s, t.cpu_s, t.grown_kib] for name, t in results.items()}
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'':<42} {'wall':>12} {'CPU':>12} {'faster (CPU)':>13} {'memory grew':>12}")
    for name, t in results.items():
        ratio = "" if name == _REFERENCE else f"{reference.cpu_s / t.cpu_s:,.0f} x"
        times = f"{t.wall_s * 1000:>9,.1f} ms {t.cpu_s * 1000:>9,.1f} ms"
        print(f"{name:<42} {times} {ratio:>13} {t.grown_kib / 1024:>8,.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
