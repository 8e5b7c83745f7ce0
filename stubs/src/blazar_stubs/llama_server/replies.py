"""What the stub says: an echo of what it was told, or what a script wants said.

Deterministic. Without a script the answer is ``You said: <the last user text>``. When `max_tokens` is at most 256,
or `ignore_eos` is set, the echo goes round until exactly that many tokens are made (finish "length"); otherwise it
ends by itself (finish "stop").
"""

import json
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from blazar_stubs.llama_server.identifiers import random_word
from blazar_stubs.llama_server.knobs import Json, Script
from blazar_stubs.llama_server.params import Params
from blazar_stubs.llama_server.results import Piece, ToolDelta
from blazar_stubs.llama_server.scripts import without_directives
from blazar_stubs.llama_server.tokenizer import pieces_of, tokenize

FILLED_EXACTLY = 256
_ECHO_CHARACTERS = 400


def plan(script: Script, params: Params, *, heard: str, tools: list[Json]) -> Iterator[Piece]:
    """The pieces of one answer, endless where the token limit is to end it."""
    if "reasoning" in script:
        yield from _texts("reasoning", script["reasoning"])
    if "tool_calls" in script:
        if script.get("text"):
            yield from _texts("content", script["text"])
        for position, call in enumerate(script["tool_calls"]):
            yield from _call(call, position)
        return
    if not script.keys() & {"text", "n_tokens", "reasoning"} and _must_call(params.body, tools):
        yield from _call(_called(params.body, tools), 0)
        return
    text = script.get("text", "" if "reasoning" in script else "You said: " + _heard(heard))
    pieces = list(_texts("content", text))
    if "n_tokens" in script:
        yield from islice(cycle(pieces), script["n_tokens"])
    elif params.ignore_eos or ("text" not in script and 0 < params.predict <= FILLED_EXACTLY):
        yield from cycle([*pieces, *_texts("content", " ")])
    else:
        yield from pieces


def _heard(text: str) -> str:
    return without_directives(text)[:_ECHO_CHARACTERS] or "nothing"


def _texts(kind: str, text: str) -> Iterator[Piece]:
    for part in pieces_of(text):
        yield Piece(kind, part, tuple(tokenize(part, special=False)))


def _call(call: Json, position: int) -> Iterator[Piece]:
    """A call's first piece names it; its arguments follow as the model would write them."""
    given = call.get("arguments", {})
    arguments = given if isinstance(given, str) else json.dumps(given)
    index = call.get("index", position)
    parts = pieces_of(arguments) or [""]
    head = ToolDelta(index, call.get("id") or random_word(32), call["name"], parts[0])
    yield Piece("tool", "", tuple(tokenize(parts[0], special=False)) or (0,), head)
    for part in parts[1:]:
        yield Piece("tool", "", tuple(tokenize(part, special=False)), ToolDelta(index, "", "", part))


def _must_call(body: Json, tools: list[Json]) -> bool:
    choice = body.get("tool_choice")
    return bool(tools) and (choice == "required" or isinstance(choice, dict))


def _called(body: Json, tools: list[Json]) -> Json:
    """A call of the tool asked for, else of the first, with the plainest arguments its schema allows."""
    choice = body.get("tool_choice")
    wanted = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    functions: list[Json] = [tool.get("function", tool) for tool in tools]
    function = next((each for each in functions if each.get("name") == wanted), functions[0])
    return {"name": function.get("name", ""), "arguments": _plainest(function.get("parameters") or {})}


def _plainest(schema: Json) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "string":
            return "x"
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "array":
            return []
        case _:
            properties: Json = schema.get("properties", {})
            return {name: _plainest(properties[name]) for name in schema.get("required", []) if name in properties}
