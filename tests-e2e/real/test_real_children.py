"""The real engine as a child: spawned once, stopped in any situation, its failures explained."""

import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blazar_cli.exit_codes import ExitCode
from blazar_gguf.testing import write_tiny_model
from e2e.home import Home
from e2e.http import chat_body
from e2e.served import Served, serving
from e2e.waiting import eventually

TINY = "tiny"


@pytest.mark.promise("load:once")
def test_twenty_first_requests_at_once_are_one_engine(own: Served) -> None:
    spellings = ("tiny", "tiny:latest", "TINY", "Tiny:latest")
    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(lambda number: own.client.chat(spellings[number % 4], max_tokens=2), range(20))
        assert {answer.status for answer in answers} == {200}
    assert len(own.daemon.engines()) == 1
    starts = [line for line in _child_log(own).splitlines() if "load_model: loading model" in line]
    assert len(starts) == 1


def _child_log(served: Served) -> str:
    return served.home.ok("logs", TINY, "-n", "100000")


@pytest.mark.promise("serve:stop")
@pytest.mark.parametrize("stream", [True, False], ids=["a stream", "a whole answer"])
def test_the_daemon_stops_in_time_while_the_engine_is_at_work(
    engine: Path, home: Home, tmp_path: Path, stream: bool
) -> None:
    # By itself llama-server does not exit while a plain request is in flight.
    write_tiny_model(tmp_path / "endless.gguf", endless=True, context_length=65536)
    home.configure("drain_timeout_secs = 1\n")
    home.ok("engine", "add-local", engine)
    home.ok("models", "add", tmp_path / "endless.gguf", "--name", TINY)
    raw = json.dumps(chat_body(TINY, stream=stream, max_tokens=60_000)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n\r\n".encode()
    with serving(home) as daemon, daemon.client.send_raw(head + raw):
        eventually(lambda: any(row["in_flight"] for row in home.json("ps")), what="the engine is at work")
        engines = daemon.engines()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
    assert not any(process.is_running() for process in engines)


@pytest.mark.promise("stream:client-leaves")
@pytest.mark.parametrize("stream", [True, False], ids=["a stream", "a whole answer"])
def test_when_the_client_leaves_the_engine_s_slot_is_free_again(
    engine: Path, home: Home, tmp_path: Path, stream: bool
) -> None:
    write_tiny_model(tmp_path / "endless.gguf", endless=True, context_length=65536)
    home.configure(f'[models."{TINY}"]\nslots = 1\n')
    home.ok("engine", "add-local", engine)
    home.ok("models", "add", tmp_path / "endless.gguf", "--name", TINY)
    raw = json.dumps(chat_body(TINY, stream=stream, max_tokens=60_000)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n\r\n".encode()
    with serving(home) as daemon:
        with daemon.client.send_raw(head + raw):
            eventually(lambda: any(row["in_flight"] for row in home.json("ps")), what="the engine is at work")
        # With one slot, a second answer shows that the engine dropped the first.
        assert daemon.client.chat(TINY, max_tokens=2).status == 200


@pytest.mark.promise("stream:death-is-no-success")
def test_a_real_engine_that_is_killed_in_mid_stream_ends_in_an_error_event(
    engine: Path, home: Home, tmp_path: Path
) -> None:
    write_tiny_model(tmp_path / "endless.gguf", endless=True, context_length=65536)
    home.ok("engine", "add-local", engine)
    home.ok("models", "add", tmp_path / "endless.gguf", "--name", TINY)
    body = chat_body(TINY, stream=True, max_tokens=60_000)
    with serving(home) as daemon:
        with daemon.client.open("POST", "/v1/chat/completions", body) as response:
            received = response.read1(1 << 16)
            (process,) = daemon.engines()
            process.kill()
            received += response.read()
        last = received.rstrip().rsplit(b"data: ", 1)[1]
        assert json.loads(last)["error"]["code"] == "engine_crashed"
        assert b"[DONE]" not in received
        assert daemon.client.chat(TINY, max_tokens=2).status == 200


@pytest.mark.promise("load:failure-teaches")
def test_a_file_that_went_away_is_named(own: Served, tmp_path: Path) -> None:
    path = tmp_path / "gone.gguf"
    write_tiny_model(path)
    own.home.ok("models", "add", path, "--name", "gone")
    eventually(lambda: "gone" in own.models(), what="the daemon knows the model")
    path.unlink()
    answer = own.client.chat("gone")
    assert answer.status == 404
    error = answer.json()["error"]
    assert error["code"] == "model_file_missing"
    assert str(path) in error["message"]
    assert own.home.blazar("run", "gone", "hi").returncode == ExitCode.NOT_FOUND


@pytest.mark.promise("load:failure-teaches")
def test_a_file_that_was_cut_after_it_was_added_is_explained(own: Served, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    write_tiny_model(path)
    own.home.ok("models", "add", path, "--name", "cut")
    eventually(lambda: "cut" in own.models(), what="the daemon knows the model")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    answer = own.client.chat("cut")
    assert answer.status in {400, 500}
    message = answer.json()["error"]["message"]
    assert "cut" in message
    assert "Traceback" not in message


@pytest.mark.promise("engine:add-local")
def test_the_real_engine_is_known_for_what_it_is(real: Served) -> None:
    (row,) = real.home.json("engine", "list")
    assert row["kind"] == "llamacpp"
    assert re.fullmatch(r"[0-9a-f]{7,}", row["commit"])


@pytest.mark.promise("serve:small")
def test_the_daemon_itself_holds_no_engine_library(real: Served) -> None:
    assert real.client.chat(TINY, max_tokens=1).status == 200
    maps = Path(f"/proc/{real.daemon.process.pid}/maps").read_text(encoding="utf-8").splitlines()
    mapped = {Path(line.split()[-1]).name for line in maps}
    assert not {name for name in mapped if name.startswith(("libggml", "libllama", "libcuda", "libvulkan"))}
