"""What models there are, and which are loaded. Answered from memory; nothing is loaded or woken for it."""

import time
from urllib.parse import unquote

from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.context import GATEWAY, KEY, Gateway
from blazar_gateway.dialects.anthropic import models as anthropic_models
from blazar_gateway.dialects.ollama import listings
from blazar_gateway.dialects.openai import models as openai_models
from blazar_gateway.error_responses import Dialect, dialect_of
from blazar_gateway.ports import Resident
from blazar_gateway.rows import cards_in_scope, get_card, listed, listed_as


async def models(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/models``, in Anthropic's shape to Anthropic's clients."""
    gateway = request.app[GATEWAY]
    cards = listed(cards_in_scope(request))
    if dialect_of(request.path, request.headers) is Dialect.ANTHROPIC:
        return json_answer(anthropic_models.model_list(cards, _by_model(gateway), request.query))
    return json_answer(openai_models.model_list(cards, _by_model(gateway)))


async def model(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/models/{id}``; slashes in the name may be percent-encoded or not."""
    gateway = request.app[GATEWAY]
    # From the raw path: the decoded one cannot tell a name's slash from a separator, nor %2525 from %25.
    name = unquote(request.rel_url.raw_path.partition("/models/")[2].rstrip("/"))
    card = get_card(request, name)
    resident = _by_model(gateway).get(card.name)
    card = listed_as(card, name)
    if dialect_of(request.path, request.headers) is Dialect.ANTHROPIC:
        return json_answer(anthropic_models.model_object(card, resident))
    return json_answer(openai_models.model_object(card, resident))


async def tags(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/tags``."""
    return json_answer(listings.tags(listed(cards_in_scope(request))))


async def ps(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/ps``."""
    gateway = request.app[GATEWAY]
    cards = {card.name: card for card in cards_in_scope(request)}
    residents = gateway.host.residents()
    if KEY in request:
        # A model whose row has just gone is still there for those who were given it by name.
        residents = [one for one in residents if one.model in cards or request[KEY].may_use(one.model)]
    return json_answer(listings.ps(residents, cards, now=time.time()))


def _by_model(gateway: Gateway) -> dict[str, Resident]:
    """Return one child of each model: its plain one rather than a replica or a companion, where that is there."""
    found: dict[str, Resident] = {}
    for resident in gateway.host.residents():
        if resident.child == resident.model or resident.model not in found:
            found[resident.model] = resident
    return found
