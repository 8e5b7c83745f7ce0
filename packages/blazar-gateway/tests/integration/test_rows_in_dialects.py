"""A row's defaults reach the engine in every dialect, and the client's own words beat them."""

from typing import Any

import pytest

from blazar_gateway.testing import FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve
from blazar_store.types import RowOverlay

SHOT = ({"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"})
ROW = card(
    overlay=RowOverlay(
        system="Rhyme.",
        messages=SHOT,
        parameters={"temperature": 0.25, "top_k": 7, "stop": ["END"], "num_ctx": 2048},
    )
)
HI = {"role": "user", "content": "hi"}
MINE = {"role": "system", "content": "Mine."}
CHATS = [
    pytest.param("/v1/chat/completions", {"messages": [HI]}, {"messages": [MINE, HI]}, id="openai"),
    pytest.param("/v1/chat/completions", {"messages": [HI], "stream": True}, {"messages": [MINE, HI]}, id="streamed"),
    pytest.param("/v1/responses", {"input": "hi"}, {"input": "hi", "instructions": "Mine."}, id="responses"),
    pytest.param(
        "/v1/messages", {"messages": [HI], "max_tokens": 9}, {"messages": [HI], "system": "Mine."}, id="anthropic"
    ),
    pytest.param("/api/chat", {"messages": [HI]}, {"messages": [MINE, HI]}, id="ollama chat"),
    pytest.param("/api/generate", {"prompt": "hi"}, {"prompt": "hi", "system": "Mine."}, id="ollama generate"),
]


async def asked(host: ReadyHost, engine: ScriptedEngine, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return what the engine was asked for a request to a row with defaults."""
    async with serve(host, catalogue=FixedCatalogue(ROW)) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", **body})
    assert answer.status == 200, answer
    return next(one.json for one in engine.exchanges if one.path in {"/v1/chat/completions", "/v1/completions"})


def turns(sent: dict[str, Any]) -> list[tuple[str, str]]:
    said = []
    for message in sent["messages"]:
        content = message["content"]
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        said.append((message["role"], text))
    return said


@pytest.mark.parametrize(("path", "plain", "own_system"), CHATS)
async def test_a_conversation_gets_what_nobody_said(
    host: ReadyHost, engine: ScriptedEngine, path: str, plain: dict[str, Any], own_system: dict[str, Any]
) -> None:
    del own_system
    sent = await asked(host, engine, path, plain)
    assert (sent["temperature"], sent["top_k"], sent["stop"]) == (0.25, 7, ["END"])
    assert turns(sent) == [("system", "Rhyme."), ("user", "1+1"), ("assistant", "2"), ("user", "hi")]
    assert "num_ctx" not in sent


@pytest.mark.parametrize(("path", "plain", "own_system"), CHATS)
async def test_the_client_has_the_last_word(
    host: ReadyHost, engine: ScriptedEngine, path: str, plain: dict[str, Any], own_system: dict[str, Any]
) -> None:
    cool = {"options": {"temperature": 1.0}} if path.startswith("/api/") else {"temperature": 1.0}
    sent = await asked(host, engine, path, {**plain, **own_system, **cool})
    assert sent["temperature"] == 1.0
    assert sent["top_k"] == 7
    assert turns(sent)[0] == ("system", "Mine.")
    assert turns(sent)[-1] == ("user", "hi")
    assert "Rhyme." not in str(sent)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/completions", {"prompt": "hi"}, id="openai"),
        pytest.param("/api/generate", {"prompt": "hi", "raw": True}, id="ollama raw"),
    ],
)
async def test_a_bare_prompt_gets_the_parameters_alone(
    host: ReadyHost, engine: ScriptedEngine, path: str, body: dict[str, Any]
) -> None:
    sent = await asked(host, engine, path, body)
    assert (sent["temperature"], sent["top_k"], sent["stop"]) == (0.25, 7, ["END"])
    assert sent["prompt"] == "hi"
    assert "Rhyme." not in str(sent)
