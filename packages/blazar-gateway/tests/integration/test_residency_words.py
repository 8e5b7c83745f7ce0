"""What every route says of a model's coming and staying: keep_alive on the way in, progress on the way out."""

from typing import Any

import pytest

from blazar_gateway.testing import (
    LoadingHost,
    PlainSettings,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    fetch,
    serve,
    until,
)
from blazar_gateway.testing.neighbours import FixedCatalogue, Progress, card
from blazar_gateway.testing.residents import FakeResident

MESSAGES = [{"role": "user", "content": "hi"}]
GENERATING = [
    pytest.param("/v1/chat/completions", {"messages": MESSAGES}, id="chat"),
    pytest.param("/chat/completions", {"messages": MESSAGES}, id="chat-without-v1"),
    pytest.param("/v1/completions", {"prompt": "hi"}, id="completions"),
    pytest.param("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}, id="messages"),
    pytest.param("/v1/responses", {"input": "hi"}, id="responses"),
    pytest.param("/api/chat", {"messages": MESSAGES, "stream": False}, id="ollama-chat"),
    pytest.param("/api/generate", {"prompt": "hi", "stream": False}, id="ollama-generate"),
]
VECTORS = [
    pytest.param("/v1/embeddings", {"input": "a"}, id="embeddings"),
    pytest.param("/api/embed", {"input": "a"}, id="ollama-embed"),
    pytest.param("/api/embeddings", {"prompt": "a"}, id="ollama-embeddings"),
    pytest.param("/v1/rerank", {"query": "a", "documents": ["b"]}, id="rerank"),
]


@pytest.mark.parametrize(("given", "kept"), [("1h30m", 5400.0), (-1, None), (0, 0.0)])
@pytest.mark.parametrize(("path", "body"), GENERATING)
async def test_every_generating_route_takes_keep_alive(
    host: ReadyHost, path: str, body: dict[str, Any], given: object, kept: float | None
) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", "keep_alive": given, **body})
    assert answer.status == 200
    assert host.kept == [("m", kept)]


@pytest.mark.parametrize(("path", "body"), VECTORS)
async def test_every_route_for_vectors_takes_keep_alive(host: ReadyHost, path: str, body: dict[str, Any]) -> None:
    catalogue = FixedCatalogue(card(capabilities=("rerank" if "rerank" in path else "embedding",)))
    async with serve(host, catalogue=catalogue) as served:
        # What the engine of this test answers is no vector; the wish stands by then.
        await fetch(served.port, "POST", path, {"model": "m", "keep_alive": 90, **body})
    assert host.kept == [("m", 90.0)]


@pytest.mark.parametrize(("path", "body"), [*GENERATING, *VECTORS])
async def test_nonsense_is_a_400_that_shows_the_forms_and_loads_nothing(
    host: ReadyHost, path: str, body: dict[str, Any]
) -> None:
    kinds = {"rerank": ("rerank",), "embed": ("embedding",)}
    capabilities = next((kind for word, kind in kinds.items() if word in path), ("completion",))
    async with serve(host, catalogue=FixedCatalogue(card(capabilities=capabilities))) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", "keep_alive": "soon", **body})
    assert answer.status == 400
    assert b"It takes a number of seconds (300), a duration" in answer.body
    assert not host.tickets


STREAMS = [
    pytest.param("/v1/chat/completions", {"messages": MESSAGES}, b": loading 42 %\n\n", id="chat"),
    pytest.param("/v1/completions", {"prompt": "hi"}, b": loading 42 %\n\n", id="completions"),
    pytest.param("/v1/responses", {"input": "hi"}, b": loading 42 %\n\n", id="responses"),
    # Anthropic's streams have pings of their own, which say nothing; the comment goes with them.
    pytest.param(
        "/v1/messages",
        {"messages": MESSAGES, "max_tokens": 9},
        b': loading 42 %\n\nevent: ping\ndata: {"type":"ping"}\n\n',
        id="messages",
    ),
]


@pytest.mark.parametrize(("path", "body", "sign"), STREAMS)
async def test_every_event_stream_shows_that_it_waits_for_a_load(
    engine: ScriptedEngine, path: str, body: dict[str, Any], sign: bytes
) -> None:
    host = LoadingHost(engine, progress=Progress(fraction=0.42))
    impatient = PlainSettings(stream_ping_secs=0.02)
    async with serve(host, settings=impatient) as served, RawClient(served.port) as client:
        await client.post(path, {"model": "m", "stream": True, **body})
        await client.read_until(sign)
        host.loaded.set()
        await client.read_until(b"0\r\n\r\n")


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_lines_of_json_have_no_comments(engine: ScriptedEngine, path: str) -> None:
    host = LoadingHost(engine, progress=Progress(fraction=0.42))
    impatient = PlainSettings(stream_ping_secs=0.02)
    async with serve(host, settings=impatient) as served, RawClient(served.port) as client:
        await client.post(path, {"model": "m", "messages": MESSAGES, "prompt": "hi", "stream": True})
        await until(lambda: host.waiters)
        host.loaded.set()
        answer = await client.answer()
    assert all(line.startswith(b"{") for line in answer.body.splitlines())


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        pytest.param("/v1/models", lambda answer: answer["data"][0], id="models"),
        pytest.param("/v1/models/m", lambda answer: answer, id="model"),
        pytest.param("/api/ps", lambda answer: answer["models"][0], id="ps"),
    ],
)
@pytest.mark.parametrize(
    ("state", "fraction"), [("starting", 0.42), ("starting", None), ("ready", None), ("sleeping", None)]
)
async def test_listings_show_the_state_and_how_much_of_a_load_is_done(
    host: ReadyHost, path: str, entry: Any, state: str, fraction: float | None
) -> None:
    host.resident = [FakeResident(state=state, load_fraction=fraction)]
    async with serve(host) as served:
        found = entry((await fetch(served.port, "GET", path)).json)
    assert (found["state"], found["load_fraction"]) == (state, fraction)
