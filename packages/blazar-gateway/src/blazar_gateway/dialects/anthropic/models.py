"""The model list in Anthropic's shape."""

from collections.abc import Mapping, Sequence

from blazar_gateway.dialects.times import rfc3339
from blazar_gateway.ports import ModelCard, Resident
from blazar_routing.errors import InvalidRequest

MAX_LIMIT = 1000
_DEFAULT_LIMIT = 1000
"""Anthropic pages by 20; a local list is short, and clients that do not page see all of it this way."""


def model_object(card: ModelCard, resident: Resident | None = None) -> dict[str, object]:
    """Return one entry of ``GET /v1/models``.

    Args:
        card: The row.
        resident: Its child, or ``None`` when it is not loaded.
    """
    serving = resident.ctx_tokens if resident is not None else None
    context = serving or card.context_length
    return {
        "type": "model",
        "id": card.name,
        "display_name": card.name,
        "created_at": rfc3339(card.added_at),
        "lifecycle": "active",
        "max_input_tokens": context,
        "max_tokens": context,
        "capabilities": {
            "image_input": {"supported": "vision" in card.capabilities},
            "thinking": {"supported": "thinking" in card.capabilities},
            "structured_outputs": {"supported": True},
        },
    }


def model_list(
    cards: Sequence[ModelCard], residents: Mapping[str, Resident], query: Mapping[str, str]
) -> dict[str, object]:
    """Return the answer of ``GET /v1/models``: the page that ``limit``, ``after_id`` and ``before_id`` ask for.

    Raises:
        InvalidRequest: ``limit`` is not a number in its range.
    """
    limit = _limit(query.get("limit"))
    names = [card.name for card in cards]
    after, before = query.get("after_id"), query.get("before_id")
    start, stop = 0, len(cards)
    if after:
        start = names.index(after) + 1 if after in names else len(cards)
    if before and before in names:
        stop = names.index(before)
        page = cards[max(start, stop - limit) : stop]
        more = stop - limit > start
    else:
        page = cards[start : start + limit]
        more = start + limit < stop
    return {
        "data": [model_object(card, residents.get(card.alias_of or card.name)) for card in page],
        "has_more": more,
        "first_id": page[0].name if page else None,
        "last_id": page[-1].name if page else None,
    }


def _limit(text: str | None) -> int:
    if not text:
        return _DEFAULT_LIMIT
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_LIMIT:
        return int(text)
    raise InvalidRequest(f"limit is '{text[:40]}'; it takes a whole number from 1 to {MAX_LIMIT}.", param="limit")
