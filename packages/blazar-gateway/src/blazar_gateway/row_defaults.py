"""What a row adds to the requests that come for it: parameters, a system prompt, turns to begin with. Pure.

The one place where the two meet, whatever the dialect: it works on the canonical request. A row is the weakest voice:
what the client sent stays, and so does what the settings of the model say; only what nobody said comes from the row.
"""

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from blazar_gateway.dialects.ollama.options import translate_options
from blazar_gateway.ports import ModelCard
from blazar_routing.errors import InvalidRequest
from blazar_store.types import RowOverlay

_log = logging.getLogger("blazar.gateway")

_SYSTEM_ROLES = frozenset({"system", "developer"})
_SAME: Mapping[str, tuple[str, ...]] = {"max_tokens": ("max_completion_tokens", "n_predict")}
"""Fields that go by other names too; any of them counts as said."""


@dataclass(frozen=True, slots=True)
class RowDefaults:
    """A row's defaults as fields of the canonical request. False when there are none.

    Attributes:
        fields: By the engine's names.
        system: A system prompt for conversations that bring none, or ``""``.
        messages: Turns that every conversation begins with.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""
    messages: tuple[Mapping[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fields or self.system or self.messages)


_NOTHING = RowDefaults()
_BARE = RowOverlay()


def defaults_of(card: ModelCard) -> RowDefaults:
    """Return what a model's row adds to its requests, apart from what the settings never let through."""
    if card.overlay == _BARE:
        return _NOTHING
    found = _translated(card)
    kept = {name: value for name, value in found.fields.items() if name not in card.rules.strip}
    return found if len(kept) == len(found.fields) else replace(found, fields=kept)


@lru_cache(maxsize=1024)
def _translated(card: ModelCard) -> RowDefaults:
    overlay = card.overlay
    try:
        return row_defaults(overlay.parameters, overlay.system, overlay.messages)
    except InvalidRequest as error:
        # They were checked when the row was made; somebody has been in the database since.
        _log.warning("the parameters of model '%s' are not used: %s", card.name, error)
        return row_defaults({}, overlay.system, overlay.messages)


def row_defaults(
    parameters: Mapping[str, object], system: str = "", messages: Sequence[Mapping[str, str]] = ()
) -> RowDefaults:
    """Return the defaults that an overlay says.

    Args:
        parameters: By Ollama's names; those of the load are left out.
        system: The system prompt.
        messages: Turns with ``role`` and ``content``.

    Raises:
        InvalidRequest: A parameter is of the wrong type, in Ollama's words.
    """
    return RowDefaults(translate_options(parameters).fields, system, tuple(messages))


def fill_parameters(fields: MutableMapping[str, Any], defaults: RowDefaults) -> bool:
    """Put a row's parameters where the request says nothing; return whether there were any."""
    changed = False
    for name, value in defaults.fields.items():
        if any(fields.get(same) is not None for same in (name, *_SAME.get(name, ()))):
            continue
        fields[name] = value
        changed = True
    return changed


def fill_chat(fields: MutableMapping[str, Any], defaults: RowDefaults, *, continues: bool = False) -> bool:
    """Put a row's defaults into a chat, in place; return whether it was changed.

    The row's turns stand behind the system prompt, since most templates take one only at the very beginning.

    Args:
        fields: The canonical request; its list of messages is replaced, not changed.
        defaults: The row's.
        continues: Whether the conversation's beginning is elsewhere (Ollama's ``context``), with all it begins with.
    """
    changed = fill_parameters(fields, defaults)
    if continues or not (defaults.system or defaults.messages):
        return changed
    messages = fields.get("messages")
    if not isinstance(messages, list):
        return changed
    led = 0
    while led < len(messages) and _role(messages[led]) in _SYSTEM_ROLES:
        led += 1
    said = any(_role(message) in _SYSTEM_ROLES for message in messages)
    system = [{"role": "system", "content": defaults.system}] if defaults.system and not said else []
    fields["messages"] = [*system, *messages[:led], *(dict(turn) for turn in defaults.messages), *messages[led:]]
    return changed or bool(system) or bool(defaults.messages)


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, Mapping) else None
