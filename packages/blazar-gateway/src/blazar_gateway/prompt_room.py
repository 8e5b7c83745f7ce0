"""The refusal of a prompt that does not fit: the same whether it was counted before, or by the engine that got it."""

from blazar_gateway.context import Gateway
from blazar_routing.errors import PromptTooLong

EMBEDDINGS = "/v1/embeddings"

_PARAMS = {"/v1/chat/completions": "messages", EMBEDDINGS: "input"}


def available_tokens(path: str, ctx: int) -> int:
    """Return the most tokens that a prompt may have: one that is to be answered leaves room for a token."""
    return ctx if path == EMBEDDINGS else ctx - 1


def prompt_too_long(gateway: Gateway, model: str, *, path: str, needed: int, ctx: int) -> PromptTooLong:
    """Return the error for a prompt of ``needed`` tokens in a context of ``ctx``.

    Args:
        gateway: Knows what the model was trained for.
        model: The row's name.
        path: Where on the engine the request goes.
        needed: Tokens of the prompt.
        ctx: Tokens of the context that one request can use.
    """
    card = gateway.catalogue.find(model)
    return PromptTooLong(
        model=model,
        needed=needed,
        available=available_tokens(path, ctx),
        ctx=ctx,
        trained=None if card is None else card.context_length,
        param=_PARAMS.get(path, "prompt"),
    )
