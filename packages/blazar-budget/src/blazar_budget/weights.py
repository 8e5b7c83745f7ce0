"""How many bytes of weights each device holds.

Rules of llama.cpp b10434 (``load_tensors``), confirmed on measured placements:

1. Token, position, token-type and per-layer token tables are looked up, not multiplied: they stay on the host.
2. A block's tensors follow its layer. In loop models a block belongs to the first pass.
3. Output matrix and final norms count as one more layer. A model without an output matrix uses a **copy** of the
   token table on the output's device.
4. Blocks that predict further tokens are not loaded unless speculation with them is on.
5. With mmap the host's figure in the log is the span from its first to its last tensor in the file, which may cover
   tensors of devices; what the host needs in memory is the sum.
6. Types that the CPU prefers rearranged are copied into a further buffer (``CPU_REPACK``).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from blazar_budget.architectures import NO_CACHE
from blazar_budget.memory import plan_memory
from blazar_budget.offload import DEFAULT_OFFLOAD, HOST, Device, LayerMap, Offload, map_layers
from blazar_gguf import GgufMeta, TensorInfo

_BLOCK: Final = re.compile(r"^(?:enc\.|dec\.)?blk\.(\d+)\.")
_TABLES: Final = ("token_embd.weight", "token_types.weight", "position_embd.weight", "per_layer_token_embd.weight")
_OUTPUTS: Final = ("output", "cls", "dense_", "altup_", "dec.output_norm", "enc.output_norm", "fc.")
_TABLE: Final = "token_embd.weight"
_HEAD: Final = "output.weight"

HEADLESS: Final = NO_CACHE - {"gemma-embedding", "dream", "llada", "llada-moe", "rnd1"}
"""Encoders without an output matrix; they do not copy the token table either."""

REPACKED: Final = frozenset({"Q4_0", "Q4_K", "Q2_K", "IQ4_NL", "MXFP4"})
"""Types an x86-64 CPU with AVX2 (Q2_K: AVX-512) multiplies in a rearranged form, when rows come in eights."""
_REPACK_ROWS: Final = 8

_FEED_FORWARD_KEPT: Final = "step35"
"""Loads the feed-forward part of its prediction blocks in any case."""


@dataclass(frozen=True, slots=True)
class WeightShare:
    """Weights of one device or of the host.

    Attributes:
        device: its name, or :data:`HOST`.
        tensor_bytes: sum of the tensors it uses.
        mapped_bytes: host only: the span the engine maps and prints as ``CPU_Mapped``; 0 without host tensors.
        repacked_bytes: host only: rearranged copies (``CPU_REPACK``), part of ``tensor_bytes``.
    """

    device: str
    tensor_bytes: int
    mapped_bytes: int = 0
    repacked_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Placed:
    """A tensor, where it went, and in which file it lies."""

    tensor: TensorInfo
    file: int
    device: str
    repacked: bool


def place_weights(
    meta: GgufMeta,
    *,
    devices: Sequence[Device] = (),
    offload: Offload = DEFAULT_OFFLOAD,
    parts: Sequence[GgufMeta] = (),
    repack: bool = True,
) -> Mapping[str, WeightShare]:
    """Return what each device and the host hold, by device name; the host's is always there.

    Args:
        meta: header of the model (the first part of a split one).
        devices: accelerators in the engine's order; none for a host without.
        offload: placement flags.
        parts: headers of all parts of a split model, the first one included; empty for a model in one file.
        repack: the host rearranges quantised weights (the engine's default).
    """
    plan = plan_memory(meta)
    layers = map_layers(plan.layer_count, devices, offload)
    files = tuple(parts) or (meta,)
    names = {t.name for part in files for t in part.tensors}
    tied = _HEAD not in names and meta.architecture not in HEADLESS
    main_blocks = plan.shape.blocks if offload.mtp else plan.shape.blocks - plan.shape.nextn
    chooser = _Chooser(layers, offload)
    placed: list[_Placed] = []
    for number, part in enumerate(files):
        for tensor in part.tensors:
            if _skipped(tensor.name, meta.architecture, main_blocks):
                continue
            device = chooser.device(tensor.name)
            multiplied = tensor.name not in _TABLES
            repacked = repack and multiplied and device == HOST and _is_repacked(tensor)
            placed.append(_Placed(tensor, number, device, repacked))
            if tied and tensor.name == _TABLE:
                placed += _tied_head(tensor, number, chooser, host_copy=device, repack=repack)
    shares = {HOST: _host_share(p for p in placed if p.device == HOST)}
    for target in devices:
        held = (p.tensor.n_bytes for p in placed if p.device == target.name)
        shares[target.name] = WeightShare(target.name, sum(held))
    return shares


class _Chooser:
    """Decides the device of a tensor by its name."""

    def __init__(self, layers: LayerMap, offload: Offload) -> None:
        self._layers = layers
        self._overrides = tuple((re.compile(pattern), device) for pattern, device in offload.patterns)

    def device(self, name: str) -> str:
        return self._overridden(name) or self._by_role(name)

    def head(self) -> str:
        """Device of a token table that stands in for the output matrix."""
        return self._overridden(_TABLE) or self._layers.output

    def _overridden(self, name: str) -> str | None:
        return next((device for pattern, device in self._overrides if pattern.search(name)), None)

    def _by_role(self, name: str) -> str:
        if name in _TABLES:
            return HOST
        block = _BLOCK.match(name)
        if block is not None:
            return self._layers.of(int(block.group(1)))
        # everything else the engine creates for layer 0: per-layer projections, rope factors, embedding norms
        return self._layers.output if name.startswith(_OUTPUTS) else self._layers.of(0)


def _tied_head(table: TensorInfo, file: int, chooser: _Chooser, *, host_copy: str, repack: bool) -> list[_Placed]:
    """The output matrix of a model that has none: the token table again, unless it is already where it is needed."""
    device = chooser.head()
    repacked = repack and device == HOST and _is_repacked(table)
    if device == host_copy and not repacked:
        return []
    return [_Placed(table, file, device, repacked)]


def _skipped(name: str, architecture: str, main_blocks: int) -> bool:
    block = _BLOCK.match(name)
    if block is None or int(block.group(1)) < main_blocks:
        return False
    return architecture != _FEED_FORWARD_KEPT or ".ffn_" not in name


def _is_repacked(tensor: TensorInfo) -> bool:
    dimensions = 3 if tensor.is_expert else 2
    if tensor.type_name not in REPACKED or len(tensor.dims) != dimensions:
        return False
    return tensor.dims[1] % _REPACK_ROWS == 0


def _host_share(placed: Iterable[_Placed]) -> WeightShare:
    spans: dict[int, tuple[int, int]] = {}
    total = repacked = 0
    for item in placed:
        total += item.tensor.n_bytes
        if item.repacked:
            repacked += item.tensor.n_bytes
            continue
        start, end = item.tensor.offset, item.tensor.offset + item.tensor.n_bytes
        low, high = spans.get(item.file, (start, end))
        spans[item.file] = (min(low, start), max(high, end))
    return WeightShare(HOST, total, sum(high - low for low, high in spans.values()), repacked)
