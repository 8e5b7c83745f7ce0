"""Chat bodies into prompts, and their mistakes into upstream's errors (server-common.cpp, server-chat.cpp).

One built-in template stands for every model's: ChatML. Whether tools appear in it depends, as in the engine, on
whether the model's own template has a branch for them.
"""

import json
from typing import Any

from blazar_stubs.llama_server.knobs import Json

_DEFAULT_SYSTEM = "You are a helpful assistant"


class Refusal(Exception):
    """A request upstream refuses.

    Attributes:
        status: HTTP status.
        kind: The error object's ``type``.
        facts: Further fields of the error object.
    """

    def __init__(self, message: str, *, status: int = 400, kind: str = "invalid_request_error", **facts: int) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.facts = facts

    @property
    def body(self) -> Json:
        """The answer's body."""
        return {"error": {"code": self.status, "message": str(self), "type": self.kind, **self.facts}}


class ServerFault(Refusal):
    """A request upstream fails on: its exceptions that are not about arguments become 500."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=500, kind="server_error")


class Template:
    """What the model's chat template can do, read off its text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.has_tools = "tools" in source
        self.has_calls = "tool_calls" in source
        self.thinks = "<think>" in source or "enable_thinking" in source

    @property
    def capabilities(self) -> Json:
        """``chat_template_caps`` of ``/props``."""
        return {
            "supports_object_arguments": self.has_calls,
            "supports_parallel_tool_calls": self.has_calls,
            "supports_preserve_reasoning": False,
            "supports_reasoning_effort": "reasoning_effort" in self.source,
            "supports_string_content": True,
            "supports_system_role": True,
            "supports_tool_calls": self.has_calls,
            "supports_tools": self.has_tools,
            "supports_typed_content": False,
        }

    def render(self, body: Json, *, vision: bool) -> str:
        """The prompt of a chat body.

        Raises:
            Refusal: The messages are not what upstream takes.
        """
        messages = _messages(body, vision=vision)
        prefill = _prefill(messages)
        tools = body.get("tools")
        out: list[str] = []
        if messages and messages[0][0] != "system":
            messages = [("system", _DEFAULT_SYSTEM), *messages]
        for role, content in messages:
            extra = ""
            if role == "system" and tools and self.has_tools:
                extra = "\n\n# Tools\n<tools>\n" + "\n".join(json.dumps(tool) for tool in tools) + "\n</tools>"
            out.append(f"<|im_start|>{role}\n{content}{extra}<|im_end|>\n")
        if prefill is None:
            out.append("<|im_start|>assistant\n")
            if self.thinks and _thinking_is_off(body):
                out.append("<think>\n\n</think>\n\n")
        else:
            # A last assistant turn is continued, not answered.
            out.append(f"<|im_start|>assistant\n{prefill}")
        return "".join(out)


def _thinking_is_off(body: Json) -> bool:
    options = body.get("chat_template_kwargs")
    return isinstance(options, dict) and options.get("enable_thinking") is False


def last_user_text(body: Json) -> str:
    """What the user said last, for the echo."""
    for message in reversed(body.get("messages") or []):
        if isinstance(message, dict) and message.get("role") == "user":
            return _text(message.get("content"), vision=True)
    return ""


def _prefill(messages: list[tuple[str, str]]) -> str | None:
    if messages and messages[-1][0] == "assistant":
        if len(messages) > 1 and messages[-2][0] == "assistant":
            raise Refusal("Cannot have 2 or more assistant messages at the end of the list.")
        return messages.pop()[1]
    return None


def _messages(body: Json, *, vision: bool) -> list[tuple[str, str]]:
    if "messages" not in body:
        raise Refusal("'messages' is required")
    if not isinstance(body["messages"], list):
        raise Refusal("Expected 'messages' to be an array")
    found: list[tuple[str, str]] = []
    for message in body["messages"]:
        if not isinstance(message, dict):
            raise ServerFault(
                f"Failed to parse messages: Expected 'message' to be an object, got {json.dumps(message)}"
            )
        role = message.get("role")
        if role != "assistant" and "content" not in message:
            raise Refusal("All non-assistant messages must contain 'content'")
        if role == "assistant" and "content" not in message and "tool_calls" not in message:
            raise Refusal("Assistant message must contain either 'content' or 'tool_calls'!")
        if not isinstance(role, str):
            shown = json.dumps(message, separators=(",", ":"))
            raise ServerFault(f"Failed to parse messages: Missing 'role' in message: {shown}")
        content = _text(message.get("content"), vision=vision)
        for call in message.get("tool_calls") or []:
            function = call.get("function", {})
            content += f"\n<tool_call>\n{json.dumps(function)}\n</tool_call>"
        found.append((role, content))
    return found


def _text(content: Any, *, vision: bool) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise Refusal("Expected 'content' to be a string or an array")
    parts: list[str] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            parts.append(str(part.get("text", "")))
        elif kind in {"image_url", "input_audio", "input_video"}:
            name = {"image_url": "image", "input_audio": "audio", "input_video": "video"}[kind]
            if not vision:
                raise ServerFault(
                    f"{name} input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
                )
            parts.append("<__media__>")
        else:
            raise Refusal("unsupported content[].type")
    return "\n".join(parts)


def from_messages_api(body: Json) -> Json:
    """An Anthropic body as a chat body."""
    if "messages" not in body:
        raise ServerFault("'messages' is required")
    chat = {key: value for key, value in body.items() if key not in {"system", "messages", "tools", "tool_choice"}}
    messages: list[Json] = []
    if body.get("system"):
        messages.append({"role": "system", "content": _joined(body["system"])})
    for message in body["messages"]:
        messages += _from_anthropic(message)
    chat["messages"] = messages
    chat.setdefault("max_tokens", 4096)
    if body.get("tools"):
        chat["tools"] = [
            {"type": "function", "function": {"name": tool.get("name"), "parameters": tool.get("input_schema", {})}}
            for tool in body["tools"]
        ]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        chat["tool_choice"] = {"any": "required", "tool": "required"}.get(str(choice.get("type")), "auto")
    if body.get("stop_sequences"):
        chat["stop"] = body["stop_sequences"]
    return chat


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return str(value)


def _from_anthropic(message: Json) -> list[Json]:
    content = message.get("content")
    if not isinstance(content, list):
        return [message]
    turns: list[Json] = []
    parts: list[Json] = []
    calls: list[Json] = []
    for block in content:
        match block.get("type"):
            case "text":
                parts.append({"type": "text", "text": block.get("text", "")})
            case "image":
                parts.append({"type": "image_url", "image_url": {"url": ""}})
            case "tool_use":
                function = {"name": block.get("name"), "arguments": json.dumps(block.get("input", {}))}
                calls.append({"id": block.get("id"), "type": "function", "function": function})
            case "tool_result":
                result = {"role": "tool", "tool_call_id": block.get("tool_use_id")}
                turns.append({**result, "content": _joined(block.get("content") or "")})
            case _:
                continue
    if parts or calls:
        turn: Json = {"role": message.get("role"), "content": parts}
        turns.append({**turn, "tool_calls": calls} if calls else turn)
    return turns


def from_responses_api(body: Json) -> Json:
    """An OpenAI Responses body as a chat body."""
    if "input" not in body:
        raise Refusal("'input' is required")
    if body.get("previous_response_id"):
        raise Refusal("llama.cpp does not support 'previous_response_id'.")
    known = {"input", "instructions", "max_output_tokens", "tools"}
    chat = {key: value for key, value in body.items() if key not in known}
    messages: list[Json] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    if isinstance(body["input"], str):
        messages.append({"role": "user", "content": body["input"]})
    elif isinstance(body["input"], list):
        messages += [_from_response_item(item) for item in body["input"]]
    else:
        raise Refusal("'input' must be a string or array of objects")
    chat["messages"] = messages
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    if body.get("tools"):
        chat["tools"] = [{"type": "function", "function": tool} for tool in body["tools"]]
    return chat


def _from_response_item(item: Json) -> Json:
    match item:
        case {"type": "function_call"}:
            function = {"name": item.get("name"), "arguments": item.get("arguments", "")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        case {"type": "function_call_output"}:
            return {"role": "tool", "tool_call_id": item.get("call_id"), "content": _joined(item.get("output", ""))}
        case {"role": str(role), "content": content}:
            return {"role": role, "content": _joined(content)}
        case _:
            raise Refusal("Cannot determine type of 'item'")
