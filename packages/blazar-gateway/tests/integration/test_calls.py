"""Tokens and templates, with a model named or not."""

import pytest

from blazar_gateway.testing import FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve
from blazar_routing.ticket import Ticket


class Loaded:
    """Just enough of a resident."""

    def __init__(self, model: str) -> None:
        self.model = model


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize", "/apply-template"])
async def test_call_is_relayed_without_taking_a_slot(host: ReadyHost, engine: ScriptedEngine, path: str) -> None:
    body = {"model": "m", "content": "hello", "tokens": [1], "messages": [{"role": "user", "content": "x"}]}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", path, body)
    assert answer.status == 200
    assert engine.exchanges[0].path == path
    assert engine.exchanges[0].json == body
    assert host.tickets == [Ticket(model="m", slots=0)]
    assert answer.headers["x-blazar-queue-ms"] == "0"


async def test_only_model_there_is_needs_no_name(host: ReadyHost) -> None:
    async with serve(host) as served:
        assert (await fetch(served.port, "POST", "/tokenize", {"content": "x"})).body == b'{"tokens":[28120,905]}'
    assert host.tickets[0].model == "m"


async def test_loaded_model_is_meant_where_several_could_be(host: ReadyHost) -> None:
    host.resident = [Loaded("b"), Loaded("b")]  # type: ignore[list-item]  # only the name is looked at
    async with serve(host, catalogue=FixedCatalogue(card("a"), card("b"))) as served:
        assert (await fetch(served.port, "POST", "/tokenize", {"content": "x"})).status == 200
    assert host.tickets[0].model == "b"


async def test_several_models_have_to_be_told_apart(host: ReadyHost) -> None:
    async with serve(host, catalogue=FixedCatalogue(card("a"), card("b"))) as served:
        answer = await fetch(served.port, "POST", "/tokenize", {"content": "x"})
    assert answer.status == 400
    assert "'a', 'b'" in answer.json["error"]["message"]
    assert answer.json["error"]["param"] == "model"


async def test_no_model_at_all_says_how_to_add_one(host: ReadyHost) -> None:
    async with serve(host, catalogue=FixedCatalogue()) as served:
        answer = await fetch(served.port, "POST", "/tokenize", {"content": "x"})
    assert "blazar models add" in answer.json["error"]["message"]


@pytest.mark.parametrize(("model", "status"), [("x", 404), (7, 400), ("", 400)])
async def test_odd_names_are_refused(host: ReadyHost, model: object, status: int) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/tokenize", {"model": model, "content": "x"})
    assert answer.status == status
