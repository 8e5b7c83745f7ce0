"""The daemon under the soak: started with its keys, and looked at from outside."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench_parts.servers import BenchFailed, free_port, running, wait_until_up
from blazar_store.key_secrets import hash_secret
from blazar_stubs import write_stub_model
from soak_parts.mix import EMBEDDER, MODEL

_PARTS = Path(__file__).parent
_SAMPLE = re.compile(r"^(blazar_\w+)(?:\{(.*)\})? ([-+.\deE]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Held:
    """What the daemon holds at one moment.

    Attributes:
        resident_bytes: Of its process.
        descriptors: Open files and sockets.
        tasks: Of its event loop.
        in_hand: Gauges that are not zero, by name.
    """

    resident_bytes: int
    descriptors: int
    tasks: int
    in_hand: dict[str, float]


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running daemon.

    Attributes:
        port: On 127.0.0.1.
        process: For memory and descriptors.
        secrets: Of its keys, in order; the first may manage.
        folder: Where engines tell their ports.
    """

    port: int
    process: psutil.Process
    secrets: list[str]
    folder: Path

    def metrics(self) -> list[tuple[str, str, float]]:
        """Return every sample: name, labels as written, value."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/metrics", headers={"Authorization": f"Bearer {self.secrets[0]}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        return [(name, labels or "", float(value)) for name, labels, value in _SAMPLE.findall(text)]

    def held(self) -> Held:
        """Look at the daemon. The look itself is a request, and is left out."""
        samples = self.metrics()
        gauges = {f"{name} {labels}": value for name, labels, value in samples if name in _GAUGES}
        asking = 'blazar_in_hand what="requests"'
        gauges[asking] = gauges.get(asking, 1.0) - 1.0
        tasks = next((int(value) for name, _, value in samples if name == "blazar_tasks"), 0)
        return Held(
            resident_bytes=int(self.process.memory_info().rss),
            descriptors=self.process.num_fds(),
            tasks=tasks,
            in_hand={name: value for name, value in gauges.items() if value},
        )

    def at_rest(self, *, descriptors: int, tasks: int, deadline_s: float = 60.0) -> Held:
        """Wait until nothing is in hand and no more is open than given; return what is held then or at last."""
        until = time.monotonic() + deadline_s
        held = self.held()
        while time.monotonic() < until:
            if not held.in_hand and held.descriptors <= descriptors and held.tasks <= tasks:
                break
            time.sleep(0.5)
            held = self.held()
        return held

    def accounted(self) -> tuple[int, int]:
        """Return the prompt and completion tokens that the daemon has counted, all keys and models together."""
        totals = {"prompt": 0.0, "completion": 0.0}
        for name, labels, value in self.metrics():
            if name == "blazar_tokens_total":
                totals["prompt" if 'kind="prompt"' in labels else "completion"] += value
        return int(totals["prompt"]), int(totals["completion"])

    def sent(self) -> tuple[int, int]:
        """Return the prompt and completion tokens that its engines have sent."""
        prompt = completion = 0
        for file in self.folder.glob("*.port"):
            with urllib.request.urlopen(f"http://127.0.0.1:{file.read_text('utf-8')}/totals", timeout=60) as answer:
                totals = json.loads(answer.read())
            prompt += totals["prompt_tokens"]
            completion += totals["completion_tokens"]
        return prompt, completion


_GAUGES = frozenset({"blazar_in_hand", "blazar_child_requests", "blazar_child_waiting"})


@contextmanager
def serving(folder: Path, *, keys: int) -> Iterator[Daemon]:
    """Run ``blazar serve`` with two models on the soak's engine and so many keys.

    Raises:
        BenchFailed: It did not come up.
    """
    env = {
        "BLAZAR_DATA_DIR": str(folder / "data"),
        "BLAZAR_CONFIG": str(folder / "config.toml"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    secrets = [f"plm_soak-{number}" for number in range(keys)]
    (folder / "config.toml").write_text(_config(secrets), encoding="utf-8")
    engine = folder / "llama-server"
    program = f'exec "{sys.executable}" "{_PARTS / "engine.py"}" --tell "{folder}" "$@"'
    engine.write_text(f'#!/bin/sh\nPYTHONPATH="{_PARTS.parent}" {program}\n', encoding="utf-8")
    engine.chmod(0o755)
    command = [sys.executable, "-m", "blazar_cli.main"]
    write_stub_model(folder / f"{MODEL}.gguf")
    write_stub_model(folder / f"{EMBEDDER}.gguf", pooling_type=1)
    steps = [["engine", "add-local", str(engine)]]
    steps += [["models", "add", str(folder / f"{name}.gguf"), "--name", name] for name in (MODEL, EMBEDDER)]
    for step in steps:
        done = subprocess.run(
            [*command, *step], env={**os.environ, **env}, capture_output=True, text=True, timeout=180, check=False
        )
        if done.returncode:
            raise BenchFailed(f"blazar {' '.join(step)} exited {done.returncode}:\n{done.stdout}{done.stderr}")
    port, log = free_port(), folder / "blazar.log"
    with running([*command, "serve", "--port", str(port)], core=None, log=log, env=env) as process:
        wait_until_up(f"http://127.0.0.1:{port}/healthz", process, log)
        yield Daemon(port, process, secrets, folder)


def _config(secrets: list[str]) -> str:
    """Return a configuration in which every key has limits that are counted and not reached."""
    lines = ['log_level = "warning"', f"[models.{MODEL}]", "slots = 8", f"[models.{EMBEDDER}]", "slots = 8"]
    for number, secret in enumerate(secrets):
        lines += [
            "[[keys]]",
            f'name = "key-{number}"',
            f'hash = "{hash_secret(secret)}"',
            "rpm = 1000000",
            "tpm = 1000000000",
            "daily_tokens = 1000000000",
            "max_concurrent = 1000",
            f"weight = {1 + number % 4}",
        ]
    return "\n".join(lines) + "\n"
