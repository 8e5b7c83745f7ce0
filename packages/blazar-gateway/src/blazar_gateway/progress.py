"""How far a waiting request has come, in a few words."""

from blazar_gateway.context import Gateway


def progress_of(gateway: Gateway, model: str) -> str:
    """Return what a comment line says while a stream has nothing to say."""
    waiting = gateway.host.waiting(model)
    if waiting is None:
        return "waiting for the engine"
    if waiting.state == "queued":
        return f"queued, {waiting.ahead} ahead"
    if waiting.fraction is None:
        return waiting.state
    return f"{waiting.state} {waiting.fraction:.0%}".replace("%", " %")
