"""Fields that several bodies have, checked where they are used."""

from blazar_gateway.forms.form import Described

NAME = Described({"type": "string", "minLength": 1})
"""A model's name."""

KEEP_ALIVE = Described({"type": ["number", "string"], "examples": ["5m", 300, -1]})
ANY = Described({})
TEXT = Described({"type": "string"})
FLAG = Described({"type": "boolean"})
OBJECT = Described({"type": "object"})
OBJECTS = Described({"type": "array", "items": {"type": "object"}})
TEXTS = Described({"type": "array", "items": {"type": "string"}})
COUNT = Described({"type": "integer", "minimum": 1})
WHOLE = Described({"type": "integer"})


def choice(*words: str) -> Described:
    """Return a field that holds one of some words."""
    return Described({"type": "string", "enum": list(words)})


def message(*roles: str) -> Described:
    """Return the field ``messages`` of a dialect with these roles."""
    item = {
        "type": "object",
        "properties": {"role": {"type": "string", "enum": list(roles)}, "content": {}},
        "required": ["role"],
    }
    return Described({"type": "array", "items": item})
