"""HTTP as clients really write it, and what of it reaches the child."""

import asyncio
import gzip
import json
import logging
import random
import string
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from blazar_gateway import bodies
from blazar_gateway.testing import Exchange, RawClient, ReadyHost, ScriptedEngine, chat_stream, fetch, serve

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
BODY = json.dumps(CHAT).encode()
PATH = "/v1/chat/completions"


async def test_clients_headers_do_not_reach_the_child(host: ReadyHost, engine: ScriptedEngine) -> None:
    headers = {
        "Authorization": "Bearer client-secret",
        "X-Api-Key": "client-secret",
        "X-Conversation-Id": "c",
        "Cookie": "a=b",
        "Connection": "keep-alive, x-hop",
        "X-Hop": "1",
        "TE": "trailers",
        "Accept-Encoding": "gzip, br",
        "X-Forwarded-For": "10.0.0.1",
        "Origin": "http://localhost:3000",
    }
    async with serve(host) as served:
        assert (await fetch(served.port, "POST", PATH, CHAT, headers=headers)).status == 200
    seen = engine.exchanges[0].headers
    assert set(seen) == {
        "host",
        "accept",
        "accept-encoding",
        "authorization",
        "content-type",
        "content-length",
        "user-agent",
    }
    assert seen["authorization"] == "Bearer child-secret"
    assert seen["accept-encoding"] == "identity"
    assert b"client-secret" not in engine.exchanges[0].raw_head


async def test_chunked_body(host: ReadyHost, engine: ScriptedEngine) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:9], BODY[9:])) + b"0\r\n\r\n"
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, chunks, headers={"Transfer-Encoding": "chunked"})
        assert (await client.answer()).status == 200
    assert engine.exchanges[0].json["messages"] == CHAT["messages"]
    assert "transfer-encoding" not in engine.exchanges[0].headers


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
async def test_packed_body(
    host: ReadyHost, engine: ScriptedEngine, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", PATH, pack(BODY), headers={"Content-Encoding": encoding})
    assert answer.status == 200
    assert "content-encoding" not in engine.exchanges[0].headers
    assert engine.exchanges[0].json["messages"] == CHAT["messages"]


async def test_packed_body_that_is_large_is_unpacked_in_a_thread(host: ReadyHost) -> None:
    noise = "".join(random.Random(1).choices(string.ascii_letters, k=200_000))
    body = gzip.compress(json.dumps({"model": "m", "messages": [{"role": "user", "content": noise}]}).encode())
    assert len(body) > 64 << 10
    async with serve(host) as served:
        assert (await fetch(served.port, "POST", PATH, body, headers={"Content-Encoding": "gzip"})).status == 200


async def test_bomb_is_refused_by_what_it_expands_to(host: ReadyHost) -> None:
    bomb = gzip.compress(b" " * (4 << 20))
    async with serve(host, max_body_bytes=1 << 20) as served:
        answer = await fetch(served.port, "POST", PATH, bomb, headers={"Content-Encoding": "gzip"})
    assert answer.status == 413
    assert not host.tickets


@pytest.mark.parametrize(
    ("headers", "text"),
    [({"Content-Encoding": "br"}, "'br' is not supported"), ({"Content-Encoding": "gzip"}, "not valid gzip")],
)
async def test_odd_encoding_is_a_bad_request(host: ReadyHost, headers: dict[str, str], text: str) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", PATH, BODY, headers=headers)
    assert answer.status == 400
    assert text in answer.json["error"]["message"]


async def test_expect_is_answered_before_the_body_is_sent(host: ReadyHost) -> None:
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, b"", headers={"Expect": "100-continue", "Content-Length": str(len(BODY))})
        assert (await client.answer()).status == 100
        await client.send(BODY)
        answer = await client.answer()
    assert (answer.status, answer.whole) == (200, True)
    assert answer.headers["x-request-id"]


async def test_too_large_a_body_is_refused_before_it_is_sent(host: ReadyHost) -> None:
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, b"", headers={"Expect": "100-continue", "Content-Length": str((50 << 20) + 1)})
        answer = await client.answer()
    assert answer.status == 413
    assert "50 MiB" in answer.json["error"]["message"]
    assert answer.json["error"]["code"] == "body_too_large"


async def test_limit_counts_what_arrives_without_a_length(host: ReadyHost) -> None:
    async with serve(host, max_body_bytes=1000) as served, RawClient(served.port) as client:
        await client.post(PATH, b"800\r\n" + b"x" * 0x800 + b"\r\n", headers={"Transfer-Encoding": "chunked"})
        assert (await client.answer()).status == 413


async def test_body_at_the_limit_passes(host: ReadyHost) -> None:
    async with serve(host, max_body_bytes=len(BODY)) as served:
        assert (await fetch(served.port, "POST", PATH, BODY)).status == 200
        assert (await fetch(served.port, "POST", PATH, BODY + b" ")).status == 413


async def test_large_body_passes_whole(host: ReadyHost, engine: ScriptedEngine) -> None:
    text = "word " * 400_000
    async with serve(host) as served:
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        assert (await fetch(served.port, "POST", PATH, body)).status == 200
    assert engine.exchanges[0].json["messages"] == body["messages"]


async def test_body_in_drops_passes(host: ReadyHost) -> None:
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, b"", headers={"Content-Length": str(len(BODY))})
        for at in range(len(BODY)):
            await client.send(BODY[at : at + 1])
            await asyncio.sleep(0)
        assert (await client.answer()).status == 200


async def test_body_that_stops_arriving_is_given_up(host: ReadyHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "IDLE_S", 0.05)
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, BODY[:20], headers={"Content-Length": str(len(BODY))})
        answer = await client.answer()
    assert answer.status == 400
    assert "20 bytes came" in answer.json["error"]["message"]


async def test_more_bytes_than_announced_are_broken_http_and_stay_out_of_the_log(
    host: ReadyHost, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, BODY + b" my secret\r\n\r\n", headers={"Content-Length": str(len(BODY))})
        assert b" 400 " in (await client.closed()).split(b"\r\n")[0]
    assert "broken HTTP" in caplog.text
    assert "my secret" not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["length", "both framings", "chunk size"],
)
async def test_broken_framing_is_answered_and_closed(host: ReadyHost, raw: bytes) -> None:
    async with serve(host) as served, RawClient(served.port) as client:
        await client.send(raw)
        assert b" 400 " in (await client.closed()).split(b"\r\n")[0]
    assert not host.tickets


async def test_requests_on_one_connection_do_not_mix(host: ReadyHost) -> None:
    async with serve(host) as served, RawClient(served.port) as client:
        for _ in range(3):
            await client.post(PATH, BODY)
            await client.post(PATH, b"{")
        statuses = [(await client.answer()).status for _ in range(6)]
    assert statuses == [200, 400] * 3


async def test_http_1_0_client_gets_its_stream_until_the_close(host: ReadyHost) -> None:
    body = json.dumps({**CHAT, "stream": True}).encode()
    async with serve(host) as served, RawClient(served.port) as client:
        await client.send(b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (PATH.encode(), len(body), body))
        answer = await client.closed()
    assert answer.startswith(b"HTTP/1.0 200")
    assert b"chunked" not in answer
    assert answer.endswith(b"data: [DONE]\n\n")


async def test_content_type_does_not_matter(host: ReadyHost) -> None:
    async with serve(host) as served:
        for kind in (
            "application/x-www-form-urlencoded",
            "text/plain; charset=latin-1",
            "application/json; charset=utf-8",
        ):
            assert (await fetch(served.port, "POST", PATH, BODY, headers={"Content-Type": kind})).status == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"\xff", b'{"model":7}', b"{" * 2000])
async def test_no_body_is_answered_with_a_500(host: ReadyHost, body: bytes) -> None:
    async with serve(host) as served:
        for path in (PATH, "/v1/completions", "/api/stop"):
            answer = await fetch(served.port, "POST", path, body)
            assert answer.status == 400
            assert answer.json["error"]


async def test_pooled_connection_that_the_engine_has_just_closed_is_replaced(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    async def closes_as_the_next_request_comes(exchange: Exchange) -> None:
        exchange.hang_up()

    well = engine.script
    engine.scripts = [well, closes_as_the_next_request_comes]
    async with serve(host) as served:
        statuses = [(await fetch(served.port, "POST", PATH, BODY)).status for _ in range(2)]
    assert statuses == [200, 200]
    assert len(engine.exchanges) == 3
    assert engine.connections == 2


async def test_fresh_connection_that_breaks_is_not_tried_again(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def closes(exchange: Exchange) -> None:
        exchange.hang_up()

    engine.script = closes
    async with serve(host) as served:
        assert (await fetch(served.port, "POST", PATH, BODY)).status == 502
    assert len(engine.exchanges) == 1


async def test_answer_that_has_begun_is_never_asked_for_again(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def breaks_in_its_head(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
        exchange.hang_up()

    well = engine.script
    engine.scripts = [well, breaks_in_its_head]
    async with serve(host) as served:
        statuses = [(await fetch(served.port, "POST", PATH, BODY)).status for _ in range(2)]
    assert statuses == [200, 502]
    assert len(engine.exchanges) == 2


async def test_engine_on_a_unix_socket(tmp_path: Path) -> None:
    async def answers(exchange: Exchange) -> None:
        await exchange.stream(chat_stream(["over ", "a socket"]))

    async with ScriptedEngine(answers, socket_path=tmp_path / "m.sock") as engine, serve(ReadyHost(engine)) as served:
        for _ in range(3):
            answer = await fetch(served.port, "POST", PATH, BODY)
            assert answer.json["choices"][0]["message"]["content"] == "over a socket"
        assert engine.connections == 1
        await engine.stop()
        assert (await fetch(served.port, "POST", PATH, BODY)).status == 502
