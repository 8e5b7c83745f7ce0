"""llamacpp.md, section 3.5: what becomes of a request whose client leaves; section 1.4: and of a server told to stop."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blazar_stubs import StubModel
from blazar_stubs.testing import Dialog, Engine, Incomplete, Launched, free_port, launched, wait_until

CHAT = "/v1/chat/completions"
LONG = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1500, "ignore_eos": True}


@pytest.fixture(scope="module")
def slow(home: Path, tiny: StubModel) -> StubModel:
    """The stub's tokens take about as long as the real engine's: a long answer lasts seconds."""
    return tiny.script(token_delay_s=0.001)


@pytest.fixture(scope="module")
def server(engine: Engine, home: Path, slow: StubModel) -> Iterator[Launched]:
    argv = ["-m", slow.path, "-c", "4096", "-np", "2", "-kvu", "-a", "tiny", "--metrics"]
    with launched(engine, home / f"{engine.kind}.log", *argv) as running:
        yield running


@pytest.fixture
def started(engine: Engine, home: Path, slow: StubModel) -> Any:
    """Start a server of its own for one test."""
    return lambda *argv: launched(engine, home / "own.log", "-m", slow.path, "-c", "4096", "-np", "1", *argv)


def began(server: Launched, headers: dict[str, str] | None = None, **body: Any) -> Dialog:
    """A stream whose first chunk has come."""
    dialog = server.dialog()
    dialog.send("POST", CHAT, {**LONG, "stream": True, **body}, headers)
    assert dialog.head().status == 200
    dialog.chunk()
    return dialog


def asked(server: Launched) -> Dialog:
    """A plain request that is being worked on."""
    dialog = server.dialog()
    dialog.send("POST", CHAT, LONG)
    wait_until(lambda: server.busy, "the request is being worked on")
    return dialog


def seconds_until_idle(server: Launched) -> float:
    left_s = time.monotonic()
    wait_until(lambda: not server.busy, "slots are idle")
    return time.monotonic() - left_s


def made(server: Launched) -> float:
    return server.metrics()["llamacpp:tokens_predicted_total"]


@pytest.mark.parametrize("how", ["close", "reset"])
def test_stream_is_cancelled_when_its_client_leaves(server: Launched, how: str) -> None:
    dialog = began(server)
    before = made(server)
    getattr(dialog, how)()
    seconds_until_idle(server)
    assert made(server) - before < 1500
    wait_until(lambda: "cancel task, id_task = " in server.stderr, "the cancellation is told")


def test_plain_request_is_not_cancelled_when_its_client_leaves(server: Launched) -> None:
    before = made(server)
    asked(server).close()
    seconds_until_idle(server)
    assert made(server) - before == 1500


def test_stream_with_a_conversation_is_not_cancelled(server: Launched) -> None:
    before = made(server)
    began(server, {"X-Conversation-Id": "talk"}).close()
    seconds_until_idle(server)
    assert made(server) - before == 1500


def test_stream_that_waits_is_dropped_only_when_its_turn_comes(server: Launched) -> None:
    before = made(server)
    with began(server, max_tokens=400), began(server, max_tokens=400):
        waiting = server.dialog()
        waiting.send("POST", CHAT, {**LONG, "stream": True})
        wait_until(lambda: server.metrics()["llamacpp:requests_deferred"] == 1, "the third waits")
        waiting.close()
        time.sleep(0.2)
        assert server.metrics()["llamacpp:requests_deferred"] == 1
        seconds_until_idle(server)
    wait_until(lambda: server.metrics()["llamacpp:requests_deferred"] == 0, "nobody waits")
    seconds_until_idle(server)
    assert made(server) - before < 1500


# stopping --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_idle_server_exits_cleanly_even_with_an_open_connection(started: Any, number: signal.Signals) -> None:
    with started() as server, server.dialog() as dialog:
        dialog.send("GET", "/health")
        dialog.reply()
        server.process.send_signal(number)
        assert server.exit_code() == 0


def test_signal_while_loading_kills_at_once(engine: Engine, home: Path, slow: StubModel) -> None:
    slow.script(load_delay_s=30)
    argv = ["-m", slow.path, "--port", str(free_port())]
    with launched(engine, home / "loading.log", *argv, ready=False) as server:
        wait_until(lambda: "loading model" in server.stderr, "it loads")
        server.terminate()
        assert server.exit_code() == -signal.SIGTERM
    slow.script(token_delay_s=0.001)


def test_stopping_cuts_a_stream_and_takes_the_ping_interval(started: Any) -> None:
    with started("--sse-ping-interval", "1") as server, began(server) as dialog:
        server.terminate()
        with pytest.raises((Incomplete, ConnectionError)):
            list(dialog.chunks())
        assert server.exit_code() == 0


def test_stopping_waits_for_a_plain_request_until_its_client_leaves(started: Any) -> None:
    with started() as server:
        dialog = asked(server)
        server.terminate()
        time.sleep(1.0)
        assert server.process.poll() is None
        with pytest.raises(ConnectionError):
            server.dialog()
        dialog.close()
        assert server.exit_code() == 0


def test_second_signal_ends_it_with_code_one(started: Any) -> None:
    with started() as server, asked(server):
        server.terminate()
        wait_until(lambda: "cleaning up before exit..." in server.stderr, "it stops")
        server.terminate()
        # The real engine exits while its threads run, which now and then aborts instead (observed).
        assert server.exit_code() == 1 or (server.engine.kind, server.exit_code()) == ("real", -signal.SIGABRT)
        assert "Received second interrupt, terminating immediately." in server.stderr


def test_kill_leaves_clients_with_an_incomplete_answer(started: Any) -> None:
    with started() as server, began(server) as dialog:
        server.process.kill()
        with pytest.raises((Incomplete, ConnectionError)):
            list(dialog.chunks())
        assert server.exit_code() == -signal.SIGKILL
