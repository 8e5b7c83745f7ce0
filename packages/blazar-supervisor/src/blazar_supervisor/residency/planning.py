"""What an instance needs, and who would have to go for it: asked once, kept until it is started or nobody waits."""

import asyncio
from collections.abc import Callable

from blazar_routing.errors import ContextDoesNotFit, ModelDoesNotFit
from blazar_routing.instances import model_of
from blazar_supervisor.residency.census import Census
from blazar_supervisor.residency.eviction import Room
from blazar_supervisor.residency.lines import is_spare, next_key
from blazar_supervisor.residency.pools import Bytes
from blazar_supervisor.residency.ports import Plan, Planner
from blazar_supervisor.residency.residence import Residence
from blazar_supervisor.residency.wording import pinned_verdict

_REPROBES = 3
_REPROBE_PAUSE_S = 0.5
_RECENT_S = 5.0
"""A child that went within this time may not have given its memory back yet: worth another look."""


class Plans:
    """Plans by line, over a census.

    Args:
        census: The children there are.
        planner: Makes plans and measures the machine.
        waiting: How many requests wait for an instance.
        wish: The largest context that somebody who waits for an instance asks for, or 0.
        max_loaded: The most children at the same time, or ``None``.
        rerouted: Called with a model, the build that serves it, and those that did not know its architecture.
        clock: The dispatcher's clock.
    """

    def __init__(
        self,
        *,
        census: Census,
        planner: Planner,
        waiting: Callable[[str], int],
        wish: Callable[[str], int],
        max_loaded: Callable[[], int | None],
        rerouted: Callable[[str, str, frozenset[str]], None],
        clock: Callable[[], float],
    ) -> None:
        self._census = census
        self._planner = planner
        self._waiting = waiting
        self._wish = wish
        self._max_loaded = max_loaded
        self._rerouted = rerouted
        self._clock = clock
        self._kept: dict[str, Plan] = {}
        self._refused_by: dict[str, frozenset[str]] = {}
        self._last_gone_s = float("-inf")

    def victims(self, line: str) -> tuple[str, ...]:
        """Return who has to agree before ``line`` gets a child; nobody while its needs are unknown.

        These are the lines whose children would go, and the keys of children that can go without their line noticing.
        """
        return tuple(dict.fromkeys(self._stake(victim, line) for victim in self.leaving(line)))

    def leaving(self, line: str) -> tuple[Residence, ...]:
        """Return the children that would have to go for ``line``."""
        children = self._census.of_line(line)
        key = next_key(line, children)
        sleeper = self._census.find(key)
        plan = sleeper.plan if sleeper is not None and sleeper.is_asleep else self._kept.get(line)
        if plan is None:
            return ()
        found = (self._census.find(victim) for victim in self._room(key, plan).victims)
        return tuple(residence for residence in found if residence is not None)

    def _stake(self, victim: Residence, line: str) -> str:
        alone = victim.line == line or is_spare(victim, self._census.of_line(victim.line))
        return victim.key if alone else victim.line

    def has_spare_room(self, key: str, line: str, like: Plan) -> bool:
        """Return whether one more child of ``line`` fits without anybody's going, if it needs what ``like`` does."""
        room = self._room(key, self._kept.get(line) or like)
        return room.possible and not room.victims

    async def settle(self, key: str, line: str) -> Plan | None:
        """Return the plan with which ``line`` can get a child now, or ``None`` when somebody has to go first.

        In that case the plan is kept, and :meth:`victims` says who.

        Raises:
            LaneError: It cannot be started at all.
        """
        while True:
            plan = self._kept.pop(line, None)
            if plan is None or plan.ctx_wish < self._wish(line):
                plan = await self._make(key, line)
            room = self._room(key, plan)
            if room.victims:
                self._kept[line] = plan
                return None
            if room.possible:
                return plan
            # What was possible when the plan was made no longer is: it is made anew, with a fresh look at memory.

    async def explain(self, line: str, *, ctx_tokens: int = 0) -> Plan:
        """Return what would be started for an instance now, starting nothing.

        Args:
            line: The instance's name.
            ctx_tokens: The context that a client asks for, or 0.

        Raises:
            LaneError: The planner's refusal.
        """
        limit, refused_by = await self.circumstances(line)
        return await self._planner.plan(line, limit=limit, refused_by=refused_by, ctx_tokens=ctx_tokens)

    async def circumstances(self, line: str) -> tuple[Bytes | None, frozenset[str]]:
        """Measure, and return what a plan depends on: memory for children, and builds that died on the model."""
        pools = await self._planner.pools()
        children = [residence.child for residence in self._census if residence.child is not None and residence.alive]
        private = await asyncio.gather(*(child.private_bytes() for child in children))
        self._census.measured(pools, private=sum(private))
        return self._census.limit, self._refused_by.get(model_of(line), frozenset())

    async def larger(self, residence: Residence, ctx_tokens: int) -> Plan:
        """Return the plan of a child with a larger context in the place of ``residence``, which runs.

        Raises:
            ContextDoesNotFit: There is no room for it, even if others went.
            LaneError: Another refusal of the planner.
        """
        plan = await self.explain(residence.line, ctx_tokens=ctx_tokens)
        room = self._room(residence.key, plan)
        if not room.possible:
            verdict = pinned_verdict(plan.need, room.pinned)
            raise ContextDoesNotFit(model=residence.model, ctx_tokens=ctx_tokens, verdict=verdict)
        return plan

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

    def forget_all(self) -> None:
        """Settings have changed: nothing that was planned before holds."""
        self._kept.clear()

    def forget(self, line: str) -> None:
        """Nobody waits for the instance any more: plan anew when somebody does."""
        self._kept.pop(line, None)

    def refuse_build(self, model: str, tag: str) -> bool:
        """Plan without a build that does not know the model's architecture; return whether this is the first."""
        first = model not in self._refused_by
        self._refused_by[model] = self._refused_by.get(model, frozenset()) | {tag}
        return first

    def came_up(self, model: str, tag: str) -> None:
        """A build serves the model: that is worth remembering where an earlier one could not."""
        refused_by = self._refused_by.get(model)
        if refused_by and tag not in refused_by:
            self._rerouted(model, tag, refused_by)

    def forget_refusals(self, model: str) -> None:
        """Try every engine build again: their owner may have changed one."""
        self._refused_by.pop(model, None)

    def _room(self, key: str, plan: Plan) -> Room:
        return self._census.room(
            key, plan.need, waiting=self._waiting, max_loaded=self._max_loaded(), now_s=self._clock()
        )

    async def _make(self, key: str, line: str) -> Plan:
        for attempt in range(_REPROBES):
            wish = self._wish(line)
            plan = await self.explain(line, ctx_tokens=wish)
            room = self._room(key, plan)
            if room.possible:
                return plan
            if attempt + 1 == _REPROBES or self._clock() - self._last_gone_s > _RECENT_S:
                verdict = pinned_verdict(plan.need, room.pinned)
                if wish:
                    raise ContextDoesNotFit(model=model_of(line), ctx_tokens=wish, verdict=verdict)
                raise ModelDoesNotFit(model=model_of(line), verdict=verdict)
            await asyncio.sleep(_REPROBE_PAUSE_S)
        raise AssertionError("the loop returns or raises")
