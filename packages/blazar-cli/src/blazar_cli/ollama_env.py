"""Ollama's own variables, honoured as defaults: below flags and ``config.toml``, above what is built in.

Whoever moves here from Ollama has them in a shell profile or a service unit. ``OLLAMA_HOST`` is read by
:mod:`blazar_cli.address`. A variable that is set to nothing counts as not set; one that cannot be understood is refused
at the start, rather than served around. Those of Ollama's server that stand for nothing here are named then.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from blazar_routing.durations import FOREVER_S, read_seconds
from blazar_store.errors import ConfigInvalid, ConfigProblem
from blazar_store.settings import Settings
from blazar_store.settings_models import DAY_S, YEAR_S
from blazar_store.settings_words import expectation


@dataclass(frozen=True, slots=True)
class EnvDefault:
    """A variable that is set, as the setting that it stands for.

    Attributes:
        variable: ``OLLAMA_KEEP_ALIVE``.
        text: As it was written.
        setting: Where the setting stands in ``config.toml``: ``("defaults", "ctx")``.
        value: As it would stand there.
    """

    variable: str
    text: str
    setting: tuple[str, ...]
    value: object

    @property
    def dotted(self) -> str:
        """The setting's name as ``blazar config show`` writes it."""
        return ".".join(self.setting)

    def as_settings(self) -> dict[str, object]:
        """Return the content of a ``config.toml`` that says just this."""
        value = self.value
        for name in reversed(self.setting):
            value = {name: value}
        return dict(value) if isinstance(value, dict) else {}


def read_ollama_defaults(environ: Mapping[str, str]) -> tuple[EnvDefault, ...]:
    """Return what Ollama's variables say.

    Raises:
        ConfigInvalid: One cannot be understood; all of those are listed.
    """
    found, problems = [], []
    for variable, (setting, read) in _VARIABLES:
        text = _text(environ, variable)
        if not text:
            continue
        try:
            value = read(text)
        except ValueError as error:
            problems.append(_problem(variable, text, str(error)))
            continue
        if value is None:
            continue
        default = EnvDefault(variable, text, setting, value)
        try:
            Settings.model_validate(default.as_settings())
        except ValidationError:
            problems.append(_problem(variable, text, f"must be {expectation(setting)}"))
        else:
            found.append(default)
    if problems:
        # One that stands for two settings is wrong once.
        raise ConfigInvalid(path=Path("environment"), problems=tuple(dict.fromkeys(problems)))
    return tuple(found)


def unused_warning(environ: Mapping[str, str]) -> str:
    """Return one line about Ollama's variables that are set and have no effect here, ``""`` when there are none."""
    used = {variable for variable, _ in _VARIABLES} | _NOT_THE_SERVERS
    unused = sorted(name for name in environ if _OLLAMA.fullmatch(name) and name not in used and _text(environ, name))
    if not unused:
        return ""
    shown = [f"{name} ({_INSTEAD[name]})" if name in _INSTEAD else name for name in unused]
    verb = "is" if len(shown) == 1 else "are"
    listed = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f"{listed} {verb} not used by Blazar: what Blazar goes by is in config.toml (`blazar config sample`)."


def as_settings(defaults: tuple[EnvDefault, ...]) -> dict[str, object]:
    """Return the defaults together, as the content of a ``config.toml`` that says them."""
    merged: dict[str, object] = {}
    for default in defaults:
        for name, value in default.as_settings().items():
            known = merged.get(name)
            merged[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def describe_environment(defaults: tuple[EnvDefault, ...], settings: Settings) -> list[dict[str, object]]:
    """Return the variables as ``blazar status`` tells them, with whether each holds or the file says otherwise."""
    plain = settings.model_dump(mode="json")
    return [
        {
            "variable": default.variable,
            "text": default.text,
            "setting": default.dotted,
            "value": default.value,
            "holds": _at(plain, default.setting) == default.value,
        }
        for default in defaults
    ]


def _text(environ: Mapping[str, str], variable: str) -> str:
    return environ.get(variable, "").strip().strip("\"'").strip()


def _at(plain: object, path: tuple[str, ...]) -> object:
    for name in path:
        plain = plain.get(name) if isinstance(plain, dict) else None
    return plain


def _problem(variable: str, text: str, reason: str) -> ConfigProblem:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return ConfigProblem(f'{variable} is "{shown}", and it {reason}; correct it or unset it.', key=variable)


def _keep_alive(text: str) -> object:
    seconds = read_seconds(text)
    if seconds is None:
        raise ValueError('must be seconds (300), a duration ("5m", "1h30m"), 0, or negative for ever')
    if seconds < 0 or seconds > FOREVER_S:
        return 0  # never
    # 0 is "unload after the answer" to Ollama and "never" to this setting: a second is the least there is.
    return min(max(math.ceil(seconds), 1), YEAR_S)


def _load_timeout(text: str) -> object:
    seconds = read_seconds(text)
    if seconds is None:
        raise ValueError('must be seconds (300), a duration ("5m", "1h30m"), or 0 for ever')
    # 0 and less are "for ever" to Ollama; a day is the most there is.
    return min(max(math.ceil(seconds), 1), DAY_S) if seconds > 0 else DAY_S


def _count(text: str) -> object:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("must be a whole number")
    # Ollama's word for "decide yourself".
    return int(text) or None


def _origins(text: str) -> object:
    return [origin.strip().removesuffix("/") for origin in text.split(",") if origin.strip()]


_VARIABLES: Sequence[tuple[str, tuple[tuple[str, ...], Callable[[str], object]]]] = (
    ("OLLAMA_KEEP_ALIVE", (("idle_timeout_secs",), _keep_alive)),
    ("OLLAMA_CONTEXT_LENGTH", (("defaults", "ctx"), _count)),
    ("OLLAMA_NUM_PARALLEL", (("defaults", "slots"), _count)),
    ("OLLAMA_ORIGINS", (("allowed_origins",), _origins)),
    ("OLLAMA_MAX_LOADED_MODELS", (("max_loaded_models",), _count)),
    ("OLLAMA_MAX_QUEUE", (("queue_limit",), _count)),
    ("OLLAMA_KV_CACHE_TYPE", (("defaults", "cache_type_k"), str.lower)),
    ("OLLAMA_KV_CACHE_TYPE", (("defaults", "cache_type_v"), str.lower)),
    ("OLLAMA_LOAD_TIMEOUT", (("load_timeout_secs",), _load_timeout)),
)

_OLLAMA = re.compile(r"OLLAMA_[A-Z0-9_]+")
_NOT_THE_SERVERS = frozenset(
    {"OLLAMA_HOST", "OLLAMA_API_KEY", "OLLAMA_API_BASE", "OLLAMA_BASE_URL", "OLLAMA_EDITOR", "OLLAMA_NOHISTORY"}
)
"""Read elsewhere, or meant for clients."""
_INSTEAD = {
    "OLLAMA_MODELS": "`blazar import ollama` reads it",
    "OLLAMA_DEBUG": 'set log_level = "debug"',
    "OLLAMA_GPU_OVERHEAD": "memory is accounted for before a load: see `blazar fit`",
}
