"""The model list in OpenAI's shape, with what local clients look for besides."""

from collections.abc import Mapping, Sequence

from blazar_gateway.ports import ModelCard, Resident


def model_object(card: ModelCard, resident: Resident | None) -> dict[str, object]:
    """Return one entry of ``GET /v1/models``.

    Args:
        card: The row.
        resident: Its child, or ``None`` when it is not loaded.

    The context length is the one being served where the model is loaded, else the one it was trained for.
    """
    serving = resident.ctx_tokens if resident is not None else None
    return {
        "id": card.name,
        "object": "model",
        "created": card.added_at,
        "owned_by": "blazar",
        "context_length": serving or card.context_length,
        "max_context_length": card.context_length,
        "capabilities": list(card.capabilities),
        "state": resident.state if resident is not None else "unloaded",
        # Of the load, where the engine reports it.
        "load_fraction": resident.load_fraction if resident is not None else None,
        "architecture": card.architecture,
        "quantization": card.quantization,
        "size": card.size_bytes,
        **({"aliases": list(card.aliases)} if card.aliases else {}),
        **({"alias_of": card.alias_of} if card.alias_of else {}),
    }


def model_list(cards: Sequence[ModelCard], residents: Mapping[str, Resident]) -> dict[str, object]:
    """Return the answer of ``GET /v1/models``; ``residents`` are the children by model name."""
    return {"object": "list", "data": [model_object(card, residents.get(card.alias_of or card.name)) for card in cards]}
