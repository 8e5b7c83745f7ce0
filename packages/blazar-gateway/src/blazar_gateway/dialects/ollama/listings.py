"""Ollama's lists: what there is (``/api/tags``) and what is loaded (``/api/ps``)."""

from collections.abc import Mapping, Sequence

from blazar_gateway.dialects.times import rfc3339
from blazar_gateway.ports import ModelCard, Resident

VERSION = "0.13.5"
"""The release of Ollama whose API this is. Clients compare it: Codex refuses anything below 0.13.4."""

FOREVER_S = 292 * 365.25 * 24 * 3600
"""What Ollama adds to the current time for a model that is kept for ever: the longest duration Go has."""

_SHOWN_STATES = frozenset({"starting", "ready", "sleeping", "draining"})


def tags(cards: Sequence[ModelCard]) -> dict[str, object]:
    """Return the answer of ``GET /api/tags``, in the order given."""
    return {"models": [_tag(card) for card in cards]}


def ps(residents: Sequence[Resident], cards: Mapping[str, ModelCard], *, now: float) -> dict[str, object]:
    """Return the answer of ``GET /api/ps``, longest remaining first.

    Args:
        residents: The children; those that are stopping or have failed are not listed.
        cards: The rows by name.
        now: Unix seconds.
    """
    shown = [resident for resident in residents if resident.state in _SHOWN_STATES]
    shown.sort(key=lambda resident: -_remaining_s(resident))
    return {"models": [_loaded(resident, cards.get(resident.model), now=now) for resident in shown]}


def _remaining_s(resident: Resident) -> float:
    remaining = resident.expires_in_s
    return FOREVER_S if remaining is None else min(remaining, FOREVER_S)


def _tag(card: ModelCard) -> dict[str, object]:
    return {
        "name": card.name,
        "model": card.name,
        "modified_at": rfc3339(card.modified_at),
        "size": card.size_bytes,
        "digest": card.digest,
        "details": details(card),
        "capabilities": list(card.capabilities),
        **({"alias_of": card.alias_of} if card.alias_of else {}),
    }


def _loaded(resident: Resident, card: ModelCard | None, *, now: float) -> dict[str, object]:
    return {
        "name": resident.model,
        "model": resident.model,
        "size": resident.memory_bytes or (card.size_bytes if card is not None else 0),
        "size_vram": resident.device_bytes,
        "size_estimated": resident.estimate_bytes,
        "digest": card.digest if card is not None else "",
        "details": details(card) if card is not None else {},
        "expires_at": rfc3339(now + _remaining_s(resident)),
        "context_length": resident.ctx_tokens or 0,
        # What Ollama does not have; `blazar ps` shows it.
        "child": resident.child,
        "state": resident.state,
        "engine": resident.engine,
        "pid": resident.pid,
        "slots": resident.slots,
        "in_flight": resident.in_flight,
        "waiting": resident.waiting,
        "load_fraction": resident.load_fraction,
        "cache_hint": resident.cache_hint,
        "spec_accept": resident.spec_accept,
        "expires_in_s": resident.expires_in_s,
        "warnings": list(resident.warnings),
    }


def details(card: ModelCard) -> dict[str, object]:
    """Return the ``details`` object that every listing has."""
    return {
        "parent_model": "",
        "format": card.format,
        "family": card.architecture,
        "families": [card.architecture] if card.architecture else None,
        "parameter_size": parameter_label(card.parameters),
        "quantization_level": card.quantization,
    }


def parameter_label(count: int | None) -> str:
    """Return a parameter count as Ollama writes it: ``134.52M``, ``8B``, ``7.2B``."""
    if count is None:
        return ""
    for unit, size, digits in (("B", 10**9, 1), ("M", 10**6, 2), ("K", 10**3, 0)):
        if count >= size:
            number = count / size
            return f"{number:.0f}{unit}" if number.is_integer() else f"{number:.{digits}f}{unit}"
    return str(count)
