"""Identical chats at the same time: the engine is asked once, or at least evaluates their prompt once.

The first of them *leads*: it is served as any request. One that comes within :data:`WINDOW_S` of it, asks for exactly
the same and takes no stream *follows*. What the model would say again to the letter (temperature 0, or a seed) is
shared: the follower is given the leader's answer. Otherwise it waits until the leader's prompt has been evaluated, for
the rest of the window at most, and then asks for itself, with its prefix warm.

A leader whose client leaves takes nobody with it: the first of its followers leads in its place. What a leader is
refused with, its followers are refused with too: they waited for the same engine. A follower that leaves disturbs
nobody. Answers are never kept beyond the flight.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

from aiohttp import web

from blazar_gateway.error_responses import EngineRefusal
from blazar_routing.errors import LaneError

WINDOW_S = 5.0
"""Seconds after its start in which a flight is joined."""

_RANDOM_SEEDS = (-1, 0xFFFFFFFF)
"""What llama.cpp takes for "choose one"."""

Answer = TypeVar("Answer")


def is_deterministic(fields: Mapping[str, object]) -> bool:
    """Return whether a chat's answer would be the same if it were asked for again."""
    temperature, seed = fields.get("temperature"), fields.get("seed")
    if type(temperature) in {int, float} and temperature == 0:
        return True
    return type(seed) is int and seed not in _RANDOM_SEEDS


class Flight(Generic[Answer]):
    """One request to an engine that others may share.

    Attributes:
        began_s: On the loop's clock.
        warm: Whether the prompt has been evaluated.
        answer: What followers get, once it is there.
        refusal: What they are refused with, once it is known.
        over: Whether nothing more will come of it.
    """

    __slots__ = ("_watchers", "answer", "began_s", "over", "refusal", "warm")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.warm = False
        self.answer: Answer | None = None
        self.refusal: LaneError | EngineRefusal | None = None
        self.over = False
        self._watchers: list[asyncio.Future[None]] = []

    def evaluated(self) -> None:
        """Say that the prompt has been evaluated."""
        if not self.warm:
            self.warm = True
            self._wake()

    def publish(self, answer: Answer) -> None:
        """Give the answer to those who share it, before it is sent to the leader's own client, who may be slow."""
        self.answer = answer
        self.warm = True
        self._wake()

    def end(self) -> None:
        """Say that nothing more will come."""
        self.over = True
        self._wake()

    async def news(self, *, within_s: float | None) -> None:
        """Return when something has changed, or after that time."""
        told = asyncio.get_running_loop().create_future()
        self._watchers.append(told)
        try:
            async with asyncio.timeout(within_s):
                await told
        except TimeoutError:
            pass  # waited long enough
        finally:
            if told in self._watchers:
                self._watchers.remove(told)

    def _wake(self) -> None:
        watchers, self._watchers = self._watchers, []
        for told in watchers:
            if not told.done():
                told.set_result(None)


Lead = Callable[[Flight[Answer] | None], Awaitable[web.StreamResponse]]
Share = Callable[[Answer], Awaitable[web.StreamResponse]]


class Flights(Generic[Answer]):
    """The flights there are. One event loop owns it.

    Attributes:
        following: Requests that wait for another's answer or prefill now.
        shared: Requests that were given another's answer, since the start.
        warmed: Requests that waited for another's prefill.
    """

    def __init__(self, *, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._flights: dict[Hashable, Flight[Answer]] = {}
        self.following = 0
        self.shared = 0
        self.warmed = 0

    def __len__(self) -> int:
        return len(self._flights)

    async def serve(
        self, key: Hashable, *, shares: bool, lead: Lead[Answer], share: Share[Answer]
    ) -> web.StreamResponse:
        """Serve a request: as a leader, with a leader's answer, or after a leader's prefill.

        Args:
            key: Equal for requests that ask for the same, on behalf of the same API key, in the same class.
            shares: Whether an answer can be shared; the same for equal keys.
            lead: Asks the engine and answers the client; it tells the flight it is given how far it has come.
            share: Answers the client with what another was answered.

        Raises:
            LaneError: The refusal of this request, or of the one that it followed.
            EngineRefusal: Likewise.
        """
        loop = asyncio.get_running_loop()
        while True:
            flight = self._flights.get(key)
            if flight is None or loop.time() - flight.began_s >= self._window_s:
                return await self._lead(key, lead, loop.time())
            if shares:
                while flight.answer is None and not flight.over:
                    await self._wait(flight, None)
                if flight.answer is not None:
                    self.shared += 1
                    return await share(flight.answer)
            else:
                if not (flight.warm or flight.over):
                    await self._wait(flight, flight.began_s + self._window_s - loop.time())
                if flight.warm or not flight.over:
                    self.warmed += 1
                    return await lead(None)
            if flight.refusal is not None:
                raise flight.refusal.with_traceback(None)
            # The leader's client has left: whoever is the first to get here leads.

    async def _wait(self, flight: Flight[Answer], within_s: float | None) -> None:
        self.following += 1
        try:
            await flight.news(within_s=within_s)
        finally:
            self.following -= 1

    async def _lead(self, key: Hashable, lead: Lead[Answer], now_s: float) -> web.StreamResponse:
        flight: Flight[Answer] = Flight(now_s)
        self._flights[key] = flight
        try:
            return await lead(flight)
        except (LaneError, EngineRefusal) as error:
            flight.refusal = error
            raise
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.end()
