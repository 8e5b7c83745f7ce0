"""An Anthropic Messages request, as a canonical (OpenAI chat) request."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blazar_gateway.dialects.anthropic.content import assistant_message, text_of, user_messages
from blazar_routing.errors import InvalidRequest

MIN_THINKING_BUDGET = 1024
_COPIED = ("temperature", "top_p", "top_k", "stream")
_BILLING_MARK = "x-anthropic-billing-header:"


@dataclass(frozen=True, slots=True)
class Translated:
    """What a request became.

    Attributes:
        body: The canonical request.
        stop_sequences: The strings at which the answer stops. They are not in ``body``: which of them was met has to be
            told, and engines do not say, so the gateway looks for them itself.
        show_thinking: Whether thinking blocks carry their text.
    """

    body: dict[str, Any]
    stop_sequences: tuple[str, ...]
    show_thinking: bool


def to_chat(request: Mapping[str, Any], *, counting: bool = False) -> Translated:
    """Translate a request body.

    Args:
        request: The parsed body.
        counting: It came to ``count_tokens``, which has no ``max_tokens``.

    Raises:
        InvalidRequest: Something in it is malformed; the text names the field.
    """
    body: dict[str, Any] = {"model": request.get("model"), "messages": _messages(request)}
    max_tokens = request.get("max_tokens")
    if not counting:
        body["max_tokens"] = _checked_max_tokens(max_tokens)
    for name in _COPIED:
        if request.get(name) is not None:
            body[name] = request[name]
    tools = _tools(request.get("tools"))
    if tools:
        body["tools"] = tools
        body.update(_tool_choice(request.get("tool_choice"), tools))
    body.update(_thinking(request.get("thinking"), max_tokens))
    body.update(_output_config(request.get("output_config")))
    metadata = request.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("user_id"), str):
        body["user"] = metadata["user_id"]
    thinking = request.get("thinking")
    omitted = isinstance(thinking, dict) and thinking.get("display") == "omitted"
    return Translated(body, _stop_sequences(request.get("stop_sequences")), show_thinking=not omitted)


def _checked_max_tokens(value: object) -> int:
    if value is None:
        raise InvalidRequest("max_tokens: Field required", param="max_tokens")
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 1:
        raise InvalidRequest("`max_tokens` must be a whole number of at least 1", param="max_tokens")
    return int(value)


def _messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    turns = request.get("messages")
    if not isinstance(turns, list) or not turns:
        raise InvalidRequest("`messages` must be a list with at least one message", param="messages")
    messages: list[dict[str, Any]] = []
    if system := _system(request.get("system")):
        messages.append({"role": "system", "content": system})
    for index, turn in enumerate(turns):
        where = f"messages[{index}]"
        if not isinstance(turn, dict):
            raise InvalidRequest(f"`{where}` must be an object with `role` and `content`", param=where)
        content_at = f"{where}.content"
        match turn.get("role"):
            case "user":
                messages += user_messages(turn.get("content"), where=content_at)
            case "assistant":
                if message := assistant_message(turn.get("content"), where=content_at):
                    messages.append(message)
            case "system":
                if text := text_of(turn.get("content"), where=content_at):
                    messages.append({"role": "system", "content": text})
            case role:
                raise InvalidRequest(
                    f"`{where}.role` is {role!r}; it must be user, assistant or system", param=f"{where}.role"
                )
    if not any(message["role"] != "system" for message in messages):
        raise InvalidRequest("`messages` holds no text for the model to answer", param="messages")
    return _merged(messages)


def _system(system: object) -> str:
    """Return the system prompt, without the billing line whose changing text would spoil prefix reuse."""
    if isinstance(system, list):
        system = [
            block
            for block in system
            if not (isinstance(block, dict) and str(block.get("text") or "").startswith(_BILLING_MARK))
        ]
    return text_of(system, where="system")


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join neighbours of the same role, as Anthropic does; tool messages stay apart."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        last = merged[-1] if merged else None
        joinable = last is not None and last["role"] == message["role"] and message["role"] in {"user", "system"}
        if last is not None and joinable:
            last["content"] = _joined(last["content"], message["content"])
        else:
            merged.append(message)
    return merged


def _joined(first: str | list[Any], second: str | list[Any]) -> str | list[Any]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n{second}"
    as_parts = [part if isinstance(part, list) else [{"type": "text", "text": part}] for part in (first, second)]
    return as_parts[0] + as_parts[1]


def _tools(tools: object) -> list[dict[str, Any]]:
    """Return the tools that a local model can be offered; server tools have no schema and are left out."""
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise InvalidRequest("`tools` must be a list", param="tools")
    offered = []
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        if not isinstance(tool, dict):
            raise InvalidRequest(f"`{where}` must be an object", param=where)
        if tool.get("type") not in (None, "custom") and "input_schema" not in tool:
            continue
        if not isinstance(tool.get("name"), str) or not tool["name"]:
            raise InvalidRequest(f"`{where}.name` is required", param=f"{where}.name")
        function = {
            "name": tool["name"],
            "parameters": tool.get("input_schema") or {"type": "object", "properties": {}},
        }
        if tool.get("description"):
            function["description"] = tool["description"]
        offered.append({"type": "function", "function": function})
    return offered


def _tool_choice(choice: object, tools: list[dict[str, Any]]) -> dict[str, Any]:
    if choice is None:
        return {}
    kind = choice.get("type") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or kind not in ("auto", "any", "tool", "none"):
        raise InvalidRequest("`tool_choice.type` must be auto, any, tool or none", param="tool_choice")
    chosen: dict[str, Any] = {}
    if choice.get("disable_parallel_tool_use"):
        chosen["parallel_tool_calls"] = False
    match kind:
        case "any":
            return {**chosen, "tool_choice": "required"}
        case "tool":
            name = choice.get("name")
            if not any(tool["function"]["name"] == name for tool in tools):
                raise InvalidRequest(
                    f"`tool_choice` names the tool {name!r}, which is not in `tools`", param="tool_choice"
                )
            return {**chosen, "tool_choice": {"type": "function", "function": {"name": name}}}
        case _:
            return {**chosen, "tool_choice": kind}


def _thinking(thinking: object, max_tokens: object) -> dict[str, Any]:
    """Return the switch for the chat template. Absent means off, so that nobody pays for thoughts unasked."""
    if thinking is None:
        return {"chat_template_kwargs": {"enable_thinking": False}}
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if not isinstance(thinking, dict) or kind not in ("enabled", "adaptive", "disabled", "between_tools"):
        raise InvalidRequest("`thinking.type` must be enabled, adaptive or disabled", param="thinking.type")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < MIN_THINKING_BUDGET:
            raise InvalidRequest(
                f"`thinking.budget_tokens` must be a whole number of at least {MIN_THINKING_BUDGET}",
                param="thinking.budget_tokens",
            )
        if isinstance(max_tokens, int) and budget >= max_tokens:
            raise InvalidRequest(
                "`max_tokens` must be greater than `thinking.budget_tokens`", param="thinking.budget_tokens"
            )
        return {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget_tokens": budget}
    return {"chat_template_kwargs": {"enable_thinking": kind != "disabled"}}


def _output_config(config: object) -> dict[str, Any]:
    if not isinstance(config, dict):
        return {}
    chosen: dict[str, Any] = {}
    if isinstance(config.get("effort"), str):
        chosen["reasoning_effort"] = config["effort"]
    output = config.get("format")
    if isinstance(output, dict) and output.get("type") == "json_schema":
        chosen["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": output.get("schema") or {}},
        }
    elif output is not None:
        raise InvalidRequest(
            f"`output_config.format` must be a json_schema, not {json.dumps(output)[:80]}", param="output_config.format"
        )
    return chosen


def _stop_sequences(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InvalidRequest("`stop_sequences` must be a list of strings", param="stop_sequences")
    return tuple(word for word in value if word)
