#!/usr/bin/env python3
"""Compare blazar-gguf's predictions with a real llama-server, on models bent in one place at a time.

Every key and every kind of tensor of a tiny model (or of the files given) is changed in turn; the engine loads each
file, and each prediction that differs from its verdict is printed. `--record` keeps the verdicts, which is how
packages/blazar-gguf/tests/data/engine_verdicts.jsonl was made.

    scripts/fuzz_engine.py ~/llama.cpp/llama-server
    scripts/fuzz_engine.py ./llama-server tiny-qwen2.gguf --share 0.2
"""

import argparse
import json
import os
import random
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from blazar_gguf import Prediction, would_load_file
from blazar_gguf.testing import ODD_FILES, RawFile, TinyShape, mutants, tiny_model

_LOADED = b"listening on"
_ASSERTED = frozenset({132, 134, 136, 139})
"""Exit statuses of a process that a signal ended, as a shell would report them."""


def main() -> int:
    given = _arguments()
    rng = random.Random(given.seed)
    seen: Counter[tuple[Prediction, Prediction]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bent.gguf"
        for base, name, data in _cases(given.files):
            if rng.random() >= given.share:
                continue
            path.write_bytes(data)
            real = engine_verdict(given.engine, path, given.timeout)
            prediction = would_load_file(path)
            seen[real, prediction.outcome] += 1
            if given.record:
                with given.record.open("a") as out:
                    out.write(json.dumps({"base": base, "case": name, "outcome": real}) + "\n")
            if real is not prediction.outcome:
                print(
                    f"{base}: {name}: the engine {real}, predicted {prediction.outcome} {prediction.reason}", flush=True
                )
    wrong = sum(count for (real, guess), count in seen.items() if real is not guess)
    print(f"{seen.total()} files, {wrong} predictions differ from the engine")
    for (real, guess), count in sorted(seen.items()):
        print(f"  engine {real:<8} predicted {guess:<8} {count}")
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=Path, help="a llama-server binary")
    parser.add_argument("files", type=Path, nargs="*", help="models to bend (default: tiny ones, and the odd files)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the cases to run (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="which ones, with --share")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds the engine may take for one file")
    parser.add_argument("--record", type=Path, help="append the engine's verdicts to this file, as JSON lines")
    return parser.parse_args()


def _cases(files: list[Path]) -> Iterator[tuple[str, str, bytes]]:
    """Base, case and bytes of each bent file."""
    if not files:
        for name, odd in ODD_FILES.items():
            yield "odd", name, odd.to_bytes()
    healthy = {f.stem: RawFile.from_bytes(f.read_bytes()) for f in files} or {
        "llama": RawFile.from_writer(tiny_model("llama", shape=TinyShape(layers=2))),
        "gemma3": RawFile.from_writer(tiny_model("gemma3", shape=TinyShape(layers=6))),
    }
    for base, raw in healthy.items():
        for name, bent in mutants(raw):
            yield base, name, bent.to_bytes()


def engine_verdict(engine: Path, path: Path, timeout_s: float) -> Prediction:
    """Start the engine on a file until it listens or gives up; it is killed either way."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(engine.parent), "GGML_NO_BACKTRACE": "1"}
    arguments = ["-m", str(path), "--host", "127.0.0.1", "--port", "0", "-c", "2048", "-t", "1", "--no-webui"]
    child = subprocess.Popen(
        [str(engine), *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        if child.stderr is not None and _reads(child.stderr.fileno(), _LOADED, time.monotonic() + timeout_s):
            return Prediction.LOADS
        status = child.wait(timeout=timeout_s)
    finally:
        child.kill()
        child.wait()
        if child.stderr is not None:
            child.stderr.close()
    return Prediction.ABORTS if status < 0 or status in _ASSERTED else Prediction.REFUSES


def _reads(descriptor: int, wanted: bytes, deadline: float) -> bool:
    """Read until the text comes (True) or the stream ends (False)."""
    os.set_blocking(descriptor, False)
    tail = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not selector.select(deadline - time.monotonic()):
                continue
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                return False
            tail = (tail + piece)[-(1 << 16) :]
            if wanted in tail:
                return True
    raise TimeoutError(f"the engine neither loaded nor refused within the time given; it last said {tail[-300:]!r}")


if __name__ == "__main__":
    sys.exit(main())
