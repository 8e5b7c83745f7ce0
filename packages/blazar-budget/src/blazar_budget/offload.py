"""Which device each layer goes to, by the engine's placement flags.

Source: llama.cpp b10434, ``load_tensors``: layers go to devices from the *end*, the output matrix counts as one layer,
and the layers of several devices are split in proportion to their memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HOST: Final = "host"
"""Name of the host's memory where a device is asked for."""

_EXPERTS: Final = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


@dataclass(frozen=True, slots=True)
class Offload:
    """The engine's placement flags.

    Attributes:
        gpu_layers: ``-ngl``; None for as many as there are, which is what the engine's fitter starts from.
        cpu_moe: ``--cpu-moe``: expert tensors of all layers stay on the host.
        n_cpu_moe: ``--n-cpu-moe``: those of the first so many layers do.
        kv_on_host: ``-nkvo``: caches and recurrent state stay on the host.
        tensor_split: ``-ts``: shares of the devices; empty for shares by memory.
        overrides: ``-ot``: pairs of a regular expression that is searched in tensor names, and the device that
            matching tensors go to (:data:`HOST` or a device's name). The first match counts.
        mtp: load next-token-prediction blocks too (speculative decoding with them); they are skipped otherwise.
    """

    gpu_layers: int | None = None
    cpu_moe: bool = False
    n_cpu_moe: int = 0
    kv_on_host: bool = False
    tensor_split: tuple[float, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()
    mtp: bool = False

    @property
    def patterns(self) -> tuple[tuple[str, str], ...]:
        """All overrides, the switches for experts included, in the engine's order."""
        found = list(self.overrides)
        if self.cpu_moe:
            found.append((_EXPERTS, HOST))
        found += [(rf"blk\.{layer}{_EXPERTS}", HOST) for layer in range(self.n_cpu_moe)]
        return tuple(found)


DEFAULT_OFFLOAD: Final = Offload()
"""No placement flag given."""


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator the engine may use.

    Attributes:
        name: how the engine calls it, e.g. ``CUDA0``.
        memory_bytes: memory that may be used on it; decides its share of the layers.
    """

    name: str
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LayerMap:
    """Where layers live.

    Attributes:
        layers: device name of each layer, :data:`HOST` for none.
        output: device name of the output matrix and final norms.
        offloaded: layers on devices, the output counted as one (the engine's "offloaded n/m layers").
    """

    layers: tuple[str, ...]
    output: str
    offloaded: int

    def of(self, layer: int) -> str:
        """Device of a layer; of one past the end, the output's."""
        return self.layers[layer] if 0 <= layer < len(self.layers) else self.output


def map_layers(count: int, devices: Sequence[Device], offload: Offload) -> LayerMap:
    """Return the device of each layer.

    Args:
        count: layers as the engine counts them: loops, next-token-prediction blocks and router layer included.
        devices: accelerators in the engine's order; none for a host without.
        offload: placement flags.
    """
    if not devices:
        return LayerMap((HOST,) * count, HOST, 0)
    asked = count + 1 if offload.gpu_layers is None else max(offload.gpu_layers, 0)
    first = max(count + 1 - asked, 0)
    active = min(asked, count + 1)
    bounds = _split_points(devices, offload.tensor_split)

    def place(layer: int) -> str:
        if layer < first or layer - first >= active:
            return HOST
        share = (layer - first) / active
        return next((d.name for d, bound in zip(devices, bounds, strict=True) if share < bound), devices[-1].name)

    return LayerMap(tuple(place(i) for i in range(count)), place(count), active)


def _split_points(devices: Sequence[Device], tensor_split: Sequence[float]) -> list[float]:
    """Upper bound of each device's share of the layers, from 0 to 1."""
    weights = list(tensor_split[: len(devices)]) or [float(d.memory_bytes) for d in devices]
    weights += [0.0] * (len(devices) - len(weights))
    total = sum(weights)
    if total <= 0:
        weights, total = [1.0] * len(devices), float(len(devices))
    points, reached = [], 0.0
    for weight in weights:
        reached += weight
        points.append(reached / total)
    return points
