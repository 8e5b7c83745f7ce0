"""OpenAI's ``/v1/embeddings``."""

from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.context import GATEWAY
from blazar_gateway.dialects.json_objects import JsonObject, name_in
from blazar_gateway.embedding_runs import check_no_late_chunking, embed
from blazar_gateway.forms.openai import EMBEDDINGS
from blazar_gateway.rows import get_card
from blazar_gateway.vectors import as_base64
from blazar_routing.errors import InvalidRequest

MAX_INPUTS = 2048


async def embeddings(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/embeddings``."""
    gateway = request.app[GATEWAY]
    raw = await read_body(request, limit_bytes=gateway.max_body_bytes)
    body = EMBEDDINGS.parse(raw)
    name = name_in(body, "model", missing="model is missing: name the model to use (GET /v1/models lists them).")
    encoding = body.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise InvalidRequest(f"encoding_format is '{encoding}'; it must be float or base64.", param="encoding_format")
    check_no_late_chunking(body)
    inputs = _inputs(body.get("input"))
    found = await embed(
        request,
        get_card(request, name),
        inputs,
        dimensions=_dimensions(body),
        keep_alive=body.get("keep_alive"),
        body_bytes=len(raw),
    )
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": as_base64(vector) if encoding == "base64" else vector,
        }
        for index, vector in enumerate(found.vectors)
    ]
    usage = {"prompt_tokens": found.prompt_tokens, "total_tokens": found.prompt_tokens}
    return json_answer({"object": "list", "model": name, "data": data, "usage": usage})


def _inputs(value: object) -> list[object]:
    """Return the inputs as a list of texts and token lists.

    Raises:
        InvalidRequest: There is none, too many, or one is empty or of another type.
    """
    if isinstance(value, str) or (isinstance(value, list) and value and all(type(item) is int for item in value)):
        value = [value]
    if not isinstance(value, list) or not value:
        raise InvalidRequest("input is empty: it takes a text, tokens, or a list of either.", param="input")
    if len(value) > MAX_INPUTS:
        raise InvalidRequest(f"input has {len(value)} entries; {MAX_INPUTS} are the most.", param="input")
    for index, item in enumerate(value):
        tokens = isinstance(item, list) and bool(item) and all(type(token) is int for token in item)
        if not (tokens or (isinstance(item, str) and item)):
            raise InvalidRequest(f"input[{index}] must be a text or a list of tokens, not empty.", param="input")
    return value


def _dimensions(body: JsonObject) -> int | None:
    value = body.get("dimensions")
    if value is None:
        return None
    if type(value) is not int:
        raise InvalidRequest("dimensions must be a whole number.", param="dimensions")
    return value
