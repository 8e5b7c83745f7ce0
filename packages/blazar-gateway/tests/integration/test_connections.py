"""Connections that are no good: broken HTTP, heads and bodies that never end."""

import asyncio
import json

import pytest

from blazar_gateway import bodies, connections
from blazar_gateway.testing import RawClient, ReadyHost, fetch, serve

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"


async def answer_to(port: int, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes and return status, headers and body of what comes back before the connection is closed."""
    async with RawClient(port) as client:
        await client.send(data)
        answer = await client.answer()
        await client.closed()
        return answer.status, dict(answer.headers), answer.body


BROKEN = {
    "no HTTP at all": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 400, "malformed_http"),
    "a header without a colon": (b"GET / HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n", 400, "malformed_http"),
    "two lengths": (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        400,
        "malformed_http",
    ),
    "a long header": (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: %s\r\n\r\n" % (b"a" * 40_000),
        431,
        "headers_too_large",
    ),
    "a long line": (b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a" * 40_000), 431, "headers_too_large"),
    "many headers": (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(200)) + b"\r\n",
        431,
        "headers_too_large",
    ),
}


@pytest.mark.parametrize(("data", "status", "code"), BROKEN.values(), ids=BROKEN)
async def test_broken_http_is_told_in_our_own_words(
    host: ReadyHost, data: bytes, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="blazar.gateway.http")
    async with serve(host) as served:
        found, headers, body = await answer_to(served.port, data)
    error = json.loads(body)["error"]
    assert (found, headers["content-type"].split(";")[0]) == (status, "application/json")
    assert (error["code"], error["type"]) == (code, "invalid_request_error")
    assert error["message"].endswith(".")
    # What was sent may be part of a prompt.
    assert "nonsense" not in caplog.text + body.decode()
    assert "Traceback" not in caplog.text


async def test_long_headers_that_are_allowed_pass(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", PATH, CHAT, headers={"Cookie": "a" * 30_000})
    assert answer.status == 200


@pytest.mark.parametrize("begun", [b"POST /v1/chat/completions HTT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "])
async def test_a_head_that_never_ends_is_given_up(
    host: ReadyHost, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    async with serve(host) as served:
        status, headers, body = await answer_to(served.port, begun)
    assert (status, headers["connection"]) == (408, "close")
    assert json.loads(body)["error"]["code"] == "request_timeout"


async def test_trickling_does_not_prolong_a_head(host: ReadyHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    async with serve(host) as served, RawClient(served.port) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        reading = asyncio.ensure_future(client.answer())
        while not reading.done():
            await client.send(b"X-A: 1\r\n")
            await asyncio.sleep(0.01)
        assert (await reading).status == 408


async def test_a_connection_that_says_nothing_is_closed_without_a_word(
    host: ReadyHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    async with serve(host) as served, RawClient(served.port) as client:
        assert await client.closed() == b""


async def test_a_second_head_has_its_own_time(host: ReadyHost, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, CHAT)
        assert (await client.answer()).status == 200
        monkeypatch.setattr(connections, "HEAD_S", 0.2)
        await client.send(b"GET / HT")
        assert (await client.answer()).status == 408


async def test_answers_and_idle_connections_are_not_limited(host: ReadyHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, CHAT)
        assert (await client.answer()).status == 200
        # Longer than a head may take: between two requests a client may rest.
        await asyncio.sleep(0.5)
        await client.post(PATH, CHAT)
        assert (await client.answer()).status == 200


async def test_a_body_that_trickles_is_given_up(host: ReadyHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "IDLE_S", 0.2)
    async with serve(host) as served, RawClient(served.port) as client:
        await client.post(PATH, b"", headers={"Content-Length": "10000000"})
        reading = asyncio.ensure_future(client.answer())
        while not reading.done():
            await client.send(b" ")
            await asyncio.sleep(0.01)
        answer = await reading
    assert answer.status == 400
    assert "arrives too slowly" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"model":"\xff"}', "the request body is not UTF-8: its byte 10 is 0xff. "),
        (b'{"model":"caf\xe9"}', "the request body is not UTF-8: its byte 13 is 0xe9. "),
        (b'{"model":"m","x":"\\ud83e"}', "the request body holds half a character: "),
        (b'{"model":"m","x":"\\udd80"}', "the request body holds half a character: "),
    ],
)
@pytest.mark.parametrize("path", [PATH, "/v1/messages", "/api/chat", "/v1/responses", "/v1/embeddings"])
async def test_what_is_not_utf8_is_told_where(host: ReadyHost, path: str, body: bytes, text: str) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", path, body)
    assert answer.status == 400
    error = answer.json["error"]
    said = error if isinstance(error, str) else error["message"]
    assert said.startswith(text)
    assert "surrogates not allowed" not in said
