"""Slots, the queue before them, KV cells, counters and sleep: what the generations share."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from blazar_stubs.llama_server.console import TRACE, Console
from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.params import Params
from blazar_stubs.llama_server.reactor import Flag, Reactor
from blazar_stubs.llama_server.settings import Settings, Shape


class Slot:
    """One sequence's place in the KV cache."""

    def __init__(self, number: int, context: int, reactor: Reactor) -> None:
        self.number = number
        self.context = context
        self.tokens: list[int] = []
        self.is_blind = False
        self.idle = Flag(reactor)
        self.idle.set()
        self.used_at = -1.0
        self.task = -1
        self.processed = 0
        self.cached = 0
        self.decoded = 0
        self.remaining = -1
        self.generating = False
        self.params: Params | None = None
        self.chat_format = "Content-only"
        self.generation_prompt = ""

    @property
    def is_busy(self) -> bool:
        """Whether a task holds the slot."""
        return not self.idle.is_set

    def shown(self) -> Json:
        """The slot's entry in ``/slots``."""
        entry: Json = {
            "id": self.number,
            "n_ctx": self.context,
            "speculative": False,
            "is_processing": self.is_busy,
        }
        if self.params is not None:
            params = self.params.shown(
                full=False, chat_format=self.chat_format, generation_prompt=self.generation_prompt
            )
            entry |= {
                "id_task": self.task,
                "n_prompt_tokens": len(self.tokens),
                "n_prompt_tokens_processed": self.processed,
                "n_prompt_tokens_cache": self.cached,
                "params": params,
                "next_token": [
                    {
                        "has_next_token": self.generating,
                        "has_new_line": False,
                        "n_remain": self.remaining,
                        "n_decoded": self.decoded,
                    }
                ],
            }
        return entry


class Overflows:
    """Something at work on a slot that can be told that there is no room left."""

    overflowed = False


class Counters:
    """What ``/metrics`` counts; survives sleep, dies with the process."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.prompt_s = 0.0
        self.predicted_tokens = 0
        self.predicted_s = 0.0
        self.decodes = 0
        self.busy_decodes = 0
        self.longest = 0
        self.bucket = [0.0, 0.0, 0.0, 0.0]

    def prompt(self, tokens: int, seconds: float) -> None:
        """Count an evaluated prompt (what was cached is not part of it)."""
        self.prompt_tokens += tokens
        self.prompt_s += seconds
        self.bucket[0] += tokens
        self.bucket[1] += seconds

    def predicted(self, tokens: int, seconds: float) -> None:
        """Count generated tokens."""
        self.predicted_tokens += tokens
        self.predicted_s += seconds
        self.bucket[2] += tokens
        self.bucket[3] += seconds


class Engine:
    """The state behind the endpoints of one loaded model."""

    def __init__(self, reactor: Reactor, console: Console, settings: Settings, shape: Shape) -> None:
        self.reactor = reactor
        self.console = console
        self.settings = settings
        self.shape = shape
        self.counters = Counters()
        self.slots = [Slot(number, shape.slot_context, reactor) for number in range(settings.slots)]
        self.remembered: list[list[int]] = []
        self.active: list[Overflows] = []
        self.is_sleeping = False
        self.active_at = time.monotonic()
        self.wake: Callable[[], Any] | None = None
        self.held: bytearray | None = None
        self._waking: Flag | None = None
        self._queue: deque[tuple[int, int, Flag, list[Slot]]] = deque()
        self._next_task = 0

    # tasks ------------------------------------------------------------------------------------------------

    def new_task(self) -> int:
        """A task number."""
        self._next_task += 1
        return self._next_task - 1

    @property
    def deferred(self) -> int:
        """Tasks waiting for a slot."""
        return len(self._queue)

    @property
    def busy(self) -> int:
        """Slots at work."""
        return sum(slot.is_busy for slot in self.slots)

    async def acquire(self, count: int, prompt: list[int], wanted: int) -> list[Slot]:
        """Wait, in order of arrival, until `count` slots are free, and take them.

        Whoever waits here is not dropped when its client leaves: upstream's queue does not look (observed).
        """
        ready = Flag(self.reactor)
        taken: list[Slot] = []
        self._queue.append((count, wanted, ready, taken))
        self._serve_queue(prompt)
        if not ready.is_set:
            await ready.wait()
        return taken

    def _serve_queue(self, prompt: list[int] | None = None) -> None:
        while self._queue:
            count, wanted, ready, taken = self._queue[0]
            free = [slot for slot in self.slots if not slot.is_busy]
            exact = 0 <= wanted < len(self.slots)
            if exact:
                free = [slot for slot in free if slot.number == wanted]
            if len(free) < (1 if exact else count):
                return
            self._queue.popleft()
            for _ in range(len(free[:count])):
                slot = self._best(free, prompt or [])
                free.remove(slot)
                slot.idle.clear()
                taken.append(slot)
            ready.set()

    def _best(self, free: list[Slot], prompt: list[int]) -> Slot:
        """The slot whose tokens resemble the prompt most, else the one longest unused."""
        if prompt:
            likeness, best = max(
                ((common_prefix(slot.tokens, prompt) / len(prompt), -slot.number, slot) for slot in free),
                key=lambda found: found[:2],
            )[::2]
            if likeness > self.settings.similarity:
                return best
        return min(free, key=lambda slot: (slot.used_at, -slot.number))

    def release(self, slot: Slot) -> None:
        """Give a slot back and let the next task have it."""
        slot.generating = False
        slot.processed = slot.cached = slot.decoded = 0
        slot.remaining = -1
        slot.used_at = self.active_at = time.monotonic()
        slot.idle.set()
        if self.settings.cache_ram_mib and slot.tokens:
            self.remembered = [*self.remembered[-31:], slot.tokens]
        self._serve_queue()
        if not self.busy:
            self.console.server("update_slots", "all slots are idle", verbosity=TRACE)

    def cached_prefix(self, slot: Slot, prompt: list[int]) -> int:
        """How many of a prompt's tokens need not be evaluated: at least one always does."""
        if slot.is_blind:
            slot.is_blind = False
            return 0
        sources = [slot.tokens, *self.remembered]
        longest = max(common_prefix(tokens, prompt) for tokens in sources)
        return min(longest, len(prompt) - 1)

    # cells ------------------------------------------------------------------------------------------------

    def has_room(self, more: int) -> bool:
        """Whether `more` tokens fit beside those of all slots at work; idle slots give way."""
        if not self.settings.unified:
            return True
        used = sum(len(slot.tokens) for slot in self.slots if slot.is_busy)
        if used + more > self.shape.cells:
            return False
        if used + more + sum(len(slot.tokens) for slot in self.slots if not slot.is_busy) > self.shape.cells:
            for slot in self.slots:
                if not slot.is_busy:
                    slot.tokens = []
        return True

    def overflow(self) -> None:
        """Fail every generation: none can go on when a shared pool is full (llamacpp.md, section 11)."""
        self.console.line(
            "srv        decode: Context size has been exceeded. off = 0, n_batch = 1, ret = 1", letter="E"
        )
        for generation in self.active:
            generation.overflowed = True

    # sleep ------------------------------------------------------------------------------------------------

    async def touch(self, *, resets: bool = True) -> None:
        """Do what every endpoint does that needs the model: wake it, waiting for the reload.

        Those that go through the engine's queue also reset the idle timer; `/tokenize` and its like do not.
        """
        if resets:
            self.active_at = time.monotonic()
        if not self.is_sleeping:
            return
        if self._waking is not None:
            await self._waking.wait()
            return
        self._waking = Flag(self.reactor)
        self.console.line("que    start_loop: exiting sleeping state")
        self.console.server("handle_sleep", "server is exiting sleeping state")
        if self.wake is not None:
            await self.wake()
        self.is_sleeping = False
        self.active_at = time.monotonic()
        waking, self._waking = self._waking, None
        waking.set()

    def watch_idleness(self) -> None:
        """Look once a second whether it is time to sleep, as upstream does."""
        limit = self.settings.sleep_idle_s
        if limit < 1:
            return
        quiet_s = time.monotonic() - self.active_at
        if not self.is_sleeping and not self.busy and not self._queue and quiet_s >= limit:
            self.is_sleeping = True
            self.held = None
            self.remembered = []
            for slot in self.slots:
                slot.tokens = []
            self.console.line("que    start_loop: entering sleeping state")
            self.console.server("handle_sleep", "server is entering sleeping state")
        self.reactor.call_later(min(1.0, max(0.05, limit - quiet_s)), self.watch_idleness)


def common_prefix(left: list[int], right: list[int]) -> int:
    """Length of the common beginning."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
