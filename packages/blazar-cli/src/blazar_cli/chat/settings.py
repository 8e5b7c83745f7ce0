"""What can be set for a chat, and the request body that follows from it."""

from dataclasses import dataclass, fields, replace
from typing import Any

from blazar_cli.errors import CliError
from blazar_cli.exit_codes import ExitCode


class SettingRefused(CliError):
    """``/set`` or an option with a value that makes no sense; the chat goes on."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How to ask. ``None`` leaves a value to the model's own defaults.

    Attributes:
        system: The system message.
        temperature: 0 and up.
        top_p: Above 0, up to 1.
        top_k: 0 (off) and up.
        seed: Makes an answer repeatable.
        max_tokens: The most tokens to generate, thinking included.
        think: Whether the model should think first, where its template knows how.
        show_thinking: Whether thinking is shown (on a terminal only).
        verbose: Whether tokens and speed are shown after an answer.
        json_answer: Whether the answer must be a JSON object.
        keep_alive: How long the model stays loaded afterwards, as the API takes it.
    """

    system: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    max_tokens: int | None = None
    think: bool | None = None
    show_thinking: bool = True
    verbose: bool = False
    json_answer: bool = False
    keep_alive: str | None = None


SETTABLE: dict[str, str] = {
    "system": "TEXT, the system message (empty: none)",
    "temperature": "NUMBER, 0 and up",
    "top_p": "NUMBER, above 0 and up to 1",
    "top_k": "NUMBER, 0 and up",
    "seed": "NUMBER",
    "max_tokens": "NUMBER, 1 and up",
    "think": "on or off",
    "show_thinking": "on or off",
    "verbose": "on or off",
    "json_answer": "on or off",
}
"""What ``/set`` takes, and what it wants."""

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, float("inf")),
    "top_p": (0, 1),
    "top_k": (0, float("inf")),
    "seed": (float("-inf"), float("inf")),
    "max_tokens": (1, float("inf")),
}
_WORDS = {"on": True, "off": False, "true": True, "false": False, "yes": True, "no": False}


def change_setting(settings: ChatSettings, name: str, value: str) -> ChatSettings:
    """Return ``settings`` with one of them changed; an empty value goes back to the default.

    Raises:
        SettingRefused: There is no such setting, or the value is not one for it.
    """
    if name not in SETTABLE:
        known = ", ".join(SETTABLE)
        raise SettingRefused(f"there is no setting '{name}'. Type `/set NAME VALUE` with one of: {known}.")
    change: dict[str, Any] = {name: _value(name, value)}
    return replace(settings, **change)


def _value(name: str, value: str) -> str | float | bool | None:
    if not value:
        default: str | float | bool | None = getattr(ChatSettings(), name)
        return default
    if name == "system":
        return value
    if name in _RANGES:
        return _number(name, value)
    if value.lower() not in _WORDS:
        raise SettingRefused(f"'{value}' is not a value of '{name}': it wants {SETTABLE[name]}.")
    return _WORDS[value.lower()]


def _number(name: str, value: str) -> float:
    low, high = _RANGES[name]
    try:
        number = float(value) if name in {"temperature", "top_p"} else int(value)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:  # also where it is not a number
        raise SettingRefused(f"'{value}' is not a value of '{name}': it wants {SETTABLE[name]}.")
    return number


def describe(settings: ChatSettings) -> list[tuple[str, str]]:
    """Return the settings that differ from the defaults, as names and values."""
    default = ChatSettings()
    return [
        (field.name, str(getattr(settings, field.name)))
        for field in fields(settings)
        if getattr(settings, field.name) != getattr(default, field.name)
    ]


def chat_body(model: str, turns: list[dict[str, str]], settings: ChatSettings) -> dict[str, object]:
    """Return the body of a streamed ``/v1/chat/completions`` call.

    Args:
        model: The model's name.
        turns: The conversation so far, without a system message.
        settings: How to ask.
    """
    system = [{"role": "system", "content": settings.system}] if settings.system else []
    body: dict[str, object] = {
        "model": model,
        "messages": [*system, *turns],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    for name in ("temperature", "top_p", "top_k", "seed", "max_tokens", "keep_alive"):
        if (value := getattr(settings, name)) is not None:
            body[name] = value
    if settings.think is not None:
        body["chat_template_kwargs"] = {"enable_thinking": settings.think}
    if settings.json_answer:
        body["response_format"] = {"type": "json_object"}
    return body
