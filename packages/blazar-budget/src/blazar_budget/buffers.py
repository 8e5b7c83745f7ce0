"""Buffers as the engine allocates them: caches, recurrent state, and their breakdown by layer."""

from dataclasses import dataclass

from blazar_budget.rows import CacheKind


@dataclass(frozen=True, slots=True)
class CacheBuffer:
    """One cache as the engine's log line ``llama_kv_cache: size = …`` describes it.

    Attributes:
        kind: what it is for.
        cells: token positions of one stream.
        streams: how many of those.
        layers: indices of the layers it holds, in order.
        key_bytes, value_bytes: one for each of ``layers``, over all streams.
    """

    kind: CacheKind
    cells: int
    streams: int
    layers: tuple[int, ...]
    key_bytes: tuple[int, ...]
    value_bytes: tuple[int, ...]

    @property
    def k_bytes(self) -> int:
        """Bytes of all keys."""
        return sum(self.key_bytes)

    @property
    def v_bytes(self) -> int:
        """Bytes of all values; 0 for a cache of compressed rows."""
        return sum(self.value_bytes)


@dataclass(frozen=True, slots=True)
class StateBuffer:
    """Recurrent state of all slots.

    Attributes:
        slots: sequences that have one each.
        layers: indices of the layers that carry it.
        r_bytes_per_layer, s_bytes_per_layer: convolution or token-shift part, and state proper, over all slots.
    """

    slots: int
    layers: tuple[int, ...]
    r_bytes_per_layer: int
    s_bytes_per_layer: int

    @property
    def r_bytes(self) -> int:
        """The engine's ``R (f32)``."""
        return self.r_bytes_per_layer * len(self.layers)

    @property
    def s_bytes(self) -> int:
        """The engine's ``S (f32)``."""
        return self.s_bytes_per_layer * len(self.layers)


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """What one layer keeps.

    Attributes:
        layer: its index, loops counted; one past the last block for a router layer.
        kinds: caches it has rows in; empty for a layer that keeps nothing or only state.
        kv_bytes: its K and V rows.
        state_bytes: its recurrent state.
    """

    layer: int
    kinds: tuple[CacheKind, ...]
    kv_bytes: int
    state_bytes: int
