"""Whether a model can be told of tools: an engine drops them unsaid where the chat template has no place for them."""

from collections.abc import Mapping

from blazar_gateway.ports import ModelCard
from blazar_routing.errors import InvalidRequest


def check_can_use_tools(fields: Mapping[str, object], card: ModelCard) -> None:
    """Return unless a checked chat brings tools to a model whose template has no place for them.

    With ``tool_choice`` "none" nothing is lost without them. Where the template could not be read, the engine decides.

    Args:
        fields: The canonical request, its tools checked; an empty list is gone by now.
        card: The model.

    Raises:
        InvalidRequest: It does; the text says what to do instead.
    """
    if not fields.get("tools") or fields.get("tool_choice") == "none":
        return
    if "tools" in card.capabilities or not card.template_readable:
        return
    raise InvalidRequest(
        f'"{card.name}" does not support tools: its chat template has no place for them. Leave `tools` out, choose a '
        "model whose capabilities list `tools` (GET /v1/models), or give this one such a template: "
        f'`chat_template_file` in [models."{card.name}"] of config.toml.',
        param="tools",
    )
