"""The words a refusal or a warning uses. Command line and API print them byte for byte."""

from typing import Final

from blazar_budget.contract import GIB, MIB
from blazar_budget.footprint import Demand, Footprint
from blazar_budget.judgement import Judgement
from blazar_budget.levers import Levers
from blazar_budget.offload import HOST

_PERCENT: Final = 100


def size(amount: int) -> str:
    """Bytes for a person: ``412 MiB``, ``7.3 GiB``."""
    if amount < GIB:
        return f"{amount / MIB:.0f} MiB"
    return f"{amount / GIB:.1f} GiB"


def refusal(needs: Footprint, judgement: Judgement, levers: Levers) -> str:
    """Return the one text of a model that does not fit: what, why, and four ways out.

    It goes on where "model x does not fit: " ends.
    """
    return f"{_what(needs, judgement)} {_why(needs)} {_ways_out(needs, levers)}"


def tight_warnings(needs: Footprint, judgement: Judgement) -> tuple[str, ...]:
    """Return why a model that is served anyway is a close call."""
    share = f"{needs.occupancy * _PERCENT:.0f} %"
    where = _place(needs)
    text = (
        f"tight: {size(needs.needed_bytes)} of {size(needs.pool_bytes)} of {where} ({share}); the engine decides how "
        "many layers go there"
    )
    if judgement.below_floor:
        text += f", because the weights alone ({size(needs.weights_bytes)}) leave less than 15 % free"
    if needs.worst_bytes > needs.pool_bytes:
        text += f"; working memory may grow until it is {size(needs.worst_bytes)}"
    return (text,)


def doubt_warnings(needs: Footprint) -> tuple[str, ...]:
    """Return why the figures are a guess."""
    return tuple(f"the memory figure is an estimate on the high side: {doubt}" for doubt in needs.kv.doubts)


def guess_warning(needs: Footprint) -> str:
    """Return what is said of a model that is over budget only by a guess."""
    return (
        f"by that estimate it needs {size(needs.needed_bytes)} of {size(needs.pool_bytes)}; it is started anyway and "
        "the engine fits what it can"
    )


def _what(needs: Footprint, judgement: Judgement) -> str:
    if needs.needed_bytes > needs.pool_bytes:
        return (
            f"it needs {size(needs.needed_bytes)}, and {_place(needs)} {_has(needs)} {size(needs.pool_bytes)}; "
            "nothing was loaded."
        )
    host = needs.host
    return (
        f"the part that stays on the host needs {size(host.needed_bytes)}, "
        f"{size(judgement.host_short_bytes)} more than there is; nothing was loaded."
    )


def _why(needs: Footprint) -> str:
    kv = needs.kv
    held = [f"weights {size(needs.weights_bytes)}"]
    cache = sum(demand.kv_bytes for demand in needs.pool)
    if cache:
        types = kv.settings.type_k if kv.settings.type_k is kv.settings.type_v else _both_types(needs)
        slots = "slot" if kv.layout.slots == 1 else "slots"
        held.append(f"KV cache {size(cache)} ({kv.total_cells:,} tokens, {kv.layout.slots} {slots}, {types})")
    state = sum(demand.recurrent_bytes for demand in needs.pool)
    if state:
        held.append(f"recurrent state {size(state)}")
    extra = sum(demand.extra_bytes for demand in needs.pool)
    if extra:
        held.append(f"projector and adapters {size(extra)}")
    held.append(f"working memory {size(sum(demand.overhead_bytes for demand in needs.pool))}")
    return f"It is made of {', '.join(held)}."


def _ways_out(needs: Footprint, levers: Levers) -> str:
    ways = (_ctx_way(levers), _cache_way(needs, levers), _layers_way(needs, levers), _model_way(levers))
    return f"Any one of these helps: {'; '.join(f'({n}) {way}' for n, way in enumerate(ways, 1))}."


def _ctx_way(levers: Levers) -> str:
    if levers.ctx is None:
        return "ctx: no context is small enough"
    return f"ctx: {levers.ctx} is the largest that fits"


def _cache_way(needs: Footprint, levers: Levers) -> str:
    if levers.cache_type is not None:
        return f'cache_type: set cache_type_k and cache_type_v to "{levers.cache_type}"'
    return "cache_type: no type is small enough" if needs.kv.kv_bytes else "cache_type: this model has no KV cache"


def _layers_way(needs: Footprint, levers: Levers) -> str:
    if needs.host in needs.pool:
        return "gpu-layers: there is no accelerator to share the load with"
    if levers.gpu_layers is None:
        return "gpu-layers: no number fits, the host has too little memory for the rest"
    count = len(needs.layers.layers) + 1
    return f"gpu-layers: {levers.gpu_layers} of {count} fit, the rest runs on the processor and is slower"


def _model_way(levers: Levers) -> str:
    if not levers.weights_bytes:
        return "model size: beside that context there is no room for any model"
    return (
        f"model size: weights of at most {size(levers.weights_bytes)}, {size(levers.smaller_by_bytes)} less, for "
        "instance a stronger quantisation"
    )


def _both_types(needs: Footprint) -> str:
    return f"K {needs.kv.settings.type_k}, V {needs.kv.settings.type_v}"


def _place(needs: Footprint) -> str:
    names = [_name(demand) for demand in needs.pool]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} together"


def _has(needs: Footprint) -> str:
    return "has" if len(needs.pool) == 1 else "have"


def _name(demand: Demand) -> str:
    return "this machine's memory" if demand.device == HOST else demand.device
