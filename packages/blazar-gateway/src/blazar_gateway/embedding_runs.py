"""Vectors from an embedder, for OpenAI's and Ollama's routes alike."""

import array
import base64
import math
import sys
from dataclasses import dataclass
from typing import cast

import orjson
from aiohttp import web

from blazar_gateway.accounting import count_tokens
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import GATEWAY, KEY
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.domains import Domain, check_domain
from blazar_gateway.keep_alive import parse_keep_alive
from blazar_gateway.leases import Borrowed
from blazar_gateway.ports import Lease, ModelCard
from blazar_gateway.preflight import check_fits
from blazar_gateway.tickets import make_ticket
from blazar_routing.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors in the order of the inputs.

    Attributes:
        vectors: L2-normalised if they were cut, else as the engine gave them.
        prompt_tokens: Of all inputs.
        lease: What it was computed under, for its times.
    """

    vectors: list[list[float]]
    prompt_tokens: int
    lease: Lease


async def embed(
    request: web.Request,
    card: ModelCard,
    inputs: list[object],
    *,
    dimensions: int | None,
    keep_alive: object,
    body_bytes: int,
) -> Embedded:
    """Return the vectors of some inputs (texts, or lists of tokens).

    Raises:
        InvalidRequest: The model is no embedder, or its vectors are shorter than ``dimensions``.
        LaneError: Any refusal of the host.
        EngineRefusal: The engine's own.
    """
    check_domain(card, Domain.EMBEDDING)
    gateway = request.app[GATEWAY]
    ticket = make_ticket(
        model=card.name,
        headers=request.headers,
        body_bytes=body_bytes,
        choices=1,
        max_tokens=0,
        session=None,
        key=request.get(KEY),
    )
    kept = parse_keep_alive(keep_alive)
    body = orjson.dumps({"model": card.name, "input": inputs, "encoding_format": "float"})
    async with Borrowed(gateway, ticket) as borrowed:
        if kept is not None:
            gateway.host.keep(card.name, kept.seconds)
        await check_fits(gateway, borrowed, path="/v1/embeddings", body=body)
        async with ChildCall(gateway, borrowed, "/v1/embeddings", body) as call:
            await call.check_status()
            answer = orjson.loads(await call.read_all())
        rows = sorted(cast("list[JsonObject]", answer["data"]), key=lambda row: cast("int", row.get("index", 0)))
        vectors = [cast("list[float]", row["embedding"]) for row in rows]
        tokens = int((answer.get("usage") or {}).get("prompt_tokens") or 0)
        count_tokens(request, card.name, prompt=tokens, completion=0)
        return Embedded([cut(vector, dimensions) for vector in vectors], tokens, borrowed.lease)


def cut(vector: list[float], dimensions: int | None) -> list[float]:
    """Return the first ``dimensions`` of a vector, of length 1 again.

    Raises:
        InvalidRequest: It has fewer.
    """
    if dimensions is None or dimensions == len(vector):
        return vector
    if not 1 <= dimensions <= len(vector):
        raise InvalidRequest(
            f"dimensions is {dimensions}; it takes a whole number from 1 to {len(vector)}, the length of its vectors.",
            param="dimensions",
        )
    return normalised(vector[:dimensions])


def normalised(vector: list[float]) -> list[float]:
    """Return a vector scaled to length 1; the null vector stays as it is."""
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length > 0 else vector


def as_base64(vector: list[float]) -> str:
    """Return a vector as OpenAI's clients decode it: little-endian 32-bit floats."""
    packed = array.array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return base64.b64encode(packed.tobytes()).decode("ascii")
