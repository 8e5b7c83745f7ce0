"""Finding what a request of the Responses API goes on from."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from blazar_gateway.context import KEY, Gateway
from blazar_gateway.dialects.responses.kept import history_of, references_in, resolved
from blazar_routing.errors import InvalidRequest, PreviousResponseNotFound
from blazar_store.types import KeptResponse

MAX_CHAIN = 1000
"""Turns that are followed back."""


def owner_of(request: web.Request) -> str:
    """Return the name of the key whose responses a request may see; ``""`` on an open gateway."""
    key = request.get(KEY)
    return "" if key is None else key.name


async def find_history(gateway: Gateway, key: str, previous: object) -> list[Mapping[str, Any]]:
    """Return the items of every response that ``previous`` goes back to, oldest first.

    Raises:
        PreviousResponseNotFound: One of them is not kept.
        InvalidRequest: ``previous`` is no id.
    """
    if previous is None:
        return []
    if not isinstance(previous, str) or not previous:
        raise InvalidRequest("`previous_response_id` must be a string", param="previous_response_id")
    chain: list[KeptResponse] = []
    wanted: str | None = previous
    while wanted is not None and len(chain) < MAX_CHAIN:
        kept = await gateway.memory.get(key, wanted) if gateway.memory is not None else None
        if kept is None:
            raise PreviousResponseNotFound(response_id=wanted[:100])
        chain.append(kept)
        wanted = kept.previous
    return history_of(chain[::-1])


async def resolve_references(gateway: Gateway, key: str, value: object) -> object:
    """Return ``input`` with the kept items in the place of what refers to them.

    Raises:
        InvalidRequest: One is not kept.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for item_id in references_in(value):
        item = await gateway.memory.find_item(key, item_id) if gateway.memory is not None else None
        if item is None:
            raise InvalidRequest(
                f"`input` refers to the item '{item_id[:100]}', which is not kept here: send the item itself, "
                "or keep responses with `store: true`",
                param="input",
            )
        found[item_id] = item
    return resolved(value, found) if found else value
