"""A verdict as plain values, for ``--json`` and for whoever draws a picture of it."""

from collections.abc import Mapping
from typing import TypeAlias

from blazar_budget.footprint import Demand, Footprint
from blazar_budget.levers import Levers
from blazar_budget.verdict import FitWithWarning, Refuse, Verdict

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"


def verdict_facts(verdict: Verdict) -> Mapping[str, Plain]:
    """Return a verdict as plain values; sizes in bytes.

    ``weights_bytes``, ``kv_bytes``, ``recurrent_bytes``, ``compute_bytes`` and ``overhead_bytes`` are sums over all
    devices and the host; what the verdict was judged by is in ``needed_bytes`` and ``pool_bytes``. ``would_fit`` is
    given for refusals.
    """
    facts: dict[str, Plain] = {"verdict": str(verdict.answer), "approximate": False, "would_fit": None}
    if verdict.footprint is not None:
        facts |= _footprint_facts(verdict.footprint)
    if isinstance(verdict, Refuse):
        facts["text"] = verdict.text
        facts["would_fit"] = _lever_facts(verdict.levers) if verdict.levers is not None else None
    if isinstance(verdict, FitWithWarning):
        facts["warnings"] = list(verdict.warnings)
        facts["fitter_owns_layers"] = verdict.fitter_owns_layers
    return facts


def _footprint_facts(needs: Footprint) -> dict[str, Plain]:
    demands = needs.demands
    return {
        "weights_bytes": sum(d.weights_bytes for d in demands),
        "kv_bytes": needs.kv.kv_bytes,
        "recurrent_bytes": needs.kv.recurrent_bytes,
        "compute_bytes": sum(d.compute.likely for d in demands),
        "overhead_bytes": sum(d.overhead_bytes for d in demands),
        "extra_bytes": sum(d.extra_bytes for d in demands),
        "needed_bytes": needs.needed_bytes,
        "pool_bytes": needs.pool_bytes,
        "approximate": needs.kv.approximate,
        "ctx": needs.kv.total_cells,
        "slots": needs.kv.layout.slots,
        "devices": [_demand_facts(d) for d in demands],
    }


def _demand_facts(demand: Demand) -> dict[str, Plain]:
    return {
        "device": demand.device,
        "capacity_bytes": demand.capacity_bytes,
        "weights_bytes": demand.weights_bytes,
        "kv_bytes": demand.kv_bytes,
        "recurrent_bytes": demand.recurrent_bytes,
        "extra_bytes": demand.extra_bytes,
        "compute_low_bytes": demand.compute.low,
        "compute_likely_bytes": demand.compute.likely,
        "compute_high_bytes": demand.compute.high,
        "overhead_bytes": demand.overhead_bytes,
        "needed_bytes": demand.needed_bytes,
    }


def _lever_facts(levers: Levers) -> dict[str, Plain]:
    return {
        "ctx": levers.ctx,
        "cache_type": levers.cache_type,
        "gpu_layers": levers.gpu_layers,
        "weights_bytes": levers.weights_bytes,
        "smaller_by_bytes": levers.smaller_by_bytes,
    }
