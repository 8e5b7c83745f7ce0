"""The context that a model is served with, against the one that a client asks for."""

import orjson

from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import Gateway
from blazar_gateway.leases import Borrowed
from blazar_routing.errors import InvalidRequest


async def check_num_ctx(
    gateway: Gateway, borrowed: Borrowed, *, num_ctx: int, path: str, body: bytes, answer_tokens: int
) -> None:
    """Return if a request that asks for a context of ``num_ctx`` loses nothing in the one that is served.

    A larger context than is served matters only where the prompt and the answer need it; then it is refused rather
    than cut.

    Args:
        gateway: Knows what is served.
        borrowed: The lease.
        num_ctx: Tokens.
        path: Where the engine counts the prompt.
        body: What is posted there.
        answer_tokens: The most the answer may take, 0 when the client did not limit it.

    Raises:
        InvalidRequest: It does not fit; the text names the figures and what to change.
    """
    served = borrowed.lease.ctx_tokens
    if served is None or num_ctx <= served:
        return
    async with ChildCall(gateway, borrowed, path, body) as call:
        if call.answer.status != 200:
            return  # the engine will say itself what is wrong with the request
        counted = orjson.loads(await call.read_all())
    prompt = counted["input_tokens"] if "input_tokens" in counted else len(counted.get("tokens", ()))
    if prompt + answer_tokens <= served:
        return
    name = borrowed.lease.model
    raise InvalidRequest(
        f"num_ctx is {num_ctx}, and this request needs {prompt + answer_tokens} tokens ({prompt} of prompt), but model "
        f"'{name}' is loaded with a context of {served}. Set `ctx = {num_ctx}` under [models.\"{name}\"] in "
        f"config.toml and unload it (`blazar stop {name}`), or send less.",
        param="options.num_ctx",
    )
