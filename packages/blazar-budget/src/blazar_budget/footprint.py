"""Everything a launch needs, device by device: weights, cache, state, compute buffers, overhead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from blazar_budget.cache_types import CacheType
from blazar_budget.cells import DEFAULT_UBATCH
from blazar_budget.compute import ComputeEstimate, estimate_compute
from blazar_budget.contract import OVERHEAD_BYTES
from blazar_budget.kv import KvCache, kv_cache
from blazar_budget.machine import Memory
from blazar_budget.offload import DEFAULT_OFFLOAD, HOST, Device, LayerMap, Offload, map_layers
from blazar_budget.weights import WeightShare, place_weights
from blazar_gguf import GgufMeta


@dataclass(frozen=True, slots=True)
class Launch:
    """The flags of a start that cost memory, as on the engine's command line; defaults are the engine's.

    Attributes:
        ctx: ``-c`` in tokens; 0 means the training length.
        parallel, unified: ``-np``, ``-kvu`` / ``-no-kvu``; None when not given.
        type_k, type_v: ``-ctk``, ``-ctv``.
        flash_attn: ``-fa``.
        ubatch: ``-ub`` in tokens.
        swa_full: ``--swa-full``.
        offload: placement flags.
        extra_device_bytes: what else goes to the first accelerator (projector, adapters, a draft model); to the host
            on a machine without.
        extra_host_bytes: what else the host holds (``--cache-ram``).
    """

    ctx: int
    parallel: int | None = None
    unified: bool | None = None
    type_k: str = CacheType.F16
    type_v: str = CacheType.F16
    flash_attn: str = "auto"
    ubatch: int = DEFAULT_UBATCH
    swa_full: bool = False
    offload: Offload = DEFAULT_OFFLOAD
    extra_device_bytes: int = 0
    extra_host_bytes: int = 0

    def with_ctx(self, ctx: int) -> Self:
        """The same with another context."""
        return replace(self, ctx=ctx)

    def with_cache_type(self, kind: str) -> Self:
        """The same with K and V of one type."""
        return replace(self, type_k=kind, type_v=kind)

    def with_gpu_layers(self, layers: int) -> Self:
        """The same with so many layers on accelerators."""
        return replace(self, offload=replace(self.offload, gpu_layers=layers))

    def cache_of(self, meta: GgufMeta) -> KvCache:
        """The cache the engine allocates for a model started like this.

        Raises:
            BudgetError: the engine refuses the settings; see :func:`blazar_budget.kv_cache`.
        """
        return kv_cache(
            meta,
            ctx=self.ctx,
            parallel=self.parallel,
            unified=self.unified,
            type_k=self.type_k,
            type_v=self.type_v,
            flash_attn=self.flash_attn,
            ubatch=self.ubatch,
            swa_full=self.swa_full,
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """What a launch needs of one device, or of the host.

    Attributes:
        device: its name, :data:`~blazar_budget.offload.HOST` for the host.
        capacity_bytes: what it may take there.
        weights_bytes: tensors.
        kv_bytes, recurrent_bytes: cache rows and recurrent state.
        extra_bytes: projector, adapters, prompt cache.
        compute: the engine's scratch buffers.
        overhead_bytes: what is charged for scratch buffers and the backend: on the devices a model is judged by the
            larger of 700 MiB and what is likely, elsewhere what is likely.
    """

    device: str
    capacity_bytes: int
    weights_bytes: int
    kv_bytes: int
    recurrent_bytes: int
    extra_bytes: int
    compute: ComputeEstimate
    overhead_bytes: int

    @property
    def needed_bytes(self) -> int:
        """The whole charge."""
        return self.weights_bytes + self.kv_bytes + self.recurrent_bytes + self.extra_bytes + self.overhead_bytes


@dataclass(frozen=True, slots=True)
class Footprint:
    """The needs of one launch.

    Attributes:
        demands: accelerators that hold something, in order; the host comes last.
        kv: the cache, with its breakdown per layer.
        layers: where layers live.
    """

    demands: tuple[Demand, ...]
    kv: KvCache
    layers: LayerMap

    @property
    def host(self) -> Demand:
        """The host's part."""
        return self.demands[-1]

    @property
    def pool(self) -> tuple[Demand, ...]:
        """The devices a model is judged by: accelerators, or the host where none holds a layer."""
        return self.demands[:-1] or self.demands

    @property
    def pool_bytes(self) -> int:
        """Memory of those together."""
        return sum(demand.capacity_bytes for demand in self.pool)

    @property
    def needed_bytes(self) -> int:
        """What is charged to those together."""
        return sum(demand.needed_bytes for demand in self.pool)

    @property
    def worst_bytes(self) -> int:
        """The same if every scratch buffer came out as large as it can."""
        return self.needed_bytes + sum(max(d.compute.high - d.overhead_bytes, 0) for d in self.pool)

    @property
    def weights_bytes(self) -> int:
        """Weights on those devices; a token table that stays on the host is not among them."""
        return sum(demand.weights_bytes for demand in self.pool)

    @property
    def occupancy(self) -> float:
        """Share of the pool that is needed; above 1 it does not fit."""
        return self.needed_bytes / self.pool_bytes if self.pool_bytes else float("inf")


def footprint(meta: GgufMeta, launch: Launch, memory: Memory, *, parts: Sequence[GgufMeta] = ()) -> Footprint:
    """Return what a launch needs of each device.

    Args:
        meta: header of the model.
        launch: how it would be started.
        memory: what there is.
        parts: headers of all parts of a split model, the first included.

    Raises:
        BudgetError: the engine refuses the settings.
    """
    kv = launch.cache_of(meta)
    devices = [Device(pool.device, pool.bytes) for pool in memory.pools]
    layers = map_layers(kv.layer_count, devices, launch.offload)
    weights = place_weights(meta, devices=devices, offload=launch.offload, parts=parts)
    used = [device.name for device in devices if device.name in layers.layers or device.name == layers.output]
    compute = estimate_compute(meta, kv, layers, used, kv_on_host=launch.offload.kv_on_host)
    rows = _rows_by_device(kv, layers, kv_on_host=launch.offload.kv_on_host)
    capacity = {pool.device: pool.bytes for pool in memory.pools} | {HOST: memory.ram_bytes}
    extras = {HOST: launch.extra_host_bytes}
    first = used[0] if used else HOST
    extras[first] = extras.get(first, 0) + launch.extra_device_bytes

    def demand(name: str, *, judged: bool) -> Demand:
        share = weights.get(name, WeightShare(name, 0))
        scratch = compute[name]
        kv_bytes, state_bytes = rows.get(name, (0, 0))
        return Demand(
            device=name,
            capacity_bytes=capacity[name],
            weights_bytes=share.tensor_bytes,
            kv_bytes=kv_bytes,
            recurrent_bytes=state_bytes,
            extra_bytes=extras.get(name, 0),
            compute=scratch,
            overhead_bytes=max(OVERHEAD_BYTES, scratch.likely) if judged else scratch.likely,
        )

    demands = [demand(name, judged=True) for name in used]
    return Footprint((*demands, demand(HOST, judged=not used)), kv, layers)


def _rows_by_device(kv: KvCache, layers: LayerMap, *, kv_on_host: bool) -> Mapping[str, tuple[int, int]]:
    """Cache and state bytes by device: they follow their layer unless they are kept on the host."""
    found: dict[str, tuple[int, int]] = {}
    for layer in kv.layers:
        device = HOST if kv_on_host else layers.of(layer.layer)
        rows, state = found.get(device, (0, 0))
        found[device] = (rows + layer.kv_bytes, state + layer.state_bytes)
    return found
