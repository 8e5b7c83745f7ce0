"""Ollama's ``options``, field by field, as fields of the engine.

Load-time options do not reach the engine's request: ``num_ctx`` is handed to whoever loads the model, and the others
(threads, GPU layers, mmap ...) are settings of the model row, ignored here as Ollama ignores what it does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blazar_routing.errors import InvalidRequest

FLOATS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repeat_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}
INTEGERS = {
    "seed": "seed",
    "top_k": "top_k",
    "repeat_last_n": "repeat_last_n",
    "mirostat": "mirostat",
    "num_keep": "n_keep",
    "num_predict": "max_tokens",
    "num_ctx": "num_ctx",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What the options became.

    Attributes:
        fields: Fields of the canonical request.
        num_ctx: The context asked for, in tokens, or ``None``.
    """

    fields: dict[str, Any]
    num_ctx: int | None


def translate_options(options: object) -> Options:
    """Translate an ``options`` object; ``None`` is an empty one.

    Raises:
        InvalidRequest: A known option has the wrong type, in Ollama's words.
    """
    if options is None:
        return Options({}, None)
    if not isinstance(options, Mapping):
        raise InvalidRequest("`options` must be an object", param="options")
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name in FLOATS:
            fields[FLOATS[name]] = _number(name, value)
        elif name in INTEGERS:
            fields[INTEGERS[name]] = _integer(name, value)
        elif name == "stop":
            fields["stop"] = _stop(value)
    num_ctx = fields.pop("num_ctx", None)
    if num_ctx is not None and num_ctx < 1:
        raise InvalidRequest('option "num_ctx" must be at least 1', param="options.num_ctx")
    # -1 is "until the model ends", -2 "until the context is full": both are the engine's own default.
    if fields.get("max_tokens", 1) < 0:
        del fields["max_tokens"]
    return Options(fields, num_ctx)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f'option "{name}" must be of type float32', param=f"options.{name}")
    return float(value)


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise InvalidRequest(f'option "{name}" must be of type integer', param=f"options.{name}")
    return int(value)


def _stop(value: object) -> list[str]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InvalidRequest('option "stop" must be of type array', param="options.stop")
    return [word for word in words if word]
