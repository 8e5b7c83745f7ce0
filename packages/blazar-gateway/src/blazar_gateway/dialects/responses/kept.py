"""What is kept of a response, and the conversation that kept ones add up to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from blazar_routing.errors import InvalidRequest
from blazar_store.types import KeptResponse

MAX_LIMIT = 100
_DEFAULT_LIMIT = 20


def with_ids(items: Sequence[Mapping[str, Any]], new_id: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return input items, each with an id of this server's; ids that clients give are not theirs to give."""
    prefixes = {"message": "msg", "reasoning": "rs", "function_call": "fc", "function_call_output": "fco"}
    kept = []
    for item in items:
        shown = {**item, "id": new_id(prefixes.get(str(item.get("type")), "item"))}
        if item.get("type") == "message" and isinstance(item.get("content"), str):
            kind = "output_text" if item.get("role") == "assistant" else "input_text"
            shown["content"] = [{"type": kind, "text": item["content"]}]
        kept.append(shown)
    return kept


def history_of(chain: Sequence[KeptResponse]) -> list[Mapping[str, Any]]:
    """Return the items of some responses, oldest response first: what went in, then what came out."""
    items: list[Mapping[str, Any]] = []
    for kept in chain:
        items += kept.items
        output = kept.response.get("output")
        if isinstance(output, list):
            items += output
    return items


def references_in(value: object) -> list[str]:
    """Return the ids that ``input`` refers to instead of holding the items."""
    items = value if isinstance(value, list) else []
    return [str(item.get("id")) for item in items if is_reference(item)]


def is_reference(item: object) -> bool:
    """Return whether an item stands for one that was kept; its type may be left out."""
    if not isinstance(item, Mapping):
        return False
    return item.get("type") == "item_reference" or (set(item) == {"id"})


def resolved(value: object, found: Mapping[str, Mapping[str, Any]]) -> object:
    """Return ``input`` with the items in the place of what refers to them."""
    if not isinstance(value, list):
        return value
    return [found[str(item["id"])] if is_reference(item) else item for item in value]


def item_list(items: Sequence[Mapping[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page of ``GET /v1/responses/{id}/input_items``.

    Raises:
        InvalidRequest: ``limit`` or ``order`` is out of its range.
    """
    order, limit = query.get("order", "desc"), query.get("limit", str(_DEFAULT_LIMIT))
    if order not in {"asc", "desc"}:
        raise InvalidRequest(f"order is '{order[:40]}'; it must be asc or desc.", param="order")
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit) <= MAX_LIMIT):
        raise InvalidRequest(f"limit is '{limit[:40]}'; it takes a whole number from 1 to {MAX_LIMIT}.", param="limit")
    listed = list(items) if order == "asc" else list(reversed(items))
    after = query.get("after")
    ids = [str(item.get("id")) for item in listed]
    start = ids.index(after) + 1 if after in ids else 0
    page = listed[start : start + int(limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": start + int(limit) < len(listed),
    }
