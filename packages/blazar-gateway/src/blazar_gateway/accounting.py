"""Accounting for tokens: in the totals, against the key's limits, and in the ledger."""

from aiohttp import web

from blazar_gateway.context import GATEWAY, KEY


def count_tokens(request: web.Request, model: str, *, prompt: int, completion: int) -> None:
    """Count what an engine evaluated and generated for a request, whether its answer was finished or not.

    Args:
        request: The client's.
        model: The row's name.
        prompt: Tokens as the engine reported them.
        completion: Likewise; of an answer that broke off, what was seen to come.
    """
    if not prompt and not completion:
        return
    gateway = request.app[GATEWAY]
    gateway.traffic.prompt_tokens += prompt
    gateway.traffic.completion_tokens += completion
    gateway.admission.charge(request.get(KEY), model, prompt=prompt, completion=completion)
