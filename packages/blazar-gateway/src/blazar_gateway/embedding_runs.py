"""Vectors from an embedder, or from a text model's instance that makes them, for OpenAI's and Ollama's routes alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import orjson
from aiohttp import web

from blazar_gateway.accounting import count_tokens
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import GATEWAY, KEY, Gateway
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.domains import check_embeds
from blazar_gateway.error_responses import EngineRefusal
from blazar_gateway.keep_alive import parse_keep_alive
from blazar_gateway.leases import Borrowed
from blazar_gateway.ports import Lease, ModelCard
from blazar_gateway.preflight import check_fits
from blazar_gateway.tickets import make_call_ticket, make_ticket
from blazar_gateway.truncation import truncated
from blazar_gateway.vectors import cut
from blazar_routing.errors import InvalidRequest
from blazar_routing.instances import Role

_PATH = "/v1/embeddings"

_POOL_IS_FULL = "Context size has been exceeded"
"""What llama-server (b10434) says when the inputs that it computes at the same time need more cells than there are."""


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
    inputs: Sequence[object],
    *,
    dimensions: int | None,
    keep_alive: object,
    body_bytes: int,
    truncate: bool = False,
) -> Embedded:
    """Return the vectors of some inputs (texts, or lists of tokens).

    Args:
        request: The client's.
        card: The model's row.
        inputs: At least one.
        dimensions: The length of the vectors, or ``None`` for the model's own.
        keep_alive: As the client wrote it.
        body_bytes: Of its body.
        truncate: Cut inputs that are too long, as the client says, instead of refusing them.

    Raises:
        InvalidRequest: The model makes no vectors, or its vectors are shorter than ``dimensions``.
        LaneError: Any refusal of the host; an input that is too long.
        EngineRefusal: The engine's own.
    """
    check_embeds(card)
    gateway = request.app[GATEWAY]
    kept = parse_keep_alive(keep_alive)
    instance = gateway.host.instance_for(card.name, Role.EMBED)
    ticket = make_ticket(
        model=instance,
        headers=request.headers,
        body_bytes=body_bytes,
        choices=1,
        max_tokens=0,
        session=None,
        key=request.get(KEY),
    )
    # The engine computes several inputs at the same time, each in a slot.
    async with Borrowed(gateway, replace(ticket, slots=len(inputs))) as borrowed:
        if kept is not None:
            gateway.host.keep(instance, kept.seconds)
        if truncate:
            inputs = await truncated(gateway, borrowed, inputs)
        else:
            await check_fits(gateway, borrowed, path=_PATH, body=_body(card.name, inputs))
        vectors, tokens = await _compute(gateway, borrowed, card.name, inputs)
        count_tokens(request, card.name, prompt=tokens, completion=0)
        return Embedded([cut(vector, dimensions) for vector in vectors], tokens, borrowed.lease)


def check_no_late_chunking(body: JsonObject) -> None:
    """Return unless a body asks for vectors of parts of one text that are computed together.

    Raises:
        InvalidRequest: It does. The engine hands out one vector for each input, pooled over all of it.
    """
    if body.get("late_chunking"):
        raise InvalidRequest(
            "late_chunking is not served: the engine returns one vector for each entry of `input`, made of all its "
            "tokens, and none of a part that has seen the rest. Leave late_chunking out to have every entry embedded "
            "by itself; writing the document's title or summary before each chunk keeps some of its context.",
            param="late_chunking",
        )


async def load_for_vectors(request: web.Request, card: ModelCard, *, keep_alive: object) -> Lease:
    """Load what makes vectors of the model, without an input, and return the lease for its times.

    Raises:
        InvalidRequest: The model makes none.
        LaneError: Any refusal of the host.
    """
    check_embeds(card)
    gateway = request.app[GATEWAY]
    kept = parse_keep_alive(keep_alive)
    instance = gateway.host.instance_for(card.name, Role.EMBED)
    ticket = make_call_ticket(model=instance, headers=request.headers, key=request.get(KEY))
    async with Borrowed(gateway, ticket) as borrowed:
        if kept is not None:
            gateway.host.keep(instance, kept.seconds)
        return borrowed.lease


async def _compute(
    gateway: Gateway, borrowed: Borrowed, name: str, inputs: Sequence[object]
) -> tuple[list[list[float]], int]:
    try:
        return await _ask(gateway, borrowed, name, inputs)
    except EngineRefusal as refusal:
        if len(inputs) == 1 or _POOL_IS_FULL not in refusal.wire.message:
            raise
    vectors: list[list[float]] = []
    tokens = 0
    for item in inputs:
        ((vector,), used) = await _ask(gateway, borrowed, name, [item])
        vectors.append(vector)
        tokens += used
    return vectors, tokens


async def _ask(
    gateway: Gateway, borrowed: Borrowed, name: str, inputs: Sequence[object]
) -> tuple[list[list[float]], int]:
    async with ChildCall(gateway, borrowed, _PATH, _body(name, inputs)) as call:
        await call.check_status()
        answer = orjson.loads(await call.read_all())
    rows = sorted(cast("list[JsonObject]", answer["data"]), key=lambda row: cast("int", row.get("index", 0)))
    vectors = [cast("list[float]", row["embedding"]) for row in rows]
    return vectors, int((answer.get("usage") or {}).get("prompt_tokens") or 0)


def _body(name: str, inputs: Sequence[object]) -> bytes:
    return orjson.dumps({"model": name, "input": list(inputs), "encoding_format": "float"})
