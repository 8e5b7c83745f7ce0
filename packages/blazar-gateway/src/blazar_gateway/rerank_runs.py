"""How well documents answer a query, by a reranker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson
from aiohttp import web

from blazar_gateway.accounting import count_tokens
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import GATEWAY, KEY
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.domains import Domain, check_domain
from blazar_gateway.keep_alive import parse_keep_alive
from blazar_gateway.leases import Borrowed
from blazar_gateway.ports import ModelCard
from blazar_gateway.tickets import make_ticket
from blazar_routing.errors import EngineUnreachable

_PATH = "/v1/rerank"


@dataclass(frozen=True, slots=True)
class Ranked:
    """Documents by their scores.

    Attributes:
        scores: Index and score of every document, the best first; equal ones in the order in which they came.
        prompt_tokens: Of all pairs.
    """

    scores: tuple[tuple[int, float], ...]
    prompt_tokens: int


async def rank(
    request: web.Request,
    card: ModelCard,
    query: str,
    documents: Sequence[str],
    *,
    keep_alive: object,
    body_bytes: int,
) -> Ranked:
    """Return the scores of some documents (at least one) for a query.

    Raises:
        InvalidRequest: The model is no reranker.
        LaneError: Any refusal of the host.
        EngineRefusal: The engine's own: a pair that is too long, for one.
    """
    check_domain(card, Domain.RERANK)
    gateway = request.app[GATEWAY]
    kept = parse_keep_alive(keep_alive)
    ticket = make_ticket(
        model=card.name,
        headers=request.headers,
        body_bytes=body_bytes,
        choices=1,
        max_tokens=0,
        session=None,
        key=request.get(KEY),
    )
    body = orjson.dumps({"model": card.name, "query": query, "documents": list(documents)})
    async with Borrowed(gateway, replace(ticket, slots=len(documents))) as borrowed:
        if kept is not None:
            gateway.host.keep(card.name, kept.seconds)
        async with ChildCall(gateway, borrowed, _PATH, body) as call:
            await call.check_status()
            answer = orjson.loads(await call.read_all())
        scores = _scores(answer, len(documents))
        if scores is None:
            reason = "its answer does not score each document once"
            raise EngineUnreachable(model=card.name, reason=reason)
        tokens = int((answer.get("usage") or {}).get("prompt_tokens") or 0)
        count_tokens(request, card.name, prompt=tokens, completion=0)
        return Ranked(scores, tokens)


def _scores(answer: JsonObject, documents: int) -> tuple[tuple[int, float], ...] | None:
    found: dict[int, float] = {}
    results = answer.get("results")
    for row in results if isinstance(results, list) else ():
        match row:
            case {"index": int(index), "relevance_score": int(score) | float(score)}:
                found[index] = float(score)
            case _:
                return None
    if set(found) != set(range(documents)):
        return None
    return tuple(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
