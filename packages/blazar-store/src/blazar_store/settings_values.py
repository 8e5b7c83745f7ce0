"""Types of values that several tables of ``config.toml`` use: names, addresses, paths, chains of samplers.

Each check raises ``ValueError`` with a text that goes on after "must be".
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Strict
from pydantic.types import StringConstraints

from blazar_store.errors import NameReserved
from blazar_store.names import check_model_name

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
"""The element types that llama-server has for the KV cache."""

SAMPLERS: Final = (
    "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature", "infill", "adaptive_p",
)  # fmt: skip
"""The samplers of llama-server, by the names that every build knows."""

_OTHER_SAMPLER_NAMES: Final[Mapping[str, str]] = {
    "temp": "temperature",
    "nucleus": "top_p",
    "typ": "typ_p",
    # Unknown to builds of today, which would drop it with a mere warning.
    "typical": "typ_p",
    "typical_p": "typ_p",
}

SPEC_TYPES: Final = (
    "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark",
    "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache",
)  # fmt: skip
"""The ways of llama-server to guess tokens ahead; which a build has, its manifest says."""


class Table(BaseModel):
    """A table of the file: what is not declared is an error, and a string is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _origin(value: str) -> str:
    if value == "*":
        return value
    parts = urlsplit(value)
    if parts.scheme and parts.netloc and not parts.path and not parts.query:
        return value
    raise ValueError('an origin such as "http://localhost:3000", or "*"')


def _base_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme in {"http", "https"} and parts.netloc:
        return value
    raise ValueError("an address that begins with http:// or https://")


def _host_name(value: str) -> str:
    if value and not any(char.isspace() or char in "/?#@" for char in value):
        return value
    raise ValueError("a host name or address without scheme, path or spaces")


class ComeTogether(ValueError):
    """Two settings of which one is useless without the other; the text stands alone."""


def _absolute_path(value: str) -> str:
    if value.startswith("~/") or Path(value).is_absolute():
        return value
    raise ValueError("an absolute path, or one that begins with ~/")


def _model_name(value: str) -> str:
    try:
        check_model_name(value)
    except NameReserved as error:
        raise ValueError(error.reason) from error
    return value


def _alias(value: str) -> str:
    try:
        check_model_name(value)
    except NameReserved as error:
        raise ValueError(f"a name that a model could have ({error.reason})") from error
    return value


def sampler_chain(text: str) -> tuple[str, ...]:
    """Return the samplers of a chain such as ``top_k;top_p;typical``, by the names that every build knows.

    Raises:
        ValueError: A name that the engine would silently drop, or no name at all.
    """
    names = []
    for word in text.split(";"):
        plain = word.strip().lower().replace("-", "_")
        name = _OTHER_SAMPLER_NAMES.get(plain, plain)
        if name not in SAMPLERS:
            raise ValueError(
                f"samplers separated by ';', each one of {', '.join(SAMPLERS)} "
                f"('{word.strip()}' is none of them, and the engine would leave it out without a word)"
            )
        names.append(name)
    return tuple(names)


def _samplers(value: str) -> str:
    sampler_chain(value)
    return value


def spec_chain(text: str) -> tuple[str, ...]:
    """Return the kinds of speculation that ``spec`` names; empty for ``auto`` and ``off``.

    Raises:
        ValueError: A word that is none.
    """
    if text in {"auto", "off"}:
        return ()
    words = tuple(word.strip() for word in text.split(","))
    for word in words:
        if word not in SPEC_TYPES:
            raise ValueError(f'"auto", "off", or some of {", ".join(SPEC_TYPES)}, separated by commas')
    return words


def _spec(value: str) -> str:
    spec_chain(value)
    return value


def _tensor_preset(value: str) -> str:
    kind, colon, count = value.partition(":")
    if value in {"cpu-moe", "ffn-cpu"} or (
        kind == "cpu-moe" and colon and count.isdecimal() and 1 <= int(count) <= 10_000
    ):
        return value
    raise ValueError(
        '"cpu-moe" (the experts in main memory), "cpu-moe:N" (those of the first N layers), or "ffn-cpu" '
        "(every feed-forward matrix)"
    )


def _json_table(value: dict[str, object]) -> dict[str, object]:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("a table of texts, numbers, booleans, arrays and tables, as JSON has them") from error
    return value


def _json_object(value: str) -> str:
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise ValueError(f"the text of a JSON object ({error})") from error
    if not isinstance(parsed, dict):
        # An engine takes an array without a word and does nothing with it.
        raise ValueError("the text of a JSON object")
    return value


def _device_name(value: str) -> str:
    if value and not any(char.isspace() or char == "," for char in value):
        return value
    raise ValueError('the name of a device as the engine\'s --list-devices prints it, or "none"')


ModelName = Annotated[str, AfterValidator(_model_name)]
AliasName = Annotated[str, AfterValidator(_alias)]
HostName = Annotated[str, AfterValidator(_host_name)]
Origin = Annotated[str, AfterValidator(_origin)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
FilePath = Annotated[str, AfterValidator(_absolute_path)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Samplers = Annotated[str, AfterValidator(_samplers)]
SpecChoice = Annotated[str, AfterValidator(_spec)]
TensorPreset = Annotated[str, AfterValidator(_tensor_preset)]
JsonTable = Annotated[dict[str, object], AfterValidator(_json_table)]
JsonText = Annotated[str, AfterValidator(_json_object)]
DeviceName = Annotated[str, AfterValidator(_device_name)]
# TOML has arrays only, which arrive as lists; the settings keep them as tuples.
Origins = Annotated[tuple[Origin, ...], Strict(strict=False)]
HostNames = Annotated[tuple[HostName, ...], Strict(strict=False)]
Arguments = Annotated[tuple[str, ...], Strict(strict=False)]
BaseUrls = Annotated[tuple[BaseUrl, ...], Strict(strict=False)]
DeviceNames = Annotated[tuple[DeviceName, ...], Strict(strict=False)]
