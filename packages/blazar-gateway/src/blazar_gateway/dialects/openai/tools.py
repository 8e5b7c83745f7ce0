"""Tools, the choice among them, and the form of the answer: reduced to what engines understand."""

from typing import cast

from blazar_gateway.dialects.json_objects import JsonObject, json_kind
from blazar_routing.errors import InvalidRequest

_CHOICES = frozenset({"none", "auto", "required"})


def check_tools(fields: JsonObject) -> bool:
    """Check ``tools`` and ``tool_choice`` in place; return whether something was changed.

    An empty list means none. llama-server ignores a choice that is an object, so the list is reduced to what was
    chosen and the choice becomes ``required`` (or the mode of ``allowed_tools``).

    Raises:
        InvalidRequest: One of them has a wrong form, or a tool is chosen that is not there.
    """
    tools = fields.get("tools")
    if tools is not None:
        _check_list(tools)
    changed = False
    if tools == []:
        del fields["tools"]
        tools, changed = None, True
    choice = fields.get("tool_choice")
    if choice is None:
        return changed
    if tools is None:
        return _choose_without_tools(fields, choice)
    match choice:
        case str():
            if choice not in _CHOICES:
                raise _bad_choice(f"'{choice}'")
            return changed
        case dict():
            _reduce(fields, cast("list[JsonObject]", tools), choice)
            return True
        case _:
            raise _bad_choice(json_kind(choice))


def _check_list(tools: object) -> None:
    if type(tools) is not list:
        raise InvalidRequest(f"tools must be an array, not {json_kind(tools)}.", param="tools")
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        if type(tool) is not dict or type(tool.get("type")) is not str:
            raise InvalidRequest(f"{where} must be an object with a type.", param=where)
        if tool["type"] == "function":
            function = tool.get("function")
            if type(function) is not dict or type(function.get("name")) is not str:
                raise InvalidRequest(f"{where}.function must be an object with a name.", param=f"{where}.function")


def _choose_without_tools(fields: JsonObject, choice: object) -> bool:
    if choice in {"none", "auto"} if isinstance(choice, str) else False:
        del fields["tool_choice"]
        return True
    raise InvalidRequest("tool_choice asks for a tool, but there are no tools in the request.", param="tool_choice")


def _reduce(fields: JsonObject, tools: list[JsonObject], choice: JsonObject) -> None:
    match choice:
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            names, mode = {name}, "required"
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(allowed)}}:
            names = {_function_name(tool) for tool in allowed}
        case _:
            raise _bad_choice("an object of another form")
    kept = [tool for tool in tools if _function_name(tool) in names]
    if not kept:
        missing = ", ".join(sorted(name for name in names if name))
        raise InvalidRequest(f"tool_choice names '{missing}', which is not among the tools.", param="tool_choice")
    fields["tools"] = kept
    fields["tool_choice"] = mode


def _function_name(tool: object) -> str:
    match tool:
        case {"function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return name
        case _:
            return ""


def _bad_choice(shown: str) -> InvalidRequest:
    return InvalidRequest(
        f"tool_choice is {shown}; it must be none, auto, required, "
        'or {"type": "function", "function": {"name": …}}.',
        param="tool_choice",
    )


def check_response_format(fields: JsonObject) -> bool:
    """Check ``response_format`` in place; return whether it was changed.

    llama-server (seen with b10434) does not constrain ``json_object`` unless a schema is there.

    Raises:
        InvalidRequest: It is of no known type, or its schema is missing.
    """
    wanted = fields.get("response_format")
    if wanted is None:
        return False
    match wanted:
        case {"type": "text"} | {"type": "json_object", "schema": dict()}:
            return False
        case {"type": "json_object"}:
            fields["response_format"] = {"type": "json_object", "schema": {"type": "object"}}
            return True
        case {"type": "json_schema", "json_schema": {"schema": dict()}}:
            return False
        case {"type": "json_schema"}:
            raise InvalidRequest(
                "response_format.json_schema must be an object with a schema that is an object.",
                param="response_format.json_schema",
            )
        case _:
            raise InvalidRequest(
                'response_format must be an object whose type is "text", "json_object" or "json_schema".',
                param="response_format",
            )
