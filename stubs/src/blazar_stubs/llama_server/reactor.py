"""One thread, one selector, timers and coroutines: what asyncio would do, at a third of the start-up time.

A coroutine suspends by awaiting `Reactor.sleep`, `Reactor.pause` or `Flag.wait`; nothing else. There is no
cancellation: whoever wants a coroutine to stop sets a flag that it looks at.
"""

import heapq
import selectors
import socket
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

Resume = Callable[[], None]


@types.coroutine
def _suspend(register: Callable[[Resume], None]) -> Generator[Callable[[Resume], None], None, None]:
    """Hand `register` to the reactor, which calls it with what resumes the coroutine."""
    yield register


class Timer:
    """A callback due at a time of the monotonic clock."""

    __slots__ = ("callback", "cancelled", "due_s", "order")

    def __init__(self, due_s: float, order: int, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.order = order
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Let the callback not happen."""
        self.cancelled = True

    def __lt__(self, other: "Timer") -> bool:
        return (self.due_s, self.order) < (other.due_s, other.order)


class Reactor:
    """The event loop."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._ready: deque[Callable[[], None]] = deque()
        self._timers: list[Timer] = []
        self._order = 0
        self._running = True
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ, (self._drain_wakeups, None))

    @property
    def wakeup_fd(self) -> int:
        """A descriptor for `signal.set_wakeup_fd`: a byte written to it ends the current wait."""
        return self._wake_out.fileno()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the next round."""
        self._ready.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` after a delay; the timer returned can be cancelled."""
        self._order += 1
        timer = Timer(time.monotonic() + delay_s, self._order, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def spawn(self, coroutine: Coroutine[Any, None, None]) -> None:
        """Run a coroutine; an exception that leaves it is a bug of the stub, leaves `run` too and ends the process."""
        self._ready.append(lambda: self._step(coroutine))

    def _step(self, coroutine: Coroutine[Any, None, None]) -> None:
        try:
            register = coroutine.send(None)
        except StopIteration:
            return
        register(lambda: self._ready.append(lambda: self._step(coroutine)))

    async def sleep(self, delay_s: float) -> None:
        """Suspend for a time; not at all for zero."""
        if delay_s > 0:
            await _suspend(lambda resume: (self.call_later(delay_s, resume), None)[1])

    async def pause(self) -> None:
        """Let everything else that is ready run first."""
        await _suspend(self.call_soon)

    def watch(
        self,
        sock: socket.socket,
        *,
        reader: Callable[[], None] | None = None,
        writer: Callable[[], None] | None = None,
    ) -> None:
        """Say what to call when `sock` can be read or written; both None forgets the socket."""
        mask = (selectors.EVENT_READ if reader else 0) | (selectors.EVENT_WRITE if writer else 0)
        known = sock.fileno() in self._selector.get_map()
        if mask == 0:
            if known:
                self._selector.unregister(sock)
        elif known:
            self._selector.modify(sock, mask, (reader, writer))
        else:
            self._selector.register(sock, mask, (reader, writer))

    def stop(self) -> None:
        """Leave `run` after the current round."""
        self._running = False

    def run(self) -> None:
        """Serve until `stop`."""
        while self._running:
            self._round()

    def close(self) -> None:
        """Give back the descriptors; for reactors that do not end with their process."""
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def _round(self) -> None:
        timeout: float | None = None
        if self._ready:
            timeout = 0.0
        elif self._timers:
            timeout = max(0.0, self._timers[0].due_s - time.monotonic())
        for key, mask in self._selector.select(timeout):
            reader, writer = key.data
            if mask & selectors.EVENT_READ and reader is not None:
                reader()
            if mask & selectors.EVENT_WRITE and writer is not None:
                writer()
        now_s = time.monotonic()
        while self._timers and (self._timers[0].due_s <= now_s or self._timers[0].cancelled):
            timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                timer.callback()
        for _ in range(len(self._ready)):
            self._ready.popleft()()

    def _drain_wakeups(self) -> None:
        try:
            while self._wake_in.recv(4096):
                continue
        except BlockingIOError:
            return


class Flag:
    """Something that becomes true, may become false again, and can be waited for."""

    __slots__ = ("_listeners", "_reactor", "_waiting", "is_set")

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._waiting: list[Callable[[], None]] = []
        self._listeners: list[Callable[[], None]] = []
        self.is_set = False

    def on_set(self, listener: Callable[[], None]) -> None:
        """Call `listener` every time it becomes true."""
        self._listeners.append(listener)

    def set(self) -> None:
        """Become true and wake who waits."""
        self.is_set = True
        waiting, self._waiting = self._waiting, []
        for wake in [*waiting, *self._listeners]:
            wake()

    def clear(self) -> None:
        """Become false."""
        self.is_set = False

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until true, at most `timeout_s`; say whether it is."""
        if not self.is_set:
            await _suspend(lambda resume: self._enlist(resume, timeout_s))
        return self.is_set

    def _enlist(self, resume: Callable[[], None], timeout_s: float | None) -> None:
        timer: Timer | None = None
        done = False

        def once() -> None:
            nonlocal done
            if done:
                return
            done = True
            if timer is not None:
                timer.cancel()
            if once in self._waiting:
                self._waiting.remove(once)
            resume()

        if timeout_s is not None:
            timer = self._reactor.call_later(timeout_s, once)
        self._waiting.append(once)
