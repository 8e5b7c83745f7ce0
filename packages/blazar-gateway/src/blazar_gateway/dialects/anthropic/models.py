"""The model list in Anthropic's shape."""

from collections.abc import Sequence

from blazar_gateway.dialects.times import rfc3339
from blazar_gateway.ports import ModelCard


def model_object(card: ModelCard) -> dict[str, object]:
    """Return one entry of ``GET /v1/models``."""
    return {"type": "model", "id": card.name, "display_name": card.name, "created_at": rfc3339(card.added_at)}


def model_list(cards: Sequence[ModelCard]) -> dict[str, object]:
    """Return the answer of ``GET /v1/models``: one page with everything."""
    return {
        "data": [model_object(card) for card in cards],
        "has_more": False,
        "first_id": cards[0].name if cards else None,
        "last_id": cards[-1].name if cards else None,
    }
