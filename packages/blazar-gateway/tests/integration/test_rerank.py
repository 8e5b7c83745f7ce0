"""Reranking, as Jina's and Cohere's clients ask for it."""

import json
from typing import Any

import pytest

from blazar_gateway.testing import Exchange, FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve

RERANKER = FixedCatalogue(card(capabilities=("rerank",)))
DOCUMENTS = ["a cat", {"text": "a dog"}, "rain"]
BODY = {"model": "m", "query": "cat", "documents": DOCUMENTS}


async def scores(exchange: Exchange) -> None:
    """Score as llama-server does, in no particular order."""
    documents: Any = exchange.json["documents"]
    given = {"a cat": 2.5, "a dog": -1, "rain": -1.0}
    results = [{"index": index, "relevance_score": given[text]} for index, text in enumerate(documents)]
    usage = {"prompt_tokens": 12, "total_tokens": 12}
    await exchange.answer(
        json.dumps({"model": "m", "object": "list", "usage": usage, "results": results[::-1]}).encode()
    )


@pytest.fixture
def ranks(engine: ScriptedEngine) -> ScriptedEngine:
    engine.script = scores
    return engine


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v1/reranking", "/reranking"])
async def test_jinas_form(host: ReadyHost, ranks: ScriptedEngine, path: str) -> None:
    async with serve(host, catalogue=RERANKER) as served:
        answer = await fetch(served.port, "POST", path, BODY)
    assert answer.status == 200
    assert answer.json == {
        "model": "m",
        "object": "list",
        "usage": {"prompt_tokens": 12, "total_tokens": 12},
        "results": [
            {"index": 0, "relevance_score": 2.5},
            {"index": 1, "relevance_score": -1.0},
            {"index": 2, "relevance_score": -1.0},
        ],
    }
    assert ranks.exchanges[0].json == {"model": "m", "query": "cat", "documents": ["a cat", "a dog", "rain"]}
    assert (host.tickets[0].model, host.tickets[0].slots) == ("m", 3)


async def test_coheres_form(host: ReadyHost, ranks: ScriptedEngine) -> None:
    async with serve(host, catalogue=RERANKER) as served:
        answer = (await fetch(served.port, "POST", "/v2/rerank", {**BODY, "top_n": 1})).json
    assert answer["results"] == [{"index": 0, "relevance_score": 2.5}]
    assert answer["id"].startswith("rerank_")
    assert answer["meta"]["api_version"] == {"version": "2"}
    assert answer["meta"]["billed_units"] == {"search_units": 1}
    assert len(ranks.exchanges) == 1


async def test_documents_come_back_when_asked_for_and_the_rest_is_cut(host: ReadyHost, ranks: ScriptedEngine) -> None:
    async with serve(host, catalogue=RERANKER) as served:
        body = {**BODY, "top_n": 2, "return_documents": True, "query": {"text": "cat"}}
        answer = (await fetch(served.port, "POST", "/v1/rerank", body)).json
        many = (await fetch(served.port, "POST", "/v1/rerank", {**BODY, "top_n": 99})).json
    assert [result["document"] for result in answer["results"]] == [{"text": "a cat"}, {"text": "a dog"}]
    assert len(many["results"]) == 3
    assert ranks.exchanges[0].json["query"] == "cat"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"model": None}, "model"),
        ({"query": None}, "query"),
        ({"query": ""}, "query"),
        ({"query": 5}, "query"),
        ({"documents": None}, "documents"),
        ({"documents": []}, "documents"),
        ({"documents": "a"}, "documents"),
        ({"documents": ["a", 5]}, "documents[1]"),
        ({"documents": [{"title": "a"}]}, "documents[0]"),
        ({"documents": ["a"] * 2049}, "documents"),
        ({"top_n": 0}, "top_n"),
        ({"top_n": "3"}, "top_n"),
        ({"top_n": True}, "top_n"),
        ({"return_documents": "yes"}, "return_documents"),
    ],
)
async def test_odd_requests_name_the_field(
    host: ReadyHost, engine: ScriptedEngine, changes: dict[str, Any], param: str
) -> None:
    async with serve(host, catalogue=RERANKER) as served:
        answer = await fetch(served.port, "POST", "/v1/rerank", {**BODY, **changes})
    assert answer.status == 400
    assert answer.json["error"]["param"] == param
    assert engine.exchanges == []


@pytest.mark.parametrize(
    "results",
    [
        None,
        [],
        [{"index": 0, "relevance_score": 1.0}],
        [{"index": 0, "score": 1.0}, {"index": 1, "score": 1.0}, {"index": 2, "score": 1.0}],
    ],
)
async def test_an_engine_that_does_not_score_each_document_is_not_passed_on(
    host: ReadyHost, engine: ScriptedEngine, results: object
) -> None:
    async def odd(exchange: Exchange) -> None:
        await exchange.answer(json.dumps({"results": results}).encode())

    engine.script = odd
    async with serve(host, catalogue=RERANKER) as served:
        answer = await fetch(served.port, "POST", "/v1/rerank", BODY)
    assert answer.status == 502
    assert "does not score each document once" in answer.json["error"]["message"]


async def test_a_pair_that_is_too_long_is_the_clients_matter(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def refuses(exchange: Exchange) -> None:
        text = "input (701 tokens) is too large to process. increase the physical batch size (current batch size: 512)"
        error = {"code": 500, "message": text, "type": "server_error"}
        await exchange.answer(json.dumps({"error": error}).encode(), status=500)

    engine.script = refuses
    async with serve(host, catalogue=RERANKER) as served:
        answer = await fetch(served.port, "POST", "/v1/rerank", BODY)
    assert answer.status == 400
    assert answer.json["error"]["type"] == "invalid_request_error"
