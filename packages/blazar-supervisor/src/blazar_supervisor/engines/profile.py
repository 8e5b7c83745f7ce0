"""A profile: everything about a child that is settled before it is started."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from blazar_routing.kinds import EngineKind
from blazar_store.settings import ModelSettings

NOTHING_WRITTEN: Final = ModelSettings()
"""The settings of a model about which nobody said anything."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """What an engine makes instead of answers.

    Attributes:
        kind: ``embeddings`` or ``reranking``.
        pooling: How token vectors become one; ``None`` for what the file says.
    """

    kind: Literal["embeddings", "reranking"]
    pooling: str | None = None


@dataclass(frozen=True, slots=True)
class Knobs:
    """A model's settings, the defaults filled in, as far as they shape an argument vector.

    ``None`` leaves a matter to the engine.

    Attributes:
        ctx: Tokens of context asked for, or ``None`` for ``auto``.
        slots: Requests served at the same time.
        cache_type_k: The K cache's type.
        cache_type_v: The V cache's type.
        gpu_layers: Layers on the GPU: a number, ``auto`` or ``all``.
        ubatch: Physical batch.
        chat_template_file: A file with the template.
        mmproj: Attach the row's projector.
        cache_ram_mb: The engine's prompt cache in main memory, before the cap.
        idle_sleep_s: Idle seconds after which the engine frees its memory; 0 for never.
        extra_args: Arguments passed on as they are, once checked.
        banks: Whether what it has read is saved when it is evicted.
        vectors: Set for an instance that makes vectors or scores; its whole context is one physical batch.
        written: What was written besides, for the model or for all.
        predicts: Whether the file has heads that predict further tokens.
        accepted: The share of guessed tokens that were right when it last ran, or ``None`` when unknown.
        kinds: The kinds of speculation that were decided on, for the account of memory.
    """

    ctx: int | None = None
    slots: int = 4
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    gpu_layers: str | None = None
    ubatch: int = 512
    chat_template_file: Path | None = None
    mmproj: bool = False
    cache_ram_mb: int = 8192
    idle_sleep_s: int = 300
    extra_args: tuple[str, ...] = ()
    banks: bool = False
    vectors: Vectors | None = None
    written: ModelSettings = NOTHING_WRITTEN
    predicts: bool = False
    accepted: float | None = None
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """What is spawned for one model on one engine build.

    Attributes:
        model: The row's name.
        engine: The build's tag.
        kind: Its kind.
        program: Its binary.
        args: The arguments, apart from those that each start chooses anew (address and secret).
        env: The whole environment.
        ctx_tokens: The context one request can use.
        slots: Requests served at the same time.
        cells: KV cells shared by the slots.
        sleep_s: Idle seconds after which the engine sleeps, or ``None`` for never.
        cache_ram_mb: The most main memory that its prompt cache may take, beyond what is budgeted.
        need_host_bytes: Main memory it will take, as budgeted.
        need_device_bytes: Accelerator memory it will take, as budgeted.
        estimate_bytes: What the engine is expected to report of its memory once it is up, all devices together.
        verdict: The budget's sentence, or ``""``.
        warnings: What its owner should know; shown in listings and the log.
        banks: Whether what it has read of conversations is saved when it is evicted.
        weights: The model's files.
    """

    model: str
    engine: str
    kind: EngineKind
    program: Path
    args: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    ctx_tokens: int
    slots: int
    cells: int
    sleep_s: int | None
    cache_ram_mb: int = 0
    need_host_bytes: int = 0
    need_device_bytes: int = 0
    estimate_bytes: int = 0
    verdict: str = ""
    warnings: tuple[str, ...] = ()
    banks: bool = False
    weights: tuple[Path, ...] = ()
