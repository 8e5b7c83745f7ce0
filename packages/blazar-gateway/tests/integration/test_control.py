"""What the command line asks of its daemon."""

from typing import NoReturn

import pytest
from typing_extensions import override

from blazar_gateway.testing import RawClient, ReadyHost, RecordingDaemon, fetch, serve
from blazar_routing.errors import InvalidRequest


async def test_status_has_the_daemons_and_the_gateways_part(host: ReadyHost) -> None:
    async with serve(host) as served:
        status = (await fetch(served.port, "GET", "/api/daemon")).json
    assert status["version"] == "0.1.0"
    assert status["gateway"]["requests"] == 1


async def test_stop_unloads_the_row_that_is_meant(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/stop", {"model": "m:latest"})
        missing = await fetch(served.port, "POST", "/api/stop", {"model": "x"})
        nameless = await fetch(served.port, "POST", "/api/stop", {})
    assert answer.json == {"model": "m", "stopped": False}
    assert host.unloaded == ["m"]
    assert missing.status == 404
    assert "not found" in missing.json["error"]
    assert nameless.status == 400


async def test_shutdown_is_for_the_owner(host: ReadyHost) -> None:
    daemon = RecordingDaemon()
    async with serve(host, daemon=daemon) as served:
        answer = await fetch(served.port, "POST", "/api/shutdown", {})
        assert (answer.status, answer.json["code"], daemon.stopped) == (403, "admin_only", 0)
    async with serve(host, daemon=daemon, control=True) as served:
        answer = await fetch(served.port, "POST", "/api/shutdown", {})
        assert (answer.status, daemon.stopped) == (202, 1)


async def test_reading_the_files_again_is_for_the_owner(host: ReadyHost) -> None:
    daemon = RecordingDaemon()
    async with serve(host, daemon=daemon) as served:
        assert (await fetch(served.port, "POST", "/api/refresh", {})).status == 403
    async with serve(host, daemon=daemon, control=True) as served:
        assert (await fetch(served.port, "POST", "/api/refresh", {})).status == 200
    assert daemon.refreshed == 1


async def test_logs_are_for_the_owner(host: ReadyHost) -> None:
    async with serve(host) as served:
        assert (await fetch(served.port, "GET", "/api/logs")).status == 403


@pytest.mark.parametrize(
    ("query", "text"),
    [("", b"first\nsecond\n"), ("?lines=1", b"second\n"), ("?model=&lines=", b"first\nsecond\n"), ("?lines=0", b"")],
)
async def test_log_lines(host: ReadyHost, query: str, text: bytes) -> None:
    daemon = RecordingDaemon(lines=[b"first\n", b"second"]) if query != "?lines=0" else RecordingDaemon(lines=[])
    async with serve(host, control=True, daemon=daemon) as served:
        answer = await fetch(served.port, "GET", f"/api/logs{query}")
    assert (answer.status, answer.body) == (200, text)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


async def test_log_can_be_followed_and_left(host: ReadyHost) -> None:
    daemon = RecordingDaemon()
    async with serve(host, control=True, daemon=daemon) as served:
        async with RawClient(served.port) as client:
            await client.post("/api/logs?follow=1", b"", method="GET")
            await client.read_until(b"second\n")
            daemon.follow_gate.set()
            await client.read_until(b"third\n")
        daemon.follow_gate.clear()
        async with RawClient(served.port) as client:
            await client.post("/api/logs?follow=true", b"", method="GET")
            await client.read_until(b"second\n")
        await served.at_rest()
    assert daemon.open_logs == 0


@pytest.mark.parametrize("lines", ["x", "-1", "1.5", "9" * 12])
async def test_odd_line_count_is_refused(host: ReadyHost, lines: str) -> None:
    async with serve(host, control=True) as served:
        assert (await fetch(served.port, "GET", f"/api/logs?lines={lines}")).status == 400


async def test_log_that_is_not_there_has_its_status(host: ReadyHost) -> None:
    daemon = RecordingDaemon(missing=InvalidRequest("there is no log of model 'x'."))
    async with serve(host, control=True, daemon=daemon) as served:
        answer = await fetch(served.port, "GET", "/api/logs?model=x")
    assert (answer.status, answer.json["error"]) == (400, "there is no log of model 'x'.")


async def test_fault_of_our_own_is_answered_with_its_id_and_logged_under_it(
    host: ReadyHost, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(RecordingDaemon):
        @override
        def status(self) -> NoReturn:
            raise ZeroDivisionError

    async with serve(host, daemon=Broken()) as served:
        answer = await fetch(served.port, "GET", "/api/daemon")
    assert answer.status == 500
    assert answer.headers["x-request-id"] in answer.json["error"]
    assert answer.headers["x-request-id"] in caplog.text
    assert "ZeroDivisionError" in caplog.text
