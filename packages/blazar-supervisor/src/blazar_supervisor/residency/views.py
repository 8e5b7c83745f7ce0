"""How waiting requests and children look from outside; fits the gateway's ``Waiting`` and ``Resident``."""

from dataclasses import dataclass

from blazar_supervisor.residency.residence import Residence
from blazar_supervisor.residency.states import ChildState


@dataclass(frozen=True, slots=True)
class WaitingView:
    """How far a model is for somebody who waits for it.

    Attributes:
        state: ``queued`` or ``loading``.
        ahead: Requests that go first, when queued.
        fraction: Of the load, 0.0 to 1.0, where the engine reports it.
    """

    state: str
    ahead: int
    fraction: float | None


@dataclass(frozen=True, slots=True)
class ResidentView:
    """One child, at one moment; the attributes are the gateway's."""

    model: str
    child: str
    engine: str
    state: str
    pid: int | None
    ctx_tokens: int | None
    slots: int | None
    in_flight: int
    waiting: int
    memory_bytes: int
    device_bytes: int
    estimate_bytes: int
    expires_in_s: float | None
    load_fraction: float | None
    cache_hint: float | None
    spec_accept: float | None
    warnings: tuple[str, ...]


def resident_view(residence: Residence, *, waiting: int, now_s: float) -> ResidentView:
    """Return what ``residence`` looks like now. Asks the child nothing."""
    profile = residence.plan.profile if residence.plan is not None else None
    child = residence.child
    warnings = list(profile.warnings) if profile is not None else []
    if residence.error is not None:
        warnings.append(str(residence.error))
    alive = residence.alive and child is not None
    reported = residence.reported
    return ResidentView(
        model=residence.model,
        child=residence.key,
        engine=profile.engine if profile is not None else "",
        state=residence.state.value,
        pid=child.pid if alive and child is not None else None,
        ctx_tokens=profile.ctx_tokens if profile is not None else None,
        slots=profile.slots if profile is not None else None,
        in_flight=len(residence.leases),
        waiting=waiting,
        memory_bytes=reported.host + reported.device if alive else 0,
        device_bytes=reported.device if alive else 0,
        estimate_bytes=profile.estimate_bytes if profile is not None else 0,
        expires_in_s=expires_in_s(residence, now_s=now_s),
        load_fraction=child.fraction() if child is not None and residence.state is ChildState.STARTING else None,
        cache_hint=residence.hints.cache_hint,
        spec_accept=residence.hints.spec_accept,
        warnings=tuple(warnings),
    )


def expires_in_s(residence: Residence, *, now_s: float) -> float | None:
    """Return the seconds until it is stopped if nobody asks, or ``None`` for never. Running requests hold the clock."""
    idle_s = residence.idle_s()
    if idle_s is None or not residence.alive:
        return None
    if residence.leases or residence.state is ChildState.STARTING:
        return idle_s
    return max(0.0, residence.used_at_s + idle_s - now_s)
