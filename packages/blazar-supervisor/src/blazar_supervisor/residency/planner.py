"""From a model's name to what is going to be started: row, lane, file, memory, profile."""

import asyncio
import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from blazar_budget import ListedDevice, Machine, Memory
from blazar_budget.listings import as_gpus
from blazar_gguf import GgufMeta
from blazar_routing.errors import ModelFileMissing, ModelNotFound, ProfileRejected
from blazar_routing.instances import parse_instance
from blazar_routing.kinds import EngineKind
from blazar_routing.lanes import Build, Subject, serving_lane
from blazar_routing.shape import FormatShape, ShardFormat, is_quantized_safetensors
from blazar_store.settings import ModelSettings, Settings
from blazar_store.settings_engine import EngineSettings
from blazar_store.settings_models import expand
from blazar_store.settings_overlays import overlay_settings
from blazar_store.settings_speculation import SpeculationSettings
from blazar_store.types import EngineRow, LanePin, ModelRow
from blazar_supervisor.engines.build_facts import Builds
from blazar_supervisor.engines.catalogue import get_adapter
from blazar_supervisor.engines.profile import Knobs
from blazar_supervisor.residency.machine import pools_of
from blazar_supervisor.residency.memory_budget import memory_within, refuse_beyond_training
from blazar_supervisor.residency.model_files import read_model
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.residency.ports import Current, Plan
from blazar_supervisor.residency.shaped_budget import budget_first_that_fits
from blazar_supervisor.residency.shapes import can_continue, shape_for


class ModelPlanner:
    """Fits :class:`blazar_supervisor.residency.ports.Planner`.

    Args:
        models: Finds a row by its name, from memory.
        engines: The builds there are, from memory.
        settings: The settings in force.
        machine: Measures the machine; blocks.
        pins: Finds the build that a model was moved to, from memory.
        advertised: What a fork's build says it knows besides; nothing of a mainstream one.
        accepted: Tells of an instance what share of its guessed tokens was right when it last ran.
        environ: The daemon's environment.
    """

    def __init__(
        self,
        *,
        models: Callable[[str], ModelRow | None],
        engines: Callable[[], Sequence[EngineRow]],
        settings: Callable[[], Settings],
        machine: Callable[[], Machine],
        pins: Callable[[str], LanePin | None] = lambda _: None,
        advertised: Callable[[EngineRow], frozenset[str]] = lambda _: frozenset(),
        accepted: Callable[[str], float | None] = lambda _: None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._models = models
        self._engines = engines
        self._settings = settings
        self._measure = machine
        self._pins = pins
        self._advertised = advertised
        self._accepted = accepted
        self._machine = Machine(ram_total=0, ram_available=0)
        self._environ = dict(os.environ if environ is None else environ)
        self._builds = Builds()

    def with_spare(self, plan: Plan, spare_bytes: int) -> Plan:
        """Cut the prompt cache to half of what is spare: the other half is for the models to come."""
        wanted_mb = plan.profile.cache_ram_mb
        spare_mb = max(0, spare_bytes) >> 21
        if spare_mb >= wanted_mb:
            return plan
        adapter = get_adapter(plan.profile.kind, model=plan.profile.model)
        return replace(plan, profile=adapter.with_cache_ram(plan.profile, spare_mb))

    async def pools(self) -> Pools:
        """Measure the machine."""
        self._machine = await asyncio.to_thread(self._measure)
        return pools_of(self._machine)

    async def plan(
        self, instance: str, *, limit: Bytes | None, refused_by: frozenset[str], ctx_tokens: int = 0
    ) -> Plan:
        """Return the plan for ``instance``."""
        named = parse_instance(instance)
        row = self._models(named.model)
        if row is None:
            raise ModelNotFound(model=named.model)
        settings = self._settings()
        chosen = settings.for_model(row.name)
        engine = self._lane(row, chosen.engine or row.engine, refused_by)
        adapter = get_adapter(EngineKind.parse(engine.kind), model=row.name)
        stamp = stamp_of(row, settings)
        general = knobs_for(row, settings)
        await asyncio.to_thread(_check_files, row, general)
        parts = await asyncio.to_thread(read_model, row)
        own = settings.own_table(row.name).ctx
        if isinstance(own, int):
            refuse_beyond_training(row, parts[0], own, general.extra_args)
        lazy = chosen.mmproj_policy == "lazy"
        general = shape_for(general, named.role, parts[0], lazy_projector=lazy)
        predicts = parts[0].nextn_predict_layers > 0
        general = replace(general, predicts=predicts, accepted=self._accepted(instance))
        facts = await self._builds.facts(engine, adapter)
        general = replace(general, kinds=adapter.speculation(row, engine, general, facts.manifest))
        devices = _chosen(row, general, facts.devices)
        memory = None if limit is None else self._memory(devices, limit, some=devices != facts.devices)
        knobs, budgeted = await asyncio.to_thread(
            budget_first_that_fits, row, parts, general, memory, role=named.role, ctx_tokens=ctx_tokens
        )
        profile = adapter.compile(
            row,
            engine,
            replace(knobs, banks=settings.bank_cap_mb > 0 and _has_banks(parts[0], knobs)),
            facts.manifest,
            ctx_tokens=budgeted.ctx_tokens,
            ram_bytes=self._machine.ram_total,
            environ=self._environ,
        )
        profile = replace(
            profile,
            need_host_bytes=budgeted.need.host,
            need_device_bytes=budgeted.need.device,
            estimate_bytes=budgeted.estimate_bytes,
            verdict=budgeted.verdict,
            warnings=(*profile.warnings, *budgeted.warnings),
        )
        return Plan(
            profile=profile,
            load_timeout_s=float(chosen.load_timeout_s or adapter.load_timeout_s),
            idle_s=float(chosen.idle_timeout_s) or None,
            ctx_wish=ctx_tokens,
            drain_s=float(chosen.abandoned_drain_s),
            stamp=stamp,
        )

    def current(self, instance: str) -> Current | None:
        """Return what settings and row say of an instance now."""
        row = self._models(parse_instance(instance).model)
        if row is None:
            return None
        settings = self._settings()
        idle_s = float(settings.for_model(row.name).idle_timeout_s) or None
        return Current(stamp=stamp_of(row, settings), idle_s=idle_s)

    def _memory(self, devices: tuple[ListedDevice, ...] | None, limit: Bytes, *, some: bool) -> Memory:
        """Return what the model could have, of what this very build can use; ``some`` when its owner chose among it."""
        if devices == ():
            return memory_within(replace(self._machine, gpus=()).capacity(), limit)
        if devices is not None and some:
            return memory_within(replace(self._machine, gpus=as_gpus(devices)).capacity(), limit)
        if devices is not None and not self._machine.gpus:
            # Only the build knows them (a backend without a driver interface that the probe reads).
            available = replace(self._machine, gpus=as_gpus(devices)).available()
            return memory_within(available, Bytes(limit.host, available.device_bytes))
        return memory_within(self._machine.capacity(), limit)

    def subject(self, model: str, refused_by: frozenset[str]) -> tuple[Subject, tuple[Build, ...]]:
        """Return a model and the installed builds as routing sees them.

        Raises:
            ModelNotFound: There is no such row.
        """
        row = self._models(model)
        if row is None:
            raise ModelNotFound(model=model)
        engine = self._settings().for_model(row.name).engine or row.engine
        rows = {build.tag: build for build in self._engines()}
        return self._subject(row, engine, refused_by, rows), self._as_builds(rows)

    def _lane(self, row: ModelRow, engine: str | None, refused_by: frozenset[str]) -> EngineRow:
        rows = {build.tag: build for build in self._engines()}
        return rows[serving_lane(self._subject(row, engine, refused_by, rows), self._as_builds(rows)).tag]

    def _subject(
        self, row: ModelRow, engine: str | None, refused_by: frozenset[str], rows: Mapping[str, EngineRow]
    ) -> Subject:
        pin = pin_in_force(self._pins(row.name), row, rows)
        return Subject(
            name=row.name,
            shape=shape_of(row),
            architecture=row.arch,
            engine=engine,
            pin=None if pin is None else pin.engine,
            refused_by=refused_by if pin is None else refused_by | set(pin.refused_by),
        )

    def _as_builds(self, rows: Mapping[str, EngineRow]) -> tuple[Build, ...]:
        return tuple(self._as_build(row) for row in rows.values())

    def _as_build(self, row: EngineRow) -> Build:
        known = self._advertised(row)
        kind = EngineKind.parse(row.kind)
        return Build(tag=row.tag, kind=kind, active=row.active, fork=bool(known), architectures=known)


def pin_in_force(pin: LanePin | None, row: ModelRow, engines: Container[str]) -> LanePin | None:
    """Return what is remembered of a model if it still holds: for this very file, and a build that is still there."""
    return pin if pin is not None and pin.digest == row.digest and pin.engine in engines else None


def _has_banks(meta: GgufMeta, knobs: Knobs) -> bool:
    return knobs.vectors is None and can_continue(meta, knobs.extra_args)


def shape_of(row: ModelRow) -> FormatShape:
    """Return a row's shape, as routing sees it."""
    quantized = is_quantized_safetensors(name=row.name, repository="", path=str(row.path))
    # The row remembers what its directory's configuration said of MLX.
    shards = ShardFormat.detect(
        is_dir=row.format != "gguf", quantized=quantized and row.format != "gguf", mlx=row.format == "mlx"
    )
    return FormatShape(shards=shards, diffusion=bool(row.components))


def knobs_for(row: ModelRow, settings: Settings) -> Knobs:
    """Return the settings of one model in the words of the engine adapters; its own table beats what the row says."""
    chosen = settings.for_model(row.name, overlay_settings(row.overlay))
    return Knobs(
        ctx=chosen.ctx_tokens,
        slots=chosen.slots,
        cache_type_k=None if chosen.cache_type_k == "f16" else chosen.cache_type_k,
        cache_type_v=None if chosen.cache_type_v == "f16" else chosen.cache_type_v,
        # Left to the engine's own fitting unless somebody knows better.
        gpu_layers=None if chosen.gpu_layers == "auto" else str(chosen.gpu_layers),
        ubatch=chosen.ubatch,
        chat_template_file=chosen.chat_template_file,
        mmproj=row.mmproj_path is not None and chosen.mmproj_policy != "skip",
        cache_ram_mb=chosen.cache_ram_mb,
        idle_sleep_s=chosen.idle_sleep_s,
        extra_args=chosen.extra_args,
        written=chosen.written,
    )


_SHAPELESS = frozenset(ModelSettings.model_fields) - {
    *EngineSettings.model_fields,
    *SpeculationSettings.model_fields,
}
"""Settings of a model that do not reach its engine's arguments."""


def stamp_of(row: ModelRow, settings: Settings) -> object:
    """Return what in settings and row shapes a child, for comparison only."""
    knobs = knobs_for(row, settings)
    shaping = knobs.written.model_copy(update=dict.fromkeys(_SHAPELESS))
    return replace(knobs, written=shaping), row.path, row.engine, settings.child_transport, settings.bank_cap_mb > 0


def _chosen(row: ModelRow, knobs: Knobs, devices: tuple[ListedDevice, ...] | None) -> tuple[ListedDevice, ...] | None:
    """Return those of a build's accelerators that the model may use."""
    names = knobs.written.devices
    if not names or devices is None:
        return devices
    if names == ("none",):
        return ()
    there = {device.name: device for device in devices}
    for name in names:
        if name not in there:
            have = f"it has {', '.join(there)}" if there else "it has none"
            raise ProfileRejected(model=row.name, reason=f"devices: the engine knows no accelerator '{name}'; {have}")
    return tuple(there[name] for name in names)


def _check_files(row: ModelRow, knobs: Knobs) -> None:
    """Refuse a setting that names a file which is not there: the engine would say so later and less plainly."""
    written = knobs.written
    for setting, path in (
        ("chat_template_file", knobs.chat_template_file),
        ("mcp_servers_config", expand(written.mcp_servers_config)),
        ("spec_draft_model", expand(written.spec_draft_model)),
        *(("lora", expand(adapter.path)) for adapter in written.lora or ()),
    ):
        if path is not None and not path.is_file():
            raise ProfileRejected(model=row.name, reason=f"{setting} is not there: {path}")
    if knobs.mmproj and row.mmproj_path is not None and not row.mmproj_path.is_file():
        raise ModelFileMissing(model=row.name, path=str(row.mmproj_path))
