"""Small bodies reach the engine whole, without a task of their own; large ones too, with one."""

import aiohttp
import pytest

from blazar_gateway.children import Children
from blazar_gateway.quick_sends import SMALL_BYTES, QuickRequest, request_class
from blazar_gateway.testing import Exchange, ReadyHost, ScriptedEngine
from blazar_routing.ticket import Ticket


def test_another_aiohttp_is_left_alone() -> None:
    assert request_class("3.15.0") is aiohttp.ClientRequest
    # Otherwise: aiohttp is another one, and every call to an engine has become dearer.
    assert request_class() is QuickRequest


async def echo(exchange: Exchange) -> None:
    await exchange.answer(exchange.body)


@pytest.mark.parametrize("size", [1, SMALL_BYTES, SMALL_BYTES + 1, 3 << 20], ids=["tiny", "small", "medium", "large"])
async def test_bodies_arrive_whole_on_a_kept_connection(engine: ScriptedEngine, size: int) -> None:
    engine.script = echo
    lease = await ReadyHost(engine).lend("m", Ticket("m"))
    children = Children()
    try:
        for letter in (b"a", b"b"):
            answer = await children.post(lease, "/tokenize?x=1", letter * size)
            assert await answer.content.read() == letter * size
    finally:
        await children.close()
    for exchange in engine.exchanges:
        assert (exchange.method, exchange.path) == ("POST", "/tokenize?x=1")
        assert exchange.headers["content-length"] == str(size)
        assert exchange.headers["content-type"] == "application/json"


async def test_small_body_needs_no_task(engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def other_way(*_: object) -> aiohttp.ClientResponse:
        raise AssertionError("aiohttp was asked to send it")

    monkeypatch.setattr(aiohttp.ClientRequest, "send", other_way)
    engine.script = echo
    lease = await ReadyHost(engine).lend("m", Ticket("m"))
    children = Children()
    try:
        answer = await children.post(lease, "/tokenize", b"{}")
        assert await answer.content.read() == b"{}"
    finally:
        await children.close()
