"""Cases that users of other servers ran into, by their number in the collection of field cases."""

import asyncio
import json
import logging
from functools import partial
from typing import Any

import pytest

from blazar_gateway.access.keyring import Key
from blazar_gateway.testing import (
    Exchange,
    FixedCatalogue,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    card,
    chat_frame,
    chat_stream,
    done_frame,
    fetch,
    serve,
    until,
)
from blazar_gateway.testing.registry import MemoryRegistry
from blazar_store.key_secrets import hash_secret

PATH = "/v1/chat/completions"
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**CHAT, "stream": True}


def key(name: str, **fields: Any) -> Key:
    return Key(name=name, hash=hash_secret(f"{name}-secret"), **fields)


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-secret"}


@pytest.mark.parametrize("way", ["FIN", "RST", "stops reading"])
async def test_bc_23_client_gone_during_generation(
    host: ReadyHost, engine: ScriptedEngine, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def three_then_silence(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"role": "assistant", "content": None}))
        for _ in range(3):
            await exchange.chunk(chat_frame({"content": "word"}))
        await exchange.client_left.wait()

    engine.script = three_then_silence
    caplog.set_level(logging.DEBUG)
    async with serve(host, keys=[key("a")]) as served:
        async with RawClient(served.port) as client:
            await client.post(PATH, STREAM, headers=bearer("a"))
            for _ in range(3):
                await client.read_until(b'"word"')
            if way == "RST":
                client.reset()
            elif way == "FIN":
                client.close()
            # A proxy that reads no more ends its connection at last, unread data and all.
        exchange = await engine.arrived(1)
        async with asyncio.timeout(30):
            await exchange.client_left.wait()
        await served.at_rest()
        total = served.gateway.admission.ledger.totals["a", "m"]
        assert (total.requests, total.completion_tokens) == (1, 3), "what was generated is counted"
    assert not any(record.exc_info for record in caplog.records if record.name.startswith("blazar"))


async def follow_up(port: int) -> int:
    """Ask again until it is no longer refused for one that left and has not been noticed yet; return the status."""
    async with asyncio.timeout(30):
        for _ in range(100_000):
            answer = await fetch(port, "POST", PATH, CHAT, headers=bearer("a"))
            if answer.status != 429:
                return answer.status
    raise AssertionError("the place never came back")


async def test_bc_26_place_and_quota_come_back_on_every_exit(host: ReadyHost, engine: ScriptedEngine) -> None:
    turn = 0

    async def one_way_or_another(exchange: Exchange) -> None:
        match turn % 4:
            case 0:
                await exchange.stream(chat_stream(["a"]))
            case 1:
                await exchange.begin_stream()
                await exchange.chunk(chat_frame({"content": "a"}))
                await exchange.client_left.wait()
            case 2:
                await exchange.answer(b'{"error":{"message":"no","code":500}}', status=500)
            case _:
                exchange.die()

    engine.script = one_way_or_another
    async with serve(host, keys=[key("a", max_concurrent=1)]) as served:
        for turn in range(120):
            seen = len(engine.exchanges)
            async with RawClient(served.port) as client:
                await client.post(PATH, STREAM if turn % 8 < 4 else CHAT, headers=bearer("a"))
                if turn % 4 == 1:
                    await engine.arrived(seen + 1)
                    client.reset()
                else:
                    await client.answer()
            # At once another one, which is well.
            turn = 0
            assert await follow_up(served.port) == 200
        await served.at_rest()


ORIGINS = {
    "http://localhost:3000": True,
    "http://127.0.0.1": True,
    "https://chat.example": False,
    "chrome-extension://abc": False,
    "app://obsidian.md": False,
    "null": False,
}


@pytest.mark.parametrize(("origin", "allowed"), ORIGINS.items())
async def test_bc_39_browser_preflight(host: ReadyHost, origin: str, allowed: bool) -> None:
    wanted = "authorization, content-type, x-stainless-os, baggage, dangerously-allow-browser"
    preflight = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": wanted,
    }
    async with serve(host, keys=[key("a")]) as served:
        asked = await fetch(served.port, "OPTIONS", PATH, headers=preflight)
        unauthorised = await fetch(served.port, "POST", PATH, CHAT, headers={"Origin": origin})
        malformed = await fetch(served.port, "POST", PATH, b"{", headers={"Origin": origin, **bearer("a")})
        answered = await fetch(served.port, "POST", PATH, CHAT, headers={"Origin": origin, **bearer("a")})
    answers = (asked, unauthorised, malformed, answered)
    assert [answer.status for answer in answers] == ([204, 401, 400, 200] if allowed else [403] * 4)
    for answer in answers:
        assert answer.headers["vary"] == "Origin"
        assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
    if allowed:
        assert asked.headers["access-control-allow-headers"] == wanted


PROBES = {"/": 200, "/api/version": 200, "/api/tags": 200, "/v1/models": 200, "/health": 200, "/healthz": 200}
FREE = ("/health", "/healthz")


@pytest.mark.parametrize("spelling", ["{}", "{}/", "/{}", "//{}//"])
@pytest.mark.parametrize("path", PROBES)
async def test_bc_40_probe_endpoints(host: ReadyHost, engine: ScriptedEngine, path: str, spelling: str) -> None:
    odd = spelling.format(path)
    for keys in ([], [key("a")]):
        async with serve(host, keys=keys) as served:
            got = await fetch(served.port, "GET", odd)
            head = await fetch(served.port, "HEAD", odd)
            status = 401 if keys and path not in FREE else 200
            assert (got.status, head.status) == (status, status)
            assert head.headers["content-length"] == str(len(got.body))
            assert "content-encoding" not in got.headers
            if status == 401:
                assert (await fetch(served.port, "GET", odd, headers=bearer("a"))).status == 200
            elif path == "/":
                assert got.body == b"Ollama is running"
    assert not host.tickets, "nothing is loaded for a probe"
    assert not host.kept, "and no idle timer is touched"
    assert not engine.exchanges


async def test_bc_42_names_with_slashes_colons_and_percent_signs(host: ReadyHost) -> None:
    names = ("org/model:Q4_K_M", "50% mixed Case", "größe", "plain")
    encoded = {
        "org/model:Q4_K_M": ("org/model:Q4_K_M", "org%2Fmodel%3AQ4_K_M", "org%2fmodel:Q4_K_M"),
        "50% mixed Case": ("50%25%20mixed%20Case",),
        "größe": ("gr%C3%B6%C3%9Fe",),
        "plain": ("plain", "plain:latest"),
    }
    registry = MemoryRegistry()
    async with serve(host, catalogue=FixedCatalogue(*map(card, names)), registry=registry) as served:
        for name, spellings in encoded.items():
            assert (await fetch(served.port, "POST", PATH, {**CHAT, "model": name})).status == 200
            for spelling in spellings:
                for path in (f"/v1/models/{spelling}", f"/v1//models/{spelling}"):
                    found = await fetch(served.port, "GET", path)
                    assert (found.status, found.json["id"]) == (200, name), path
        for missing in ("..", "../../etc/passwd", "m#2", "m@vision", "x" * 300, " plain", "PLAINER"):
            asked = await fetch(served.port, "POST", PATH, {**CHAT, "model": missing})
            assert asked.status == 404
            assert f"'{missing[:300]}'" in asked.json["error"]["message"], "a miss is returned as it was written"
        gone = await fetch(served.port, "DELETE", "/api/delete", {"model": "org/model:Q4_K_M"})
        assert gone.status == 200
        assert registry.deleted == ["org/model:Q4_K_M"], "that row, and no other"


MANAGING: list[tuple[str, str, Any]] = [
    ("POST", "/api/pull", {"model": "http://169.254.169.254/latest"}),
    ("POST", "/api/pull", {"model": "file:///etc/passwd"}),
    ("DELETE", "/api/delete", {"model": "m"}),
    ("POST", "/api/create", {"model": "n", "from": "m"}),
    ("POST", "/api/copy", {"source": "m", "destination": "n"}),
    ("POST", "/api/keys", {"name": "n"}),
]


@pytest.mark.parametrize(("method", "path", "body"), MANAGING)
async def test_bc_58_pull_as_a_way_in(host: ReadyHost, method: str, path: str, body: Any) -> None:
    registry = MemoryRegistry()
    async with serve(host, registry=registry, keys=[key("scoped", models=("m",)), key("boss")]) as served:
        refused = await fetch(served.port, method, path, body, headers=bearer("scoped"))
        assert refused.status == 403
        assert "for the owner of this server" in json.dumps(refused.json)
        assert (await fetch(served.port, method, path, body)).status == 401
    async with serve(host, registry=registry) as served:
        # Rebinding: a page's own name that points to this machine.
        rebound = await fetch(served.port, method, path, body, headers={"Host": "evil.example"})
        assert rebound.status == 403
        assert "evil.example" in json.dumps(rebound.json)
    assert not registry.deleted


async def test_bc_60_no_stream_starves(host: ReadyHost, engine: ScriptedEngine) -> None:
    clients, rounds = 50, 20
    taken = [0] * clients
    arrived = 0

    def everybody_has(chunks: int) -> bool:
        return min(taken) >= chunks

    async def in_step(exchange: Exchange) -> None:
        """Send a chunk only when every client has the one before: one that starved would stop them all."""
        nonlocal arrived
        arrived += 1
        await until(lambda: arrived == clients)
        await exchange.begin_stream()
        for number in range(rounds):
            await exchange.chunk(chat_frame({"content": f"word{number}"}))
            await until(partial(everybody_has, number + 1))
        await exchange.chunk(chat_frame({}, finish="stop"))
        await exchange.chunk(done_frame())
        await exchange.end_stream()

    async def read(number: int, port: int) -> None:
        async with RawClient(port) as client:
            await client.post(PATH, STREAM)
            for step in range(rounds):
                await client.read_until(f'"word{step}"'.encode())
                taken[number] += 1
            await client.read_until(b"[DONE]")

    engine.script = in_step
    async with serve(host) as served:
        await asyncio.gather(*(read(number, served.port) for number in range(clients)))
    assert taken == [rounds] * clients
