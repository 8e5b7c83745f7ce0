"""A body's form: its fields, what is checked of each, and the same as a JSON Schema."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blazar_gateway.dialects.json_objects import JsonObject, parse_object
from blazar_gateway.dialects.openai.parameters import SCHEMAS, Check, check_fields


@dataclass(frozen=True, slots=True)
class Described:
    """A field that is checked in its dialect's own words, where it is used; the table says its form.

    Attributes:
        schema: JSON Schema of what is accepted, null aside.
    """

    schema: Mapping[str, Any]

    def __call__(self, name: str, value: object) -> object:  # noqa: ARG002 - a check's form
        """Return the value as it is."""
        return value


@dataclass(frozen=True, slots=True)
class Form:
    """The body of a route.

    Unknown fields pass, and null means absent.

    Attributes:
        title: The schema's name.
        checks: The fields.
        required: Fields that must be there.
        one_of: Fields of which one must be there (``model`` or its old name).
    """

    title: str
    checks: Mapping[str, Check]
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()

    def parse(self, raw: bytes) -> JsonObject:
        """Return the object in a body, its fields checked.

        Raises:
            InvalidRequest: It is no object, or a field is of the wrong type.
        """
        body = parse_object(raw)
        check_fields(body, self.checks)
        return body

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what is accepted."""
        needed = {*self.required, *(self.one_of if len(self.one_of) == 1 else ())}
        properties = {name: _schema(check, nullable=name not in needed) for name, check in self.checks.items()}
        schema: dict[str, Any] = {"type": "object", "title": self.title, "properties": properties}
        if needed:
            schema["required"] = sorted(needed)
        if len(self.one_of) > 1:
            schema["anyOf"] = [
                {"required": [name], "properties": {name: _schema(self.checks[name], nullable=False)}}
                for name in self.one_of
            ]
        return schema


def _schema(check: Check, *, nullable: bool) -> dict[str, Any]:
    found = check.schema if isinstance(check, Described) else SCHEMAS[check]
    return {"anyOf": [dict(found), {"type": "null"}]} if nullable and found else dict(found)
