"""What a model needs, and who would have to go for it: asked once, kept until it is started or nobody waits."""

import asyncio
from collections.abc import Callable

from blazar_routing.errors import ModelDoesNotFit
from blazar_supervisor.residency.census import Census
from blazar_supervisor.residency.eviction import Room
from blazar_supervisor.residency.ports import Plan, Planner
from blazar_supervisor.residency.wording import pinned_verdict

_REPROBES = 3
_REPROBE_PAUSE_S = 0.5
_RECENT_S = 5.0
"""A child that went within this time may not have given its memory back yet: worth another look."""


class Plans:
    """Plans by model, over a census.

    Args:
        census: The children there are.
        planner: Makes plans and measures the machine.
        waiting: How many requests wait for a model.
        max_loaded: The most children at the same time, or ``None``.
        clock: The dispatcher's clock.
    """

    def __init__(
        self,
        *,
        census: Census,
        planner: Planner,
        waiting: Callable[[str], int],
        max_loaded: Callable[[], int | None],
        clock: Callable[[], float],
    ) -> None:
        self._census = census
        self._planner = planner
        self._waiting = waiting
        self._max_loaded = max_loaded
        self._clock = clock
        self._kept: dict[str, Plan] = {}
        self._refused_by: dict[str, frozenset[str]] = {}
        self._last_gone_s = float("-inf")

    def victims(self, model: str) -> tuple[str, ...]:
        """Return the models that would have to go for ``model``; empty while its needs are unknown."""
        residence = self._census.find(model)
        sleeps = residence is not None and residence.is_asleep
        plan = residence.plan if sleeps and residence is not None else self._kept.get(model)
        if plan is None:
            return ()
        found = (self._census.find(key) for key in self._room(model, plan).victims)
        return tuple(dict.fromkeys(residence.model for residence in found if residence is not None))

    async def settle(self, key: str, model: str) -> Plan | None:
        """Return the plan with which ``model`` can be started now, or ``None`` when somebody has to go first.

        In that case the plan is kept, and :meth:`victims` says who.

        Raises:
            LaneError: It cannot be started at all.
        """
        while True:
            plan = self._kept.pop(model, None) or await self._make(key, model)
            room = self._room(key, plan)
            if room.victims:
                self._kept[model] = plan
                return None
            if room.possible:
                return plan
            # What was possible when the plan was made no longer is: it is made anew, with a fresh look at memory.

    async def explain(self, model: str) -> Plan:
        """Return what would be started for the model now, starting nothing.

        Raises:
            LaneError: The planner's refusal.
        """
        pools = await self._planner.pools()
        children = [residence.child for residence in self._census if residence.child is not None and residence.alive]
        private = await asyncio.gather(*(child.private_bytes() for child in children))
        self._census.measured(pools, private=sum(private))
        refused_by = self._refused_by.get(model, frozenset())
        return await self._planner.plan(model, limit=self._census.limit, refused_by=refused_by)

    def with_spare(self, key: str, plan: Plan) -> Plan:
        """Return the plan with its prompt cache fitted to what is spare now."""
        spare = self._census.spare_host_bytes(key, plan.need)
        return plan if spare is None else self._planner.with_spare(plan, spare)

    def fits_beside_the_going(self, key: str, plan: Plan) -> bool:
        """Return whether the plan has room although what is being stopped still holds its memory."""
        return self._census.fits_now(key, plan.need, max_loaded=self._max_loaded())

    def went(self) -> None:
        """A child has just gone."""
        self._last_gone_s = self._clock()

    def forget(self, model: str) -> None:
        """Nobody waits for the model any more: plan anew when somebody does."""
        self._kept.pop(model, None)

    def refuse_build(self, model: str, tag: str) -> bool:
        """Plan without a build that does not know the model's architecture; return whether this is the first."""
        first = model not in self._refused_by
        self._refused_by[model] = self._refused_by.get(model, frozenset()) | {tag}
        return first

    def forget_refusals(self, model: str) -> None:
        """Try every engine build again: their owner may have changed one."""
        self._refused_by.pop(model, None)

    def _room(self, key: str, plan: Plan) -> Room:
        return self._census.room(key, plan.need, waiting=self._waiting, max_loaded=self._max_loaded())

    async def _make(self, key: str, model: str) -> Plan:
        for attempt in range(_REPROBES):
            plan = await self.explain(model)
            room = self._room(key, plan)
            if room.possible:
                return plan
            if attempt + 1 == _REPROBES or self._clock() - self._last_gone_s > _RECENT_S:
                raise ModelDoesNotFit(model=model, verdict=pinned_verdict(plan.need, room.pinned))
            await asyncio.sleep(_REPROBE_PAUSE_S)
        raise AssertionError("the loop returns or raises")
