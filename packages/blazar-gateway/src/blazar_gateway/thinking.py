"""Whether a model thinks before it answers: what clients ask for, as the switches of its chat template.

An explicit wish to think is refused where the template has no markers for it; where they could not be read, it is let
through. Nothing asked for means no thinking on templates that know it, on this machine's own engines: an explicit
effort, or the template's own ``enable_thinking``, beats that, and so do a model's settings.
"""

from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.ports import ModelCard
from blazar_routing.errors import InvalidRequest

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""OpenAI's words for ``reasoning_effort``; ``none`` switches thinking off."""

_KWARGS = "chat_template_kwargs"
_SWITCH = "enable_thinking"

OFF = {_SWITCH: False}
"""The template arguments of a model that shall not think."""


def knows_thinking(card: ModelCard) -> bool | None:
    """Return whether the model's template has thinking markers; ``None`` when it could not be read."""
    if "thinking" in card.capabilities:
        return True
    return False if card.template_readable else None


def check_can_think(card: ModelCard, *, asked_as: str) -> None:
    """Return unless thinking was asked for of a model whose template has no markers for it.

    Args:
        card: The model.
        asked_as: The field that asked, for the text.

    Raises:
        InvalidRequest: It was; the text says what to do instead.
    """
    if knows_thinking(card) is False:
        raise InvalidRequest(
            f'"{card.name}" does not support thinking: its chat template has no markers for it. '
            f"Leave `{asked_as}` out, or choose a model whose capabilities list `thinking` (GET /v1/models).",
            param=asked_as,
        )


def set_thinking(fields: JsonObject, card: ModelCard, *, think: bool | str | None) -> bool:
    """Set the template's switches in a canonical request; return whether it was changed.

    Args:
        fields: The request. Its ``reasoning_effort`` is bridged to the template.
        card: The model.
        think: The client's wish, ``None`` when it has none; a level is an effort too.

    Raises:
        InvalidRequest: ``reasoning_effort`` is no word that is known.
    """
    effort = fields.get("reasoning_effort")
    if effort is not None and effort not in EFFORTS:
        raise InvalidRequest(
            f"reasoning_effort is '{effort}'; it must be one of {', '.join(EFFORTS)}.", param="reasoning_effort"
        )
    given = fields.get(_KWARGS)
    arguments = dict(given) if isinstance(given, dict) else {}
    if isinstance(think, str):
        effort, think = think, think != "none"
    if think is not None:
        arguments[_SWITCH] = think
    if effort is not None:
        arguments.setdefault(_SWITCH, effort != "none")
        if effort != "none":
            arguments.setdefault("reasoning_effort", effort)
    elif think is None and knows_thinking(card) and not card.rules.decides_thinking:
        arguments.setdefault(_SWITCH, False)
    changed = arguments != (given or {})
    if changed:
        fields[_KWARGS] = arguments
    if effort == "none" and "reasoning_effort" in fields:
        # The word is OpenAI's; an engine that reads the field may not know it.
        del fields["reasoning_effort"]
        changed = True
    return changed
