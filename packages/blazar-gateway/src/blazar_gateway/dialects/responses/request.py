"""A Responses request, as a canonical (OpenAI chat) request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blazar_gateway.dialects.responses.items import normalized, to_messages
from blazar_routing.errors import InvalidRequest

_COPIED = ("temperature", "top_p", "parallel_tool_calls", "seed", "user", "prompt_cache_key", "top_k", "min_p")


@dataclass(frozen=True, slots=True)
class Translated:
    """What a request became.

    Attributes:
        body: The canonical request.
        items: This request's own input items, normalised, for the store.
        skipped_tools: Kinds of tools that a local model cannot be offered, for a note.
        store: Whether the client wants the response kept.
        previous_response_id: The response it continues, or ``None``.
    """

    body: dict[str, Any]
    items: list[dict[str, Any]]
    skipped_tools: tuple[str, ...]
    store: bool
    previous_response_id: str | None


def to_chat(request: Mapping[str, Any], history: Sequence[Mapping[str, Any]] = ()) -> Translated:
    """Translate a request body.

    Args:
        request: The parsed body.
        history: Items of the responses it continues, oldest first: their inputs and outputs.

    Raises:
        InvalidRequest: Something in it is malformed; the text names the field.
    """
    items = normalized(request.get("input", []))
    messages = to_messages([*history, *items])
    if instructions := request.get("instructions"):
        if not isinstance(instructions, str):
            raise InvalidRequest("`instructions` must be a string", param="instructions")
        messages.insert(0, {"role": "system", "content": instructions})
    if not messages:
        raise InvalidRequest("`input` holds nothing for the model to answer", param="input")
    body: dict[str, Any] = {"model": request.get("model"), "messages": messages}
    for name in _COPIED:
        if request.get(name) is not None:
            body[name] = request[name]
    if request.get("stream"):
        body["stream"] = True
    limit = request.get("max_output_tokens")
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 1:
            raise InvalidRequest("`max_output_tokens` must be a whole number of at least 1", param="max_output_tokens")
        body["max_tokens"] = int(limit)
    tools, skipped = _tools(request.get("tools"))
    if tools:
        body["tools"] = tools
        body.update(_tool_choice(request.get("tool_choice"), tools))
    body.update(_text_format(request.get("text")))
    reasoning = request.get("reasoning")
    if isinstance(reasoning, Mapping) and reasoning.get("effort") is not None:
        body["reasoning_effort"] = reasoning["effort"]
    if request.get("top_logprobs"):
        body.update(logprobs=True, top_logprobs=request["top_logprobs"])
    previous = request.get("previous_response_id")
    return Translated(
        body=body,
        items=items,
        skipped_tools=skipped,
        store=request.get("store") is not False,
        previous_response_id=str(previous) if previous else None,
    )


def _tools(tools: object) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the functions in chat form, those in namespaces included, and the kinds that were left out."""
    if tools is None:
        return [], ()
    if not isinstance(tools, list):
        raise InvalidRequest("`tools` must be a list", param="tools")
    offered: list[dict[str, Any]] = []
    skipped: list[str] = []
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        if not isinstance(tool, Mapping):
            raise InvalidRequest(f"`{where}` must be an object", param=where)
        match tool.get("type"):
            case "function":
                offered.append(_function(tool, where))
            case "custom":
                offered.append(_custom(tool, where))
            case "namespace":
                inner, left_out = _tools(tool.get("tools"))
                offered += inner
                skipped += left_out
            case kind:
                skipped.append(str(kind))
    return offered, tuple(skipped)


def _function(tool: Mapping[str, Any], where: str) -> dict[str, Any]:
    # Chat's nested form is accepted too: some clients send it here.
    flat = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
    if not isinstance(flat.get("name"), str) or not flat["name"]:
        raise InvalidRequest(f"`{where}.name` is required", param=f"{where}.name")
    function = {"name": flat["name"], "parameters": flat.get("parameters") or {"type": "object", "properties": {}}}
    if flat.get("description"):
        function["description"] = flat["description"]
    return {"type": "function", "function": function}


def _custom(tool: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Offer a free-form tool as a function with one string."""
    parameters = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    return _function({**tool, "parameters": parameters}, where)


def _tool_choice(choice: object, tools: list[dict[str, Any]]) -> dict[str, Any]:
    if choice is None:
        return {}
    if choice in {"auto", "none", "required"} if isinstance(choice, str) else False:
        return {"tool_choice": choice}
    if isinstance(choice, Mapping):
        if choice.get("type") in {"function", "custom"}:
            name = choice.get("name")
            if not any(tool["function"]["name"] == name for tool in tools):
                raise InvalidRequest(
                    f"`tool_choice` names the tool {name!r}, which is not in `tools`", param="tool_choice"
                )
            return {"tool_choice": {"type": "function", "function": {"name": name}}}
        if choice.get("type") == "allowed_tools":
            return {"tool_choice": {"type": "allowed_tools", "allowed_tools": dict(choice)}}
        # A choice of a tool that was left out cannot be honoured; the model decides.
        return {"tool_choice": "auto"}
    raise InvalidRequest("`tool_choice` must be auto, none, required or an object", param="tool_choice")


def _text_format(text: object) -> dict[str, Any]:
    output = text.get("format") if isinstance(text, Mapping) else None
    if output is None:
        return {}
    kind = output.get("type") if isinstance(output, Mapping) else None
    match kind:
        case "text":
            return {}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "json_schema":
            schema = {name: output[name] for name in ("name", "schema", "strict", "description") if name in output}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case _:
            raise InvalidRequest("`text.format.type` must be text, json_object or json_schema", param="text.format")
