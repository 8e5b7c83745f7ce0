"""Cutting inputs that are too long for an embedder, for clients that ask for it.

The engine is asked for the tokens, and what it adds by itself at both ends (BERT's ``[CLS]`` and ``[SEP]``) is kept.
"""

from collections.abc import Sequence

import orjson

from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import Gateway
from blazar_gateway.leases import Borrowed


async def truncated(gateway: Gateway, borrowed: Borrowed, inputs: Sequence[object]) -> list[object]:
    """Return the inputs, those that are longer than the child's context as its first tokens.

    Raises:
        LaneError: The child broke off.
        EngineRefusal: It does not tokenise.
    """
    limit = borrowed.lease.ctx_tokens
    if limit is None:
        return list(inputs)
    return [await _cut(gateway, borrowed, item, limit) for item in inputs]


async def _cut(gateway: Gateway, borrowed: Borrowed, item: object, limit: int) -> object:
    if isinstance(item, list):
        return item[:limit]
    # No token is shorter than a byte, and a few are added.
    if not isinstance(item, str) or len(item.encode("utf-8", "replace")) + 8 <= limit:
        return item
    whole = await _tokens(gateway, borrowed, item, add_special=True)
    if len(whole) <= limit:
        return item
    return cut_tokens(whole, await _tokens(gateway, borrowed, item, add_special=False), limit)


def cut_tokens(whole: list[int], bare: list[int], limit: int) -> list[int]:
    """Return at most ``limit`` tokens: the text's first, between what the engine puts before and behind it.

    Args:
        whole: With what the engine adds.
        bare: Without it.
        limit: At least 1.
    """
    before = next((at for at in range(len(whole) - len(bare) + 1) if whole[at : at + len(bare)] == bare), None)
    if before is None:
        return whole[:limit]
    front, back = whole[:before], whole[before + len(bare) :]
    return [*front, *bare[: max(0, limit - len(front) - len(back))], *back][:limit]


async def _tokens(gateway: Gateway, borrowed: Borrowed, text: str, *, add_special: bool) -> list[int]:
    question = orjson.dumps({"content": text, "add_special": add_special, "parse_special": True})
    async with ChildCall(gateway, borrowed, "/tokenize", question) as call:
        await call.check_status()
        answer = orjson.loads(await call.read_all())
    return list(answer["tokens"])
