"""An answer in pieces: opened as late as possible, kept alive while there is nothing to say.

As long as nothing has been sent, a failure can still have its own status. So the stream opens with its first piece, or
with the first comment line after some seconds of silence. Comments are ignored by every client and keep proxies from
giving up; they are only ever sent between two frames.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from aiohttp import web

from blazar_gateway.traffic import Traffic

HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    # Tells nginx, and what follows its custom, not to collect the stream before passing it on.
    "X-Accel-Buffering": "no",
}


def comment_frame(text: str) -> bytes:
    """Return a comment, which every client of event streams passes over."""
    return f": {text}\n\n".encode()


PATIENCE_S = 600.0
"""Seconds for which one write may wait for a client that takes nothing. Whoever is slow has all the time it needs, and
holds its slot as long; whoever has stopped reading, behind a proxy that never closes, would hold it for ever."""


class ClientGone(ConnectionError):
    """The client has closed its end; nobody is left to answer.

    aiohttp reports this with an exception that its own client uses as well, for a child's connection. One name each
    keeps the two apart.
    """


class EventStream:
    """One stream to a client.

    Args:
        request: Whose answer it is.
        traffic: Counts open streams.
        ping_s: Seconds of silence after which a comment is sent; 0 sends none.
        comment: Returns the comment's text at that moment.
        as_frame: Writes that text as a frame; a dialect that has pings of its own sends those.

    Attributes:
        headers: What is added to the stream's own headers when it opens.
        has_content: Whether something else than comments has been sent.
    """

    def __init__(
        self,
        request: web.Request,
        *,
        traffic: Traffic,
        ping_s: float,
        comment: Callable[[], str],
        as_frame: Callable[[str], bytes] = comment_frame,
    ) -> None:
        self._request = request
        self._traffic = traffic
        self._ping_s = ping_s
        self._comment = comment
        self._as_frame = as_frame
        self._loop = asyncio.get_running_loop()
        self.headers: Mapping[str, str] = {}
        self.has_content = False
        self._response: web.StreamResponse | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ping: asyncio.Task[None] | None = None
        self._sent = False
        self._sending = False
        self._stuck_s = 0.0
        self._counted = False
        if ping_s > 0:
            self._timer = self._loop.call_later(ping_s, self._tick)

    @property
    def response(self) -> web.StreamResponse | None:
        """The answer once it has begun, else ``None``: then its status is still open."""
        return self._response

    async def open(self) -> web.StreamResponse:
        """Send status and headers, unless that has happened.

        Raises:
            ClientGone: Nobody reads any more.
        """
        if self._response is None:
            response = web.StreamResponse(headers={**HEADERS, **self.headers})
            # Before the first await: whoever comes second must not open it again.
            self._response = response
            self._counted = True
            self._traffic.streams += 1
            try:
                await response.prepare(self._request)
            except ConnectionError as error:
                raise ClientGone from error
            return response
        return self._response

    async def write(self, data: bytes) -> None:
        """Send whole frames; waits while the client reads more slowly than the engine writes.

        Raises:
            ClientGone: Nobody reads any more.
        """
        response = self._response if self._response is not None else await self.open()
        self._sent = self._sending = self.has_content = True
        self._stuck_s = 0.0
        try:
            await response.write(data)
        except ConnectionError as error:
            raise ClientGone from error
        self._sending = False

    async def end(self, data: bytes = b"") -> web.StreamResponse:
        """Send the last frames, wait until the client's side has taken everything, and return the answer.

        Raises:
            ClientGone: Nobody reads any more.
        """
        self._stop_pinging()
        response = self._response if self._response is not None else await self.open()
        try:
            await write_to_the_end(self._request, response, data)
        except ConnectionError as error:
            raise ClientGone from error
        return response

    def close(self) -> None:
        """Let go of timers and counters, however the stream ended; a second call does nothing."""
        self._stop_pinging()
        if self._counted:
            self._counted = False
            self._traffic.streams -= 1

    def _stop_pinging(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ping is not None:
            self._ping.cancel()
            self._ping = None

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._ping_s, self._tick)
        if self._sending:
            self._stuck_s += self._ping_s
            if self._stuck_s > PATIENCE_S and self._request.transport is not None:
                # Its handler is cancelled, as for any client that has left.
                self._request.transport.abort()
        elif self._sent:
            self._sent = False
        elif self._ping is None or self._ping.done():
            self._ping = self._loop.create_task(self._send_comment())

    async def _send_comment(self) -> None:
        # A client that has gone is noticed by whoever handles its request; a comment has nobody to tell.
        with contextlib.suppress(ConnectionError):
            response = await self.open()
            await response.write(self._as_frame(self._comment()))


async def write_to_the_end(request: web.Request, response: web.StreamResponse, data: bytes = b"") -> None:
    """Finish an answer that was opened, and wait until its last byte has left this process.

    Raises:
        ConnectionError: The client has gone.
    """
    transport = request.transport
    if transport is not None:
        # Draining usually means that little is left to send; here it has to mean nothing.
        transport.set_write_buffer_limits(high=0)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await response.write_eof(data)
    except TimeoutError:
        if transport is not None:
            transport.abort()
        raise ClientGone from None
    if transport is not None and not transport.is_closing():
        transport.set_write_buffer_limits()
