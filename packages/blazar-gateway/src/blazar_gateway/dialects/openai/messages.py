"""The messages of a chat: checked, and repaired where clients and engines differ."""

from typing import cast

from blazar_gateway.dialects.json_objects import JsonObject, dump, json_kind
from blazar_routing.errors import InvalidRequest

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def check_messages(value: object) -> bool:
    """Check the messages in place; return whether one was changed.

    What is repaired: ``developer`` becomes ``system`` (templates know no other name for it); an assistant turn
    without content and without calls, and a tool or system message without content, get ``""``; arguments of a past
    call are a JSON string, never an object or empty (llama-server answers 500 to those).

    Raises:
        InvalidRequest: They are not a list of messages; the error names the first that is wrong.
    """
    if type(value) is not list:
        raise _wrong("messages", value, "an array of messages")
    if not value:
        raise InvalidRequest("messages is empty: a chat needs at least one message.", param="messages")
    changed = False
    for index, message in enumerate(value):
        if type(message) is not dict:
            raise _wrong(f"messages[{index}]", message, "an object")
        changed |= _check_message(index, cast("JsonObject", message))
    return changed


def _check_message(index: int, message: JsonObject) -> bool:
    role = message.get("role")
    if type(role) is not str or role not in _ROLES:
        raise _bad_role(index, role)
    content = message.get("content")
    if type(content) is str:
        changed = False
    elif type(content) is list and content:
        changed = _check_parts(index, content)
    else:
        changed = _check_empty(index, message, role, content)
    if role == "developer":
        message["role"] = "system"
        changed = True
    if role == "assistant":
        changed |= _check_calls(index, message)
    return changed


def _bad_role(index: int, role: object) -> InvalidRequest:
    where = f"messages[{index}].role"
    shown = f"'{role}'" if isinstance(role, str) else json_kind(role)
    return InvalidRequest(f"{where} is {shown}; it must be system, developer, user, assistant or tool.", param=where)


def _check_empty(index: int, message: JsonObject, role: str, content: object) -> bool:
    """Decide on content that is neither text nor parts; return whether the message was changed."""
    where = f"messages[{index}].content"
    if content is not None and content != []:
        raise _wrong(where, content, "a string or an array of parts")
    if role == "user":
        shown = "missing" if "content" not in message else "null" if content is None else "empty"
        raise InvalidRequest(f"{where} is {shown}: a user message needs a string or an array of parts.", param=where)
    if content is None and role == "assistant" and (message.get("tool_calls") or message.get("function_call")):
        return False
    message["content"] = ""
    return True


def _check_parts(index: int, parts: list[object]) -> bool:
    """Check parts in place; return whether one was changed: a refusal is a text to engines."""
    changed = False
    for place, part in enumerate(parts):
        where = f"messages[{index}].content[{place}]"
        if type(part) is not dict:
            raise _wrong(where, part, "an object with a type")
        kind = part.get("type")
        if type(kind) is not str:
            raise _wrong(f"{where}.type", kind, "a string")
        if kind in {"text", "refusal"} and type(part.get(kind)) is not str:
            raise _wrong(f"{where}.{kind}", part.get(kind), "a string")
        if kind == "refusal":
            parts[place] = {"type": "text", "text": part["refusal"]}
            changed = True
    return changed


def _check_calls(index: int, message: JsonObject) -> bool:
    calls = message.get("tool_calls")
    if calls is None:
        return False
    where = f"messages[{index}].tool_calls"
    if type(calls) is not list:
        raise _wrong(where, calls, "an array")
    if not calls:
        # Some SDKs always send the key; templates test for its presence.
        del message["tool_calls"]
        if message.get("content") is None:
            message["content"] = ""
        return True
    changed = False
    for place, call in enumerate(calls):
        function = call.get("function") if type(call) is dict else None
        if type(function) is not dict or type(function.get("name")) is not str:
            raise InvalidRequest(
                f"{where}[{place}] must be an object with a function that has a name.", param=f"{where}[{place}]"
            )
        changed |= _check_arguments(f"{where}[{place}].function.arguments", function)
    return changed


def _check_arguments(where: str, function: JsonObject) -> bool:
    arguments = function.get("arguments")
    if type(arguments) is str:
        if arguments.strip():
            return False
        function["arguments"] = "{}"
        return True
    if arguments is None:
        function["arguments"] = "{}"
        return True
    if type(arguments) is dict:
        function["arguments"] = dump(arguments).decode()
        return True
    raise _wrong(where, arguments, "a string of JSON")


def _wrong(where: str, value: object, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"{where} must be {wanted}, not {json_kind(value)}.", param=where)
