"""The parameters of Modelfiles: which there are, of what type, and where each takes effect. Pure."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from blazar_routing.errors import InvalidRequest
from blazar_store.settings_request import RequestParameters


class Effect(StrEnum):
    """Where a parameter takes effect."""

    REQUEST = "request"
    LOAD = "load"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter.

    Attributes:
        kind: ``int``, ``float``, ``bool``, or ``str`` for one that may be given several times.
        effect: Where it takes effect.
        lowest: The least value that is taken, or ``None``.
        highest: The greatest, or ``None``.
        instead: For one without effect here: what decides in its place.
    """

    kind: type
    effect: Effect
    lowest: int | None = None
    highest: int | None = None
    instead: str = ""


_LOADS = "the engine's own default holds; `extra_args` of the model in config.toml changes it"
_GONE = "today's engines do not have it"


def _sampling(name: str) -> Parameter:
    """Return a sampling parameter with the range that it has in config.toml."""
    bounds = RequestParameters.model_fields[name].metadata
    lowest, highest = (next(getattr(one, end) for one in bounds if hasattr(one, end)) for end in ("ge", "le"))
    return Parameter(float, Effect.REQUEST, lowest=lowest, highest=highest)


PARAMETERS: Mapping[str, Parameter] = {
    **{
        name: _sampling(name)
        for name in (
            "temperature", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty", "frequency_penalty",
            "mirostat_tau", "mirostat_eta",
        )
    },
    # Engines refuse what is outside of these, so that no request to the model could succeed.
    "seed": Parameter(int, Effect.REQUEST, lowest=-(2**31), highest=2**32 - 1),
    "top_k": Parameter(int, Effect.REQUEST, lowest=-1, highest=1_000_000),
    "repeat_last_n": Parameter(int, Effect.REQUEST, lowest=-1, highest=16_777_216),
    "mirostat": Parameter(int, Effect.REQUEST, lowest=0, highest=2),
    "num_keep": Parameter(int, Effect.REQUEST, lowest=-1, highest=16_777_216),
    "num_predict": Parameter(int, Effect.REQUEST, lowest=-2, highest=16_777_216),
    "stop": Parameter(str, Effect.REQUEST),
    "num_ctx": Parameter(int, Effect.LOAD, lowest=256, highest=16_777_216),
    "num_gpu": Parameter(int, Effect.LOAD, lowest=-1, highest=10_000),
    "num_thread": Parameter(int, Effect.LOAD, lowest=0, highest=1024),
    **{name: Parameter(int, Effect.NONE, instead=_LOADS) for name in ("num_batch", "main_gpu", "draft_num_predict")},
    **{name: Parameter(bool, Effect.NONE, instead=_LOADS) for name in ("use_mmap", "use_mlock", "numa")},
    **{
        name: Parameter(bool, Effect.NONE, instead=_GONE)
        for name in ("low_vram", "f16_kv", "logits_all", "vocab_only", "embedding_only", "penalize_newline")
    },
    "tfs_z": Parameter(float, Effect.NONE, instead=_GONE),
}  # fmt: skip


def find_parameter(name: str) -> Parameter:
    """Return a parameter by its name.

    Raises:
        InvalidRequest: There is none.
    """
    found = PARAMETERS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, PARAMETERS, n=1, cutoff=0.6)
        meant = f" Did you mean '{near[0]}'?" if near else ""
        known = ", ".join(known for known, one in PARAMETERS.items() if one.effect is not Effect.NONE)
        raise InvalidRequest(f"unknown parameter '{name[:80]}'.{meant} There are {known}.", param="parameters")
    return found


def read_parameter(name: str, text: str) -> object:
    """Return the value that a Modelfile's text means.

    Raises:
        InvalidRequest: There is no such parameter, or the text is no value of it.
    """
    parameter = find_parameter(name)
    value: object = text
    try:
        if parameter.kind is int:
            value = int(text)
        elif parameter.kind is float:
            value = float(text)
        elif parameter.kind is bool:
            value = _BOOLEANS[text.lower()]
    except (ValueError, KeyError):
        raise _wrong(name, text, parameter) from None
    return check_value(name, value)


def check_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return parameters as they are kept: checked, regular, in their order.

    Raises:
        InvalidRequest: One is unknown, or its value is none.
    """
    return {name: check_value(name, value) for name, value in parameters.items() if value is not None}


def check_value(name: str, value: object) -> object:
    """Return a value as it is kept.

    Raises:
        InvalidRequest: It is none of this parameter.
    """
    parameter = find_parameter(name)
    if parameter.kind is str:
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, Sequence) or not all(isinstance(word, str) and word for word in words):
            raise _wrong(name, value, parameter)
        return list(words)
    if isinstance(value, bool) is not (parameter.kind is bool) or not isinstance(value, bool | int | float):
        raise _wrong(name, value, parameter)
    if parameter.kind is int:
        if value != value // 1:
            raise _wrong(name, value, parameter)
        value = int(value)
    if value != value or value in {float("inf"), float("-inf")}:
        raise _wrong(name, value, parameter)
    low, high = parameter.lowest, parameter.highest
    if (low is not None and value < low) or (high is not None and value > high):
        raise _wrong(name, value, parameter)
    return float(value) if parameter.kind is float else value


_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _wrong(name: str, value: object, parameter: Parameter) -> InvalidRequest:
    bounds = {
        (False, False): "",
        (True, False): f" of at least {parameter.lowest}",
        (True, True): f" from {parameter.lowest} to {parameter.highest}",
    }[parameter.lowest is not None, parameter.highest is not None]
    shown = str(value)[:80]
    return InvalidRequest(f"{name} is '{shown}'; it must be {_WORDS[parameter.kind]}{bounds}.", param="parameters")
