"""Ollama's ``/api/show``: what a model is, for editors and pickers that decide by it."""

from collections.abc import Mapping

from blazar_gateway.dialects.ollama.listings import details
from blazar_gateway.dialects.times import rfc3339
from blazar_gateway.ports import ModelCard, ModelDetails


def show(card: ModelCard, found: ModelDetails | None) -> dict[str, object]:
    """Return the answer of ``/api/show``.

    Args:
        card: The row.
        found: What its file says, or ``None`` when nobody reads it; then the card's own facts stand in.
    """
    known = found if found is not None else ModelDetails(model_info={})
    answer: dict[str, object] = {
        "modelfile": known.modelfile or modelfile(card, known),
        "parameters": parameter_lines(known.parameters),
        "template": known.template,
        "details": {**details(card), "parent_model": known.parent},
        "model_info": {**basic_info(card), **known.model_info},
        "capabilities": list(card.capabilities),
        "modified_at": rfc3339(card.modified_at),
    }
    if known.system:
        answer["system"] = known.system
    if known.license:
        answer["license"] = known.license
    if known.messages:
        answer["messages"] = [dict(turn) for turn in known.messages]
    if known.projector_info:
        answer["projector_info"] = dict(known.projector_info)
    return answer


def basic_info(card: ModelCard) -> dict[str, object]:
    """Return the metadata that a row remembers, under the file's own keys."""
    info: dict[str, object] = {"general.architecture": card.architecture, "general.basename": card.name}
    if card.parameters is not None:
        info["general.parameter_count"] = card.parameters
    if card.context_length is not None:
        info[f"{card.architecture}.context_length"] = card.context_length
    return info


def modelfile(card: ModelCard, known: ModelDetails) -> str:
    """Return the row as a Modelfile."""
    lines = [f"# Modelfile of {card.name}", f"FROM {card.path}"]
    if known.template:
        lines.append(f'TEMPLATE """{known.template}"""')
    if known.system:
        lines.append(f'SYSTEM """{known.system}"""')
    lines += [f"PARAMETER {line}" for line in parameter_lines(known.parameters).splitlines()]
    return "\n".join(lines) + "\n"


def parameter_lines(parameters: Mapping[str, object]) -> str:
    """Return parameters as lines of name and value; a list takes a line for each item."""
    lines = []
    for name, value in parameters.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            shown = f'"{item}"' if isinstance(item, str) else str(item).lower() if isinstance(item, bool) else str(item)
            lines.append(f"{name:<30} {shown}")
    return "\n".join(lines)
