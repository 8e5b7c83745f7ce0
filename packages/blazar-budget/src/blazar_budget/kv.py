"""What the KV cache and the recurrent state of a model cost, to the byte, as the engine will allocate them."""

from dataclasses import dataclass

from blazar_budget.buffers import CacheBuffer, LayerMemory, StateBuffer
from blazar_budget.cache_types import CacheType
from blazar_budget.cells import DEFAULT_UBATCH, CellLayout, cell_layout, pad
from blazar_budget.contract import estimate_kv_vram_charge, scale_kv_by_cache_type
from blazar_budget.explain import explain_kv
from blazar_budget.memory import plan_memory
from blazar_budget.recurrent import STATE_BYTES, StateRows
from blazar_budget.rows import CacheKind, CacheRows
from blazar_budget.settings import CacheSettings, cache_settings
from blazar_budget.shape import is_causal, read_context_length
from blazar_gguf import GgufMeta


@dataclass(frozen=True, slots=True)
class KvCache:
    """The memory of a model that depends on context, slots and cache types.

    Attributes:
        architecture: ``general.architecture``.
        layout: cells, slots and streams.
        settings: cache types and flash attention after the engine's own rules.
        caches: one entry for each cache the engine makes, in its order.
        states: recurrent state; empty for models without.
        layer_count: layers of the model, loops and router included.
        contract_bytes: what the documented scalar formula charges, with its short-cuts for quantised types.
        doubts: why the figures may not be the engine's; empty when they are.
    """

    architecture: str
    layout: CellLayout
    settings: CacheSettings
    caches: tuple[CacheBuffer, ...]
    states: tuple[StateBuffer, ...]
    layer_count: int
    contract_bytes: int
    doubts: tuple[str, ...]

    @property
    def kv_bytes(self) -> int:
        """Bytes of all K and V rows."""
        return sum(cache.k_bytes + cache.v_bytes for cache in self.caches)

    @property
    def recurrent_bytes(self) -> int:
        """Bytes of recurrent state; the same for every context."""
        return sum(state.r_bytes + state.s_bytes for state in self.states)

    @property
    def total_bytes(self) -> int:
        """Cache and state together."""
        return self.kv_bytes + self.recurrent_bytes

    @property
    def cells(self) -> int:
        """Cells of one stream of a full-length cache, the engine's ``n_ctx_seq``."""
        return self.layout.seq_cells

    @property
    def total_cells(self) -> int:
        """Cells of all streams, the engine's ``n_ctx``."""
        return self.layout.total_cells

    @property
    def approximate(self) -> bool:
        """True when the figures are an estimate on the high side rather than the engine's."""
        return bool(self.doubts)

    def explain(self) -> str:
        """How the figure comes about, in lines for a person; beside it what the documented scalar formula says."""
        return explain_kv(
            self.architecture,
            self.layout,
            self.settings,
            self.caches,
            self.states,
            contract_bytes=self.contract_bytes,
            doubts=self.doubts,
        )

    @property
    def layers(self) -> tuple[LayerMemory, ...]:
        """The breakdown: one entry per layer, also for those that keep nothing."""
        kinds: dict[int, list[CacheKind]] = {}
        rows = dict.fromkeys(range(self.layer_count), 0)
        state = dict.fromkeys(range(self.layer_count), 0)
        for cache in self.caches:
            for layer, k, v in zip(cache.layers, cache.key_bytes, cache.value_bytes, strict=True):
                kinds.setdefault(layer, []).append(cache.kind)
                rows[layer] += k + v
        for buffer in self.states:
            for layer in buffer.layers:
                state[layer] += buffer.r_bytes_per_layer + buffer.s_bytes_per_layer
        return tuple(LayerMemory(i, tuple(kinds.get(i, ())), rows[i], state[i]) for i in range(self.layer_count))


def kv_cache(
    meta: GgufMeta,
    *,
    ctx: int,
    parallel: int | None = None,
    unified: bool | None = None,
    type_k: str = CacheType.F16,
    type_v: str = CacheType.F16,
    flash_attn: str = "auto",
    ubatch: int = DEFAULT_UBATCH,
    swa_full: bool = False,
    rollback: int = 0,
) -> KvCache:
    """Return what the engine allocates for these flags.

    Args:
        meta: the model's header.
        ctx: ``-c`` in tokens as typed; 0 means the training length.
        parallel: ``-np``; None when the flag is not given (the engine takes four slots).
        unified: True for ``-kvu``, False for ``-no-kvu``, None for neither (unified only with ``parallel=None``).
        type_k: ``-ctk``.
        type_v: ``-ctv``.
        flash_attn: ``auto``, ``on`` or ``off``.
        ubatch: ``-ub`` in tokens.
        swa_full: ``--swa-full``.
        rollback: recurrent states kept back per slot so that speculative decoding can undo tokens; 0 without it.

    Raises:
        UnknownCacheType: a cache type the engine does not accept.
        UnservableSettings: the engine would exit with these settings.
        ValueError: a negative context, slots outside 1..256, an unknown ``flash_attn``.
    """
    layout = cell_layout(
        ctx,
        training_ctx=read_context_length(meta),
        parallel=parallel,
        unified=unified,
        ubatch=ubatch,
        causal=is_causal(meta),
    )
    plan = plan_memory(meta)
    settings = cache_settings(plan, type_k=type_k, type_v=type_v, flash_attn=flash_attn)
    caches = tuple(_buffer(rows, layout, settings, swa_full=swa_full) for rows in plan.caches)
    states = tuple(_state(rows, layout.slots, rollback) for rows in plan.states)
    return KvCache(
        architecture=meta.architecture,
        layout=layout,
        settings=settings,
        caches=caches,
        states=states,
        layer_count=plan.layer_count,
        contract_bytes=_contract_charge(meta, layout, settings),
        doubts=plan.doubts,
    )


def _contract_charge(meta: GgufMeta, layout: CellLayout, settings: CacheSettings) -> int:
    """The documented charge for all cells, K and V each scaled by its own type."""
    half = estimate_kv_vram_charge(meta, layout.total_cells) // 2
    return scale_kv_by_cache_type(half, settings.type_k) + scale_kv_by_cache_type(half, settings.type_v)


def _buffer(rows: CacheRows, layout: CellLayout, settings: CacheSettings, *, swa_full: bool) -> CacheBuffer:
    cells, streams = _cells(rows, layout, swa_full=swa_full)
    count = cells * streams
    # without flash attention V is stored transposed, which needs rows of one width in all layers
    values = rows.value_elements if settings.flash else (rows.padded_value,) * len(rows.layers)
    return CacheBuffer(
        kind=rows.kind,
        cells=cells,
        streams=streams,
        layers=rows.layers,
        key_bytes=tuple(count * settings.type_k.row_bytes(width) for width in rows.key_elements),
        value_bytes=tuple(count * settings.type_v.row_bytes(width) for width in values),
    )


def _cells(rows: CacheRows, layout: CellLayout, *, swa_full: bool) -> tuple[int, int]:
    """Cells of one stream, and streams."""
    streams = layout.slots if rows.per_slot else layout.streams
    if rows.window is not None:
        return layout.window_cells(rows.window, swa_full=swa_full, shared=streams == 1), streams
    if rows.ratio > 1:
        return pad(-(-layout.seq_cells // rows.ratio)), streams
    return layout.seq_cells, streams


def _state(rows: StateRows, slots: int, rollback: int) -> StateBuffer:
    each = STATE_BYTES * slots * (1 + rollback)
    return StateBuffer(slots, rows.layers, each * rows.r_elements, each * rows.s_elements)
