"""One client connection: reading requests, keeping alive, noticing that the client left.

As cpp-httplib: idle connections are closed after five seconds, the hundredth answer is the last, errors announce
``Connection: close`` yet leave the connection open until it idles out (observed on b10434).
"""

import socket
import struct
from collections.abc import Callable

from blazar_stubs.llama_server.reactor import Flag, Reactor, Timer
from blazar_stubs.llama_server.wire import BAD_REQUEST, CONTINUE, BadRequest, Request, RequestParser

_READ_BYTES = 1 << 18
_HIGH_WATER_BYTES = 1 << 18

Handler = Callable[["Connection", Request], None]


class Connection:
    """A connected socket; at most one request is being answered at a time."""

    def __init__(
        self, reactor: Reactor, sock: socket.socket, handler: Handler, *, keep_alive_s: float, keep_alive_requests: int
    ) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reactor = reactor
        self._sock = sock
        self._handler = handler
        self._parser = RequestParser()
        self._keep_alive_s = keep_alive_s
        self._keep_alive_requests = keep_alive_requests
        self._out = bytearray()
        self._room = Flag(reactor)
        self._room.set()
        self._busy = False
        self._served = 0
        self._timer: Timer | None = None
        self._closing = False
        self._frozen = False
        self.client_left = Flag(reactor)
        self.on_closed: Callable[[Connection], None] | None = None
        self._rest()
        self._watch()

    @property
    def is_last(self) -> bool:
        """Whether the answer now being given is the last on this connection."""
        return self._served >= self._keep_alive_requests

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self._busy

    def _watch(self) -> None:
        if self._sock.fileno() < 0:
            return
        reads = not self.client_left.is_set
        self._reactor.watch(
            self._sock, reader=self._readable if reads else None, writer=self._flush if self._out else None
        )

    def _rest(self) -> None:
        """Between requests: close when nothing comes in time."""
        self._timer = self._reactor.call_later(self._keep_alive_s, self.close)

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._client_gone()
            return
        self._wake()
        self._parser.feed(data)
        self._pump()

    def _client_gone(self) -> None:
        self.client_left.set()
        if self._busy:
            self._watch()
        else:
            self.close()

    def _pump(self) -> None:
        """Start answering the next request, if there is one and none is being answered."""
        if self._busy or self._closing:
            return
        try:
            request = self._parser.next_request()
        except BadRequest:
            self.send(BAD_REQUEST)
            self.close()
            return
        if self._parser.wants_continue:
            self._parser.wants_continue = False
            if request is None:
                self.send(CONTINUE)
        if request is None:
            if self._parser.is_empty and self._timer is None:
                self._rest()
            return
        self._busy = True
        self._served += 1
        self._handler(self, request)

    def answered(self, *, close: bool) -> None:
        """The request at hand is done with."""
        self._busy = False
        if close or self.is_last or self.client_left.is_set:
            self.close()
        else:
            self._reactor.call_soon(self._pump)

    def send(self, data: bytes) -> None:
        """Write, keeping what the socket does not take yet."""
        if self._sock.fileno() < 0 or self._frozen:
            return
        self._out += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()
            if not self.client_left.is_set:
                self._client_gone()
        if len(self._out) > _HIGH_WATER_BYTES:
            self._room.clear()
        elif not self._room.is_set:
            self._room.set()
        if self._closing and not self._out:
            self._shut()
        else:
            self._watch()

    def freeze(self) -> None:
        """Write nothing more, but stay: what a stopping server does to those it is answering."""
        self._frozen = True
        if not self._busy:
            self.close()

    async def room(self) -> None:
        """Wait while the client reads more slowly than we write."""
        while not self._room.is_set and not self.client_left.is_set:
            await self._room.wait(0.1)

    async def flushed(self) -> None:
        """Wait until everything written has gone to the kernel, or the client left."""
        while self._out and not self.client_left.is_set:
            await self._reactor.sleep(0.001)

    def close(self) -> None:
        """Close once everything written is out."""
        self._closing = True
        if not self._out or self.client_left.is_set:
            self._shut()

    def reset(self) -> None:
        """Close at once with a TCP reset."""
        if self._sock.fileno() >= 0 and self._sock.family != socket.AF_UNIX:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._shut()

    def _shut(self) -> None:
        self._wake()
        if self._sock.fileno() >= 0:
            self._reactor.watch(self._sock)
            self._sock.close()
            self.client_left.set()
            if self.on_closed is not None:
                self.on_closed(self)
