"""`blazar serve`: where it listens, how it stops, and what it refuses to start on."""

import signal
import socket
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blazar_cli.exit_codes import ExitCode
from e2e.daemon import Daemon, start_daemon, wait_until_listening
from e2e.home import Home
from e2e.http import chat_body, content_of, decode_events
from e2e.served import Served, add_stub_engine, add_stub_model
from e2e.waiting import eventually

Serve = Callable[[Home], Daemon]


@pytest.mark.promise("serve:one-address")
def test_it_answers_on_tcp_and_on_its_own_socket(served: Served) -> None:
    assert served.client.get("/healthz").status == 200
    mode = served.home.control_socket.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(served.home.control_socket))
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.promise("serve:stop")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_stops_it_and_its_engines_and_leaves_nothing(served: Served, number: signal.Signals) -> None:
    served.add_model("m")
    assert served.client.chat("m").status == 200
    engines = served.daemon.engines()
    assert engines
    served.daemon.signal(number)
    assert served.daemon.wait() == 0
    assert not any(engine.is_running() for engine in engines)
    left = {file.name for file in served.home.run_dir.iterdir() if file.suffix in {".sock", ".apikey", ".pid"}}
    assert left == set()


@pytest.mark.promise("serve:drain")
def test_a_stream_in_flight_is_finished_before_it_stops(served: Served) -> None:
    model = served.add_model("m", script={"token_delay_s": 0.05})
    body = chat_body("m", stream=True, max_tokens=20)
    with served.client.open("POST", "/v1/chat/completions", body) as response:
        first = response.read1(65536)
        served.daemon.signal(signal.SIGTERM)
        rest = response.read()
    assert served.daemon.wait() == 0
    events = decode_events(first + rest)
    assert events[-1] == "[DONE]"
    assert model.events("done")[-1]["tokens_sent"] == 20


@pytest.mark.promise("serve:drain")
def test_while_it_stops_a_new_request_finds_nobody(served: Served) -> None:
    served.add_model("m", script={"token_delay_s": 0.05})
    body = chat_body("m", stream=True, max_tokens=60)
    with served.client.open("POST", "/v1/chat/completions", body) as response:
        response.read1(65536)
        served.daemon.signal(signal.SIGTERM)
        eventually(lambda: "no new connections" in served.daemon.log(), what="it says that it stops")
        with pytest.raises(ConnectionRefusedError):
            served.client.get("/healthz")
        response.read()
    assert served.daemon.wait() == 0


@pytest.mark.promise("serve:bind-conflict")
def test_a_taken_port_is_exit_status_3_and_names_the_port(home: Home) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = home.blazar("serve", "--port", str(port))
    assert done.returncode == 3
    assert str(port) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.promise("serve:data-dir-in-use")
def test_a_second_daemon_on_the_same_data_is_refused_by_name(served: Served) -> None:
    done = served.home.blazar("serve", "--port", "0")
    assert done.returncode == ExitCode.DATA_DIR_IN_USE
    assert str(served.daemon.process.pid) in done.stderr
    assert served.client.get("/healthz").status == 200


@pytest.mark.promise("serve:log")
def test_it_keeps_its_log_itself_and_rotates_a_large_one_at_the_start(home: Home, serve: Serve) -> None:
    home.run_dir.mkdir(parents=True)
    home.daemon_log.write_bytes(b"old\n" * (11 * 1024 * 1024 // 4))
    daemon = serve(home)
    eventually(lambda: f"listening on {daemon.url}" in daemon.log(), what="the new log says where it listens")
    assert "old" not in daemon.log()
    assert home.daemon_log.with_name("daemon.log.1").read_bytes().startswith(b"old\n")


@pytest.mark.promise("serve:log")
def test_a_small_log_is_continued(home: Home, serve: Serve) -> None:
    home.run_dir.mkdir(parents=True)
    home.daemon_log.write_text("earlier\n", encoding="utf-8")
    daemon = serve(home)
    eventually(lambda: "listening on" in daemon.log(), what="the log says where it listens")
    assert daemon.log().startswith("earlier\n")


@pytest.mark.promise("serve:xdg-fallback")
def test_without_a_home_it_uses_the_current_directory_and_says_so_loudly(home: Home) -> None:
    missing = {"HOME": "", "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "XDG_CACHE_HOME": ""}
    done = home.blazar("models", "list", env=missing)
    assert done.returncode == 0
    assert "WARNING" in done.stderr
    assert str(home.root / "blazar") in done.stderr


@pytest.mark.promise("serve:orphans")
def test_engines_of_a_daemon_that_was_killed_are_collected_at_the_next_start(home: Home, serve: Serve) -> None:
    add_stub_engine(home)
    add_stub_model(home, "m")
    daemon = start_daemon(home)
    try:
        wait_until_listening(daemon)
        assert daemon.client.chat("m").status == 200
        engines = daemon.engines()
    finally:
        daemon.process.kill()
        daemon.process.wait()
    again = serve(home)
    eventually(lambda: not any(engine.is_running() for engine in engines), what="the orphan is gone")
    assert again.client.chat("m").status == 200
    assert len(again.engines()) == len(engines)


@pytest.mark.promise("serve:many-clients")
def test_descriptors_and_engines_do_not_grow_with_requests(served: Served) -> None:
    served.add_model("m")
    with ThreadPoolExecutor(8) as pool:

        def ask(_: int) -> int:
            return served.client.chat("m", stream=True).status

        assert set(pool.map(ask, range(16))) == {200}
        before = eventually(lambda: _settled(served), what="descriptors come to rest")
        assert set(pool.map(ask, range(64))) == {200}
    after = eventually(lambda: _settled(served), what="descriptors come to rest")
    assert after <= before + 8
    assert len(served.daemon.engines()) == 1


def _settled(served: Served) -> int:
    """Return the number of descriptors once no request is in flight and two looks agree."""
    counts = {served.daemon.open_descriptors() for _ in range(2)}
    return counts.pop() if len(counts) == 1 else 0


def test_what_a_stream_adds_up_to_is_its_deltas(tmp_path: Path) -> None:
    stream = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n: ping\n\ndata: {"choices":[]}\n\ndata: [DONE]\n\n'
    assert content_of(decode_events(stream)) == "a"
