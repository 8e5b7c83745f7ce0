"""From a request's headers and size to its place in the queue."""

from collections.abc import Mapping

from blazar_gateway.access.keyring import Key
from blazar_routing.errors import InvalidRequest
from blazar_routing.ticket import Priority, Ticket

PREFILL_HEAVY_BYTES = 64 << 10
"""A body above this many bytes (about 16,000 tokens) goes one class down: its prefill holds everybody up."""

BYTES_PER_TOKEN = 4
"""What the estimate of a prompt's length assumes."""

DEFAULT_ANSWER_TOKENS = 2048
"""Cells reserved for an answer whose length the client did not limit."""

_PRIORITIES = {"high": Priority.HIGH, "normal": Priority.NORMAL, "low": Priority.LOW}


def make_ticket(
    *,
    model: str,
    headers: Mapping[str, str],
    body_bytes: int,
    choices: int,
    max_tokens: int | None,
    session: str | None,
    key: Key | None = None,
    ctx_tokens: int = 0,
) -> Ticket:
    """Return the ticket of a generation.

    Args:
        model: The row's name.
        headers: The request's; names in any case.
        body_bytes: The body's length.
        choices: Answers wanted, each of which takes a slot.
        max_tokens: The client's limit of an answer, or ``None``.
        session: What the body says of the conversation (``prompt_cache_key``), used when no header does.
        key: The key it came with, which weighs it and caps its class; ``None`` for none.
        ctx_tokens: The context that the client asks for (Ollama's ``num_ctx``), or 0.

    Raises:
        InvalidRequest: A scheduling header holds something else than it takes.
    """
    priority = _capped(_priority(headers.get("x-blazar-priority")), key)
    if body_bytes > PREFILL_HEAVY_BYTES:
        priority = priority.demoted()
    answer = max_tokens if max_tokens is not None and max_tokens >= 0 else DEFAULT_ANSWER_TOKENS
    return Ticket(
        model=model,
        key="" if key is None else key.name,
        weight=1 if key is None else key.weight,
        priority=priority,
        deadline_s=_deadline_s(headers.get("x-blazar-deadline-ms")),
        slots=choices,
        cells=(body_bytes // BYTES_PER_TOKEN + answer) * choices,
        session=headers.get("x-blazar-session") or headers.get("x-claude-code-session-id") or session,
        ctx_tokens=ctx_tokens,
    )


def make_call_ticket(*, model: str, headers: Mapping[str, str], key: Key | None = None, ctx_tokens: int = 0) -> Ticket:
    """Return the ticket of a call that needs a loaded engine but no slot (``/tokenize``).

    Raises:
        InvalidRequest: A scheduling header holds something else than it takes.
    """
    return Ticket(
        model=model,
        key="" if key is None else key.name,
        weight=1 if key is None else key.weight,
        priority=_capped(_priority(headers.get("x-blazar-priority")), key),
        deadline_s=_deadline_s(headers.get("x-blazar-deadline-ms")),
        slots=0,
        ctx_tokens=ctx_tokens,
    )


def _capped(priority: Priority, key: Key | None) -> Priority:
    return priority if key is None else max(priority, key.max_priority)


def _priority(word: str | None) -> Priority:
    if word is None:
        return Priority.NORMAL
    try:
        return _PRIORITIES[word.strip().lower()]
    except KeyError:
        raise InvalidRequest(
            f"the x-blazar-priority header is '{word}'; it takes high, normal or low.", param="x-blazar-priority"
        ) from None


def _deadline_s(text: str | None) -> float | None:
    if text is None:
        return None
    # isdecimal() is true of other scripts' digits as well; a header is ASCII.
    if not (text.isascii() and text.isdecimal() and 0 < len(text) <= 12 and int(text) > 0):
        raise InvalidRequest(
            f"the x-blazar-deadline-ms header is '{text}'; it takes a whole number of milliseconds above 0.",
            param="x-blazar-deadline-ms",
        )
    return int(text) / 1000
