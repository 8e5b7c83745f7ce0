"""Tool calls in pieces, as engines write them, put in order.

Repairs, each seen in the field: parallel calls that all carry index 0 (another id is another call; where there are no
ids, another name after complete arguments is); calls without an id, or with the id and name repeated in every piece;
arguments as an object instead of a string.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CallPiece:
    """One piece of a call, in its place.

    Attributes:
        index: 0, 1, 2 ... in order of appearance, without gaps.
        id: Unique and not empty.
        begins: Whether it is the call's first piece.
        name: The function's; of a later piece it says nothing new.
        arguments: Some characters of JSON, or ``""``.
    """

    index: int
    id: str
    begins: bool
    name: str
    arguments: str


class CallPieces:
    """The calls of one choice.

    Args:
        new_call_id: Makes an id for a call that came without one.

    Attributes:
        count: Calls that have begun.
    """

    __slots__ = ("_arguments", "_by_wire_index", "_ids", "_new_call_id", "count")

    def __init__(self, *, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._by_wire_index: dict[Any, int] = {}
        self._ids: list[str] = []
        # Of calls that came without an id, since only their arguments tell where the next one begins.
        self._arguments: dict[int, str] = {}
        self.count = 0

    def take(self, call: Mapping[str, Any]) -> CallPiece:
        """Return an entry of a delta's (or a message's) ``tool_calls`` in its place."""
        given = call.get("function")
        function = given if isinstance(given, dict) else {}
        wire_index, wire_id = call.get("index"), call.get("id") or None
        name, arguments = str(function.get("name") or ""), as_text(function.get("arguments"))
        index = self._find(wire_index, wire_id, named=bool(name))
        begins = index is None
        if index is None:
            index = self.count
            self.count += 1
            self._ids.append(str(wire_id or self._new_call_id()))
            if wire_id is None:
                self._arguments[index] = ""
        self._by_wire_index[wire_index] = index
        if index in self._arguments:
            self._arguments[index] += arguments
        return CallPiece(index, self._ids[index], begins=begins, name=name, arguments=arguments)

    def _find(self, wire_index: object, wire_id: object, *, named: bool) -> int | None:
        """Return the call that a piece belongs to, or ``None`` if it begins one."""
        index = self._by_wire_index.get(wire_index)
        if wire_id is not None:
            if index is not None and self._ids[index] == wire_id:
                return index
            return self._ids.index(str(wire_id)) if str(wire_id) in self._ids else None
        if index is not None and named and is_complete(self._arguments.get(index, "")):
            return None
        return index


def as_text(arguments: object) -> str:
    """Return a call's arguments as a string of JSON, whatever an engine wrote them as."""
    if isinstance(arguments, dict | list):
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return str(arguments) if arguments else ""


def is_complete(arguments: str) -> bool:
    """Return whether a call's arguments so far are a whole JSON object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False
