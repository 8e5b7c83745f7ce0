"""Every teaching text is the same, byte for byte, in four dialects and on the command line."""

import asyncio
from typing import Any

import pytest

from blazar_cli.exit_codes import LANE_EXIT
from blazar_cli.testing import Ended, User
from blazar_gateway.error_responses import WIRE_TABLE
from blazar_gateway.testing import FixedCatalogue, RefusingHost, ScriptedEngine, card, fetch, serve
from blazar_gateway.testing.engine import Exchange
from blazar_routing.errors import LaneError
from blazar_routing.testing import one_of_each

HI = [{"role": "user", "content": "hi"}]
FOUR: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("/v1/chat/completions", {"messages": HI}),
    "responses": ("/v1/responses", {"input": "hi"}),
    "anthropic": ("/v1/messages", {"messages": HI, "max_tokens": 5}),
    "ollama": ("/api/chat", {"messages": HI}),
}


async def is_not_asked(_: Exchange) -> None:
    raise AssertionError("a refused request reached the engine")


def text_of(body: Any) -> str:
    error = body["error"]
    return str(error if isinstance(error, str) else error["message"])


async def refused(error: LaneError, user: User, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], Ended]:
    """Return the four answers to a request that a daemon refuses with ``error``, and how the command ends on it."""
    async with ScriptedEngine(is_not_asked) as engine:
        host = RefusingHost(engine, refusal=error)
        async with serve(host, catalogue=FixedCatalogue(card("m"))) as served:
            monkeypatch.setenv("BLAZAR_HOST", f"127.0.0.1:{served.port}")
            answers: dict[str, Any] = {}
            for stream in (False, True):
                for name, (path, body) in FOUR.items():
                    asked = {"model": "m", "stream": stream, **body}
                    answers[f"{name}, stream={stream}"] = await fetch(served.port, "POST", path, asked)
            return answers, await asyncio.to_thread(user.blazar, "run", "m", "hi")


@pytest.mark.parametrize("error", one_of_each(), ids=lambda error: error.code)
async def test_a_text_is_the_same_wherever_it_is_read(
    error: LaneError, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, ended = await refused(error, user, monkeypatch)
    assert {name: text_of(answer.json) for name, answer in answers.items()} == dict.fromkeys(answers, str(error))
    assert {answer.status for answer in answers.values()} == {WIRE_TABLE[error.code].status}
    assert str(error) in ended.err
    assert ended.status == LANE_EXIT[error.code]
