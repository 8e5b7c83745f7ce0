"""``/api/pull`` over sockets: Ollama's lines, statuses for early refusals, and pulls that outlive their clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
from aiohttp.test_utils import TestClient, TestServer

from blazar_gateway import create_app
from blazar_gateway.routes.pulls import PULLS
from blazar_gateway.testing import FixedCatalogue, PlainSettings, ReadyHost, RecordingDaemon
from blazar_routing.errors import LaneError, PullFailed, PullNotFound


@dataclass(frozen=True, slots=True)
class State:
    """A state as the port has it."""

    phase: str
    done_bytes: int = 0
    error: LaneError | None = None
    reference: str = "a/b"
    name: str | None = "a/b:Q4_K_M"
    reason: str = "the best that fits"
    digest: str = "ab" * 32
    total_bytes: int = 100
    over: bool = False


@dataclass(slots=True)
class ScriptedPulls:
    """Says what it was told to say."""

    script: Sequence[State]
    asked: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def follow(self, reference: str) -> AsyncIterator[State]:
        self.asked.append(reference)
        for state in self.script:
            await asyncio.sleep(0)
            yield state

    def states(self) -> Sequence[State]:
        return self.script

    def cancel(self, reference: str) -> bool:
        self.cancelled.append(reference)
        return True


def client_of(host: ReadyHost, pulls: ScriptedPulls) -> TestClient:  # type: ignore[type-arg]  # generic in its request
    app = create_app(
        host=host, catalogue=FixedCatalogue(), daemon=RecordingDaemon(), settings=PlainSettings, control=True
    )
    app[PULLS] = pulls
    return TestClient(TestServer(app))


GOOD = (State("planning"), State("downloading", 10), State("downloading", 60), State("success", 100, over=True))


async def test_a_pull_is_told_in_ollamas_lines(host: ReadyHost) -> None:
    async with client_of(host, ScriptedPulls(GOOD)) as client:
        answer = await client.post("/api/pull", json={"model": "a/b"})
        lines = [json.loads(line) for line in (await answer.read()).splitlines()]
    assert [line["status"] for line in lines] == [
        "pulling manifest",
        "pulling abababababab",
        "pulling abababababab",
        "verifying sha256 digest",
        "writing manifest",
        "success",
    ]
    assert (lines[1]["completed"], lines[1]["total"], lines[1]["digest"]) == (10, 100, f"sha256:{'ab' * 32}")


async def test_a_client_that_does_not_stream_waits_for_the_end(host: ReadyHost) -> None:
    async with client_of(host, ScriptedPulls(GOOD)) as client:
        answer = await client.post("/api/pull", json={"name": "a/b", "stream": False})
        assert await answer.json() == {"status": "success", "model": "a/b:Q4_K_M"}


@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_refused_before_the_first_byte_has_its_own_status(host: ReadyHost, stream: bool) -> None:
    error = PullNotFound("there is no repository 'a/b'.")
    async with client_of(host, ScriptedPulls((State("planning"), State("failed", error=error, over=True)))) as client:
        answer = await client.post("/api/pull", json={"model": "a/b", "stream": stream})
        assert (answer.status, (await answer.json())["error"]) == (404, str(error))


async def test_a_later_failure_is_a_line(host: ReadyHost) -> None:
    script = (State("downloading", 10), State("failed", error=PullFailed("the disk is full."), over=True))
    async with client_of(host, ScriptedPulls(script)) as client:
        answer = await client.post("/api/pull", json={"model": "a/b"})
        last = json.loads((await answer.read()).splitlines()[-1])
    assert answer.status == 200
    assert last == {"error": "the disk is full.", "code": "pull-failed"}


async def test_pulls_are_listed_and_cancelled_on_the_same_path(host: ReadyHost) -> None:
    pulls = ScriptedPulls((State("downloading", 10),))
    async with client_of(host, pulls) as client:
        (listed,) = (await (await client.get("/api/pull")).json())["pulls"]
        stopped = await (await client.post("/api/pull/cancel", json={"model": "a/b"})).json()
    assert (listed["model"], listed["completed"], listed["status"]) == ("a/b:Q4_K_M", 10, "downloading")
    assert stopped == {"cancelled": True}
    assert pulls.cancelled == ["a/b"]
