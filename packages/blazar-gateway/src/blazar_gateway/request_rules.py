"""What a model's owner decides about the parameters of requests, put into the canonical request. Pure.

Every dialect is translated to OpenAI's words before; so Ollama's options, Anthropic's and the Responses API's fields
obey the same rules as OpenAI's own.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

_ARGUMENTS: Final = "chat_template_kwargs"
_SWITCH: Final = "enable_thinking"
_EFFORT: Final = "reasoning_effort"
_THINK: Final = "think"

_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "max_tokens": ("max_completion_tokens", "n_predict"),
    "tools": ("functions",),
    "tool_choice": ("function_call",),
}
"""What clients write for the same."""

_CHATS_ONLY: Final = frozenset({_EFFORT, _ARGUMENTS, "parallel_tool_calls"})


@dataclass(frozen=True, slots=True)
class RequestRules:
    """The rules of one model.

    Attributes:
        default: Fields used where a request leaves them out or has null.
        force: Fields used whatever a request says.
        strip: Fields taken out.
        decides_thinking: Whether the model's settings say themselves if it thinks where a request does not.
    """

    default: Mapping[str, object] = field(default_factory=dict)
    force: Mapping[str, object] = field(default_factory=dict)
    strip: tuple[str, ...] = ()
    decides_thinking: bool = False

    @property
    def change_requests(self) -> bool:
        """Whether there is anything to apply."""
        return bool(self.default or self.force or self.strip)

    @property
    def overrule_thinking(self) -> bool:
        """Whether a client's wish to think, or not to, counts for nothing."""
        arguments = self.force.get(_ARGUMENTS)
        by_argument = isinstance(arguments, Mapping) and _SWITCH in arguments
        return _THINK in self.strip or _EFFORT in self.force or by_argument

    def apply(self, fields: MutableMapping[str, object], *, chat: bool) -> None:
        """Change a canonical request in place.

        Args:
            fields: The request.
            chat: Whether it is one; a text completion has no template and no tools.
        """
        for name in self.strip:
            for spelling in _spellings(name):
                fields.pop(spelling, None)
        for name, value in self.default.items():
            if chat or name not in _CHATS_ONLY:
                _fill(fields, name, value)
        for name, value in self.force.items():
            if chat or name not in _CHATS_ONLY:
                _overrule(fields, name, value)


NO_RULES: Final = RequestRules()


def _spellings(name: str) -> tuple[str, ...]:
    return (name, *_OTHER_NAMES.get(name, ()))


def _arguments(fields: Mapping[str, object]) -> dict[str, object]:
    given = fields.get(_ARGUMENTS)
    return dict(given) if isinstance(given, Mapping) else {}


def _fill(fields: MutableMapping[str, object], name: str, value: object) -> None:
    if name == _ARGUMENTS and isinstance(value, Mapping):
        fields[name] = {**value, **_arguments(fields)}
    elif all(fields.get(spelling) is None for spelling in _spellings(name)):
        fields[name] = value


def _overrule(fields: MutableMapping[str, object], name: str, value: object) -> None:
    if name == _ARGUMENTS and isinstance(value, Mapping):
        fields[name] = {**_arguments(fields), **value}
        return
    for spelling in _spellings(name):
        fields.pop(spelling, None)
    if name == _EFFORT:
        # What a client says to the template itself would go before the effort.
        left = {key: kept for key, kept in _arguments(fields).items() if key not in {_SWITCH, _EFFORT}}
        fields.pop(_ARGUMENTS, None)
        if left:
            fields[_ARGUMENTS] = left
    fields[name] = value
