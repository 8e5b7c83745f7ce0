"""Ollama's ``/api/embed`` and the older ``/api/embeddings``."""

import time

from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.context import GATEWAY
from blazar_gateway.dialects.json_objects import JsonObject, name_in
from blazar_gateway.domains import check_embeds
from blazar_gateway.embedding_runs import check_no_late_chunking, load_for_vectors
from blazar_gateway.embedding_runs import embed as embed_inputs
from blazar_gateway.forms.ollama import EMBED, EMBEDDING
from blazar_gateway.ports import ModelCard
from blazar_gateway.rows import get_card
from blazar_gateway.vectors import normalised
from blazar_routing.errors import InvalidRequest


async def embed(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/embed``: one vector for each input, of length 1."""
    began_ns = time.monotonic_ns()
    gateway = request.app[GATEWAY]
    raw = await read_body(request, limit_bytes=gateway.max_body_bytes)
    body = EMBED.parse(raw)
    check_no_late_chunking(body)
    card = _card(request, body)
    inputs = _inputs(body.get("input"))
    truncate = body.get("truncate")
    if truncate is not None and not isinstance(truncate, bool):
        raise InvalidRequest("truncate must be true or false.", param="truncate")
    dimensions = body.get("dimensions")
    if dimensions is not None and type(dimensions) is not int:
        raise InvalidRequest("dimensions must be a whole number.", param="dimensions")
    answer: dict[str, object] = {"model": body.get("model") or body.get("name"), "embeddings": []}
    load_ns, tokens = 0, 0
    if inputs:
        found = await embed_inputs(
            request,
            card,
            inputs,
            dimensions=dimensions,
            keep_alive=body.get("keep_alive"),
            body_bytes=len(raw),
            # Ollama cuts where nobody says anything; here only who asks for it gets half a text's vector.
            truncate=truncate is True,
        )
        answer["embeddings"] = [normalised(vector) for vector in found.vectors]
        load_ns, tokens = round(found.lease.load_s * 1e9), found.prompt_tokens
    elif body.get("input") == []:
        check_embeds(card)
    else:
        lease = await load_for_vectors(request, card, keep_alive=body.get("keep_alive"))
        load_ns = round(lease.load_s * 1e9)
    answer.update(total_duration=time.monotonic_ns() - began_ns, load_duration=load_ns, prompt_eval_count=tokens)
    return json_answer(answer)


async def embedding(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/embeddings``: a single vector."""
    gateway = request.app[GATEWAY]
    raw = await read_body(request, limit_bytes=gateway.max_body_bytes)
    body = EMBEDDING.parse(raw)
    card = _card(request, body)
    prompt = body.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise InvalidRequest("prompt must be a string.", param="prompt")
    if not prompt:
        await load_for_vectors(request, card, keep_alive=body.get("keep_alive"))
        return json_answer({"embedding": []})
    found = await embed_inputs(
        request, card, [prompt], dimensions=None, keep_alive=body.get("keep_alive"), body_bytes=len(raw)
    )
    return json_answer({"embedding": found.vectors[0]})


def _card(request: web.Request, body: JsonObject) -> ModelCard:
    return get_card(request, name_in(body, "model", "name", missing="model is required"))


def _inputs(value: object) -> list[object]:
    """Return the texts to embed; nothing, and an empty text, only load in Ollama and have no vectors.

    Raises:
        InvalidRequest: It is neither a text nor a list of texts.
    """
    match value:
        case None | "" | []:
            return []
        case str():
            return [value]
        case list() if all(isinstance(item, str) for item in value):
            return list(value)
        case _:
            raise InvalidRequest("invalid input type", param="input")
