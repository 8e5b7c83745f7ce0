"""Input items of the Responses API, as chat messages.

Neighbouring items that belong to one turn are joined: reasoning, text and calls of the assistant become one message.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from blazar_routing.errors import InvalidRequest

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_DROPPED = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "computer_call_output",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "compaction",
        "compaction_summary",
        "additional_tools",
    }
)
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})


def normalized(value: object) -> list[dict[str, Any]]:
    """Return ``input`` as a list of items; a bare string is one user message.

    Raises:
        InvalidRequest: It is neither a string nor a list of objects.
    """
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    if not isinstance(value, list):
        raise InvalidRequest("`input` must be a string or a list of items", param="input")
    for index, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise InvalidRequest(f"`input[{index}]` must be an object", param=f"input[{index}]")
    return [{"type": "message", **item} if "role" in item else dict(item) for item in value]


def to_messages(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Translate items, as :func:`normalized` returns them, into chat messages.

    Raises:
        InvalidRequest: An item is malformed or of a type that cannot be served; the text names it.
    """
    messages: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        where = f"input[{index}]"
        kind = item.get("type")
        if kind == "message":
            _add_message(messages, item, where)
        elif kind == "reasoning":
            if text := _reasoning_text(item):
                turn = _assistant_turn(messages)
                turn["reasoning_content"] = turn.get("reasoning_content", "") + text
        elif kind in _CALLS:
            _assistant_turn(messages).setdefault("tool_calls", []).append(_call(item, where, _CALLS[str(kind)]))
        elif kind == "local_shell_call":
            call = {**item, "name": "local_shell", "arguments": json.dumps(item.get("action") or {})}
            _assistant_turn(messages).setdefault("tool_calls", []).append(_call(call, where, "arguments"))
        elif kind in _OUTPUTS:
            messages.append(_output(item, where))
        elif kind not in _DROPPED:
            raise InvalidRequest(f"`{where}` has the type {kind!r}, which cannot be served here", param=where)
    for message in messages:
        message.setdefault("content", None)
    return messages


def _add_message(messages: list[dict[str, Any]], item: Mapping[str, Any], where: str) -> None:
    role = item.get("role")
    if role not in _ROLES:
        raise InvalidRequest(
            f"`{where}.role` is {role!r}; it must be user, assistant, system or developer", param=f"{where}.role"
        )
    content = _content(item.get("content"), f"{where}.content")
    if role != "assistant":
        messages.append({"role": "system" if role == "developer" else role, "content": content})
        return
    turn = _assistant_turn(messages, for_text=True)
    turn["content"] = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _assistant_turn(messages: list[dict[str, Any]], *, for_text: bool = False) -> dict[str, Any]:
    """Return the assistant message that is being put together, beginning one if need be."""
    last = messages[-1] if messages else None
    if last is None or last["role"] != "assistant" or (for_text and ("content" in last or "tool_calls" in last)):
        messages.append({"role": "assistant"})
    return messages[-1]


def _content(content: object, where: str) -> str | list[dict[str, Any]]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"`{where}` must be a string or a list of parts", param=where)
    parts = [_part(part, f"{where}[{index}]") for index, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(part: object, where: str) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        raise InvalidRequest(f"`{where}` must be an object with a `type`", param=where)
    match part.get("type"):
        case "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text":
            return {"type": "text", "text": str(part.get("text") or "")}
        case "refusal":
            return {"type": "text", "text": str(part.get("refusal") or "")}
        case "input_image" if isinstance(part.get("image_url"), str):
            return {"type": "image_url", "image_url": {"url": part["image_url"]}}
        case "input_audio" if isinstance(part.get("input_audio"), Mapping):
            return {"type": "input_audio", "input_audio": part["input_audio"]}
        case "input_image" | "input_file" as kind:
            raise InvalidRequest(
                f"`{where}` is an {kind} by file id, which this server does not keep: send the data itself", param=where
            )
        case kind:
            raise InvalidRequest(f"`{where}` has the unknown part type {kind!r}", param=where)


def _reasoning_text(item: Mapping[str, Any]) -> str:
    parts = [*(item.get("content") or ()), *(() if item.get("content") else item.get("summary") or ())]
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def _call(item: Mapping[str, Any], where: str, arguments_field: str) -> dict[str, Any]:
    call_id, name = item.get("call_id") or item.get("id"), item.get("name")
    if not isinstance(call_id, str) or not isinstance(name, str) or not name:
        raise InvalidRequest(f"`{where}` needs `call_id` and `name`", param=where)
    arguments = item.get(arguments_field)
    if arguments_field == "input":
        arguments = json.dumps({"input": arguments or ""}, ensure_ascii=False)
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}


def _output(item: Mapping[str, Any], where: str) -> dict[str, Any]:
    call_id = item.get("call_id") or item.get("id")
    if not isinstance(call_id, str):
        raise InvalidRequest(f"`{where}.call_id` is required", param=f"{where}.call_id")
    content = _content(item.get("output"), f"{where}.output")
    if not isinstance(content, str):
        content = "\n".join(part["text"] for part in content if part["type"] == "text")
    return {"role": "tool", "tool_call_id": call_id, "content": content}
