"""The prompts of a text completion, to be put before its text."""

from collections.abc import Sequence
from typing import Any

import orjson

from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import Gateway
from blazar_gateway.dialects.openai.legacy import Echo, Reshaping, Wishes
from blazar_gateway.leases import Borrowed


async def prepare_reshaping(gateway: Gateway, borrowed: Borrowed, wishes: Wishes) -> Reshaping:
    """Return what changes the engine's answer; the engine is asked for the prompts' texts and tokens where needed.

    Raises:
        EngineRefusal: It does not tell.
        LaneError: It cannot be reached.
    """
    if not wishes.echo:
        return Reshaping(wishes)
    echoes: list[Echo] = []
    for prompt in wishes.prompts:
        text = prompt
        if not isinstance(text, str):
            text = str((await _ask(gateway, borrowed, "/detokenize", {"tokens": prompt})).get("content") or "")
        tokens = await _pieces(gateway, borrowed, text) if wishes.logprobs is not None else []
        echoes.append(Echo(text, tokens))
    return Reshaping(wishes, echoes)


async def _pieces(gateway: Gateway, borrowed: Borrowed, text: str) -> list[str]:
    answer = await _ask(gateway, borrowed, "/tokenize", {"content": text, "with_pieces": True})
    return [_as_text(token.get("piece")) for token in answer.get("tokens") or () if isinstance(token, dict)]


def _as_text(piece: str | Sequence[int] | None) -> str:
    """Return a token's text; one that is half a character has bytes, which OpenAI writes like this."""
    if isinstance(piece, str) or piece is None:
        return piece or ""
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


async def _ask(gateway: Gateway, borrowed: Borrowed, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with ChildCall(gateway, borrowed, path, orjson.dumps(body)) as call:
        await call.check_status()
        answer = orjson.loads(await call.read_all())
    return answer if isinstance(answer, dict) else {}
