"""What would be started for a model and why, without starting anything: for ``blazar explain`` and its call."""

from collections.abc import Mapping
from dataclasses import dataclass

from blazar_routing.errors import LaneError
from blazar_routing.kinds import EngineKind
from blazar_routing.lanes import missing_kinds
from blazar_routing.verdicts import LaneVerdict, explain_shape, judge_lanes
from blazar_supervisor.engines.profile import Profile
from blazar_supervisor.residency.census import Census
from blazar_supervisor.residency.planner import ModelPlanner
from blazar_supervisor.residency.pools import Bytes


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision about one model.

    Attributes:
        model: The row's name.
        shape: What it is, in words.
        told_by: Why it is taken for that.
        architecture: ``""`` when unknown.
        bound_to: The engine that row or settings name, or ``None``.
        lanes: Every installed build, candidates first and in order.
        missing: Kinds that could serve it too and are not installed.
        profile: What would be started, or ``None`` if a request would be refused.
        error: The refusal.
    """

    model: str
    shape: str
    told_by: str
    architecture: str
    bound_to: str | None
    lanes: tuple[LaneVerdict, ...]
    missing: tuple[EngineKind, ...]
    profile: Profile | None
    error: LaneError | None


async def explain(
    planner: ModelPlanner, model: str, *, limit: Bytes | None, refused_by: frozenset[str] = frozenset()
) -> Explanation:
    """Return the decision.

    Args:
        planner: Over the rows, builds and settings in question.
        model: The row's name.
        limit: The memory there would be if no other child ran, or ``None`` when unknown.
        refused_by: Tags of builds that died on its architecture.

    Raises:
        ModelNotFound: There is no such row.
        UnknownEngineKind: It is bound to an engine that is none.
    """
    subject, builds = planner.subject(model, refused_by)
    lanes = judge_lanes(subject, builds)
    profile: Profile | None = None
    error: LaneError | None = None
    try:
        profile = (await planner.plan(model, limit=limit, refused_by=refused_by)).profile
    except LaneError as refusal:
        error = refusal
    return Explanation(
        model=model,
        shape=str(subject.shape),
        told_by=explain_shape(subject.shape),
        architecture=subject.architecture,
        bound_to=subject.engine,
        lanes=lanes,
        missing=missing_kinds(subject.shape, {build.kind for build in builds}),
        profile=profile,
        error=error,
    )


async def explain_alone(planner: ModelPlanner, model: str) -> Explanation:
    """Return the decision on a machine on which no daemon runs; raises as :func:`explain`."""
    census = Census()
    census.measured(await planner.pools(), private=0)
    return await explain(planner, model, limit=census.limit)


def explanation_facts(explanation: Explanation) -> dict[str, object]:
    """Return an explanation as plain JSON values."""
    profile, error = explanation.profile, explanation.error
    return {
        "model": explanation.model,
        "shape": explanation.shape,
        "told_by": explanation.told_by,
        "architecture": explanation.architecture,
        "bound_to": explanation.bound_to,
        "lanes": [
            {"engine": lane.tag, "kind": str(lane.kind), "place": lane.place or None, "reason": lane.reason}
            for lane in explanation.lanes
        ],
        "missing_kinds": [str(kind) for kind in explanation.missing],
        "plan": None if profile is None else _plan_facts(profile),
        "error": None if error is None else {"code": error.code, "message": str(error)},
    }


def _plan_facts(profile: Profile) -> Mapping[str, object]:
    return {
        "engine": profile.engine,
        "argv": [str(profile.program), *profile.args],
        "context_tokens": profile.ctx_tokens,
        "slots": profile.slots,
        "verdict": profile.verdict or None,
        "need_host_bytes": profile.need_host_bytes,
        "need_device_bytes": profile.need_device_bytes,
        "estimate_bytes": profile.estimate_bytes,
        "prompt_cache_mb": profile.cache_ram_mb,
        "sleeps_after_s": profile.sleep_s,
        "warnings": list(profile.warnings),
    }
