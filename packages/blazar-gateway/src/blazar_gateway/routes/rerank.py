"""``/v1/rerank`` in Jina's form, and ``/v2/rerank`` in Cohere's; both take either's requests."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.context import GATEWAY
from blazar_gateway.dialects.json_objects import JsonObject, name_in
from blazar_gateway.forms.openai import RERANK
from blazar_gateway.ids import new_id
from blazar_gateway.rerank_runs import Ranked, rank
from blazar_gateway.rows import get_card
from blazar_routing.errors import InvalidRequest

MAX_DOCUMENTS = 2048


async def jina(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/rerank`` (and ``/rerank``, ``/reranking``)."""
    body, results, ranked = await _serve(request)
    usage = {"prompt_tokens": ranked.prompt_tokens, "total_tokens": ranked.prompt_tokens}
    return json_answer({"model": body["model"], "object": "list", "usage": usage, "results": results})


async def cohere(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v2/rerank``."""
    _, results, ranked = await _serve(request)
    # A search unit is a query with up to a hundred documents.
    units = -(-len(ranked.scores) // 100)
    meta = {
        "api_version": {"version": "2"},
        "billed_units": {"search_units": units},
        "tokens": {"input_tokens": ranked.prompt_tokens},
    }
    return json_answer({"id": new_id("rerank"), "results": results, "meta": meta})


async def _serve(request: web.Request) -> tuple[JsonObject, list[dict[str, Any]], Ranked]:
    gateway = request.app[GATEWAY]
    raw = await read_body(request, limit_bytes=gateway.max_body_bytes)
    body = RERANK.parse(raw)
    name = name_in(body, "model", missing="model is missing: name the model to use (GET /v1/models lists them).")
    query = _query(body.get("query"))
    texts = _documents(body.get("documents"))
    top_n = _top_n(body.get("top_n"))
    with_documents = body.get("return_documents")
    if with_documents is not None and not isinstance(with_documents, bool):
        raise InvalidRequest("return_documents must be true or false.", param="return_documents")
    ranked = await rank(
        request, get_card(request, name), query, texts, keep_alive=body.get("keep_alive"), body_bytes=len(raw)
    )
    results: list[dict[str, Any]] = []
    for index, score in ranked.scores[:top_n]:
        result: dict[str, Any] = {"index": index, "relevance_score": score}
        results.append({**result, "document": {"text": texts[index]}} if with_documents else result)
    return body, results, ranked


def _query(value: object) -> str:
    text = _text(value)
    if not text:
        raise InvalidRequest("query is missing: it takes the text that documents are compared with.", param="query")
    return text


def _documents(value: object) -> list[str]:
    if not isinstance(value, list) or not value:
        raise InvalidRequest(
            "documents is empty: it takes a list of texts, or of objects with a `text`.", param="documents"
        )
    if len(value) > MAX_DOCUMENTS:
        raise InvalidRequest(f"documents has {len(value)} entries; {MAX_DOCUMENTS} are the most.", param="documents")
    texts: list[str] = []
    for index, item in enumerate(value):
        text = _text(item)
        if text is None:
            raise InvalidRequest(
                f"documents[{index}] must be a text, or an object with a `text`.", param=f"documents[{index}]"
            )
        texts.append(text)
    return texts


def _text(value: object) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("text")
    return value if isinstance(value, str) else None


def _top_n(value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise InvalidRequest("top_n must be a whole number of at least 1.", param="top_n")
    return value
