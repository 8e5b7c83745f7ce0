"""Whether a prompt fits into the context it would be served with: refused in words before the engine is asked.

A prompt is estimated by its bytes, which costs nothing. Only one that comes near the context is counted, by the engine
that would serve it and with the template applied. What does not fit is refused with both figures and what can be
changed; nothing is ever cut off. Where an engine cannot count, it decides by itself when it gets the request.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import Gateway
from blazar_gateway.leases import Borrowed
from blazar_gateway.prompt_room import EMBEDDINGS, available_tokens, prompt_too_long
from blazar_gateway.tickets import BYTES_PER_TOKEN

_NEAR_PERCENT = 90
"""Of the context: an estimate above it is not relied on."""

_LARGE_BYTES = 256 << 10
"""A body above this size is parsed in a thread."""

_CHAT = "/v1/chat/completions"
_COUNTS_CHATS = "/v1/chat/completions/input_tokens"


async def check_fits(gateway: Gateway, borrowed: Borrowed, *, path: str, body: bytes) -> None:
    """Return if the engine will not refuse or cut a request for its length.

    Args:
        gateway: Whose request it is.
        borrowed: The lease.
        path: Where on the engine the request goes.
        body: What is going to be posted there.

    Raises:
        PromptTooLong: The prompt does not fit.
        LaneError: The engine died of the question, or hangs.
    """
    ctx = borrowed.lease.ctx_tokens
    if ctx is None or not _is_near(len(body), ctx):
        return
    fields = await asyncio.to_thread(orjson.loads, body) if len(body) > _LARGE_BYTES else orjson.loads(body)
    if path == _CHAT:
        if not _is_near(len(body) - _media_bytes(fields["messages"]), ctx):
            return
        needed = await _count_chat(gateway, borrowed, body)
    else:
        needed = await _count_longest(gateway, borrowed, _prompts(path, fields), ctx)
    if needed is not None and needed > available_tokens(path, ctx):
        raise prompt_too_long(gateway, borrowed.lease.model, path=path, needed=needed, ctx=ctx)


def _is_near(size_bytes: int, ctx: int) -> bool:
    return size_bytes * 100 > ctx * BYTES_PER_TOKEN * _NEAR_PERCENT


def _media_bytes(messages: Sequence[Any]) -> int:
    """Return how much of a chat is pictures and sounds, whose bytes tell nothing about their tokens."""
    size = 0
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type")
            if kind in {"image_url", "input_audio"}:
                value = part.get(kind)
                inner = value.values() if isinstance(value, dict) else (value,)
                size += sum(len(text) for text in inner if isinstance(text, str))
    return size


async def _count_chat(gateway: Gateway, borrowed: Borrowed, body: bytes) -> int | None:
    """Return the tokens of a chat as the engine's template writes it, or ``None`` where the engine cannot tell."""
    answer = await _ask(gateway, borrowed, _COUNTS_CHATS, body)
    if answer is not None and isinstance(answer.get("input_tokens"), int):
        return int(answer["input_tokens"])
    # Builds before that route.
    answer = await _ask(gateway, borrowed, "/apply-template", body)
    if answer is None or not isinstance(answer.get("prompt"), str):
        return None
    return await _count_text(gateway, borrowed, answer["prompt"])


async def _count_longest(gateway: Gateway, borrowed: Borrowed, prompts: Sequence[Any], ctx: int) -> int | None:
    longest: int | None = None
    for prompt in prompts:
        match prompt:
            case str() if _is_near(len(prompt.encode("utf-8", "replace")), ctx):
                counted = await _count_text(gateway, borrowed, prompt)
            case list() if prompt and all(type(token) is int for token in prompt):
                counted = len(prompt)
            case list():
                # Text and tokens mixed: the text is what has to be counted.
                text = "".join(piece for piece in prompt if isinstance(piece, str))
                counted = await _count_text(gateway, borrowed, text)
                counted = None if counted is None else counted + sum(type(piece) is int for piece in prompt)
            case _:
                continue
        if counted is not None and (longest is None or counted > longest):
            longest = counted
    return longest


def _prompts(path: str, fields: dict[str, Any]) -> Sequence[Any]:
    value: Any
    match path:
        case "/infill":
            pieces = (fields.get(name) for name in ("input_prefix", "prompt", "input_suffix"))
            value = "".join(piece for piece in pieces if isinstance(piece, str))
        case _:
            value = fields.get("input" if path == EMBEDDINGS else "prompt")
    several = isinstance(value, list) and all(isinstance(item, str | list) for item in value)
    return value if several and isinstance(value, list) else [value]


async def _count_text(gateway: Gateway, borrowed: Borrowed, text: str) -> int | None:
    question = orjson.dumps({"content": text, "add_special": True, "parse_special": True})
    answer = await _ask(gateway, borrowed, "/tokenize", question)
    tokens = None if answer is None else answer.get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


async def _ask(gateway: Gateway, borrowed: Borrowed, path: str, body: bytes) -> dict[str, Any] | None:
    async with ChildCall(gateway, borrowed, path, body) as call:
        if call.answer.status != 200:
            return None
        raw = await call.read_all()
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return answer if isinstance(answer, dict) else None
