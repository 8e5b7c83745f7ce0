"""Sending a small body in the turn of the loop in which it is asked for; as joined reads, this knows aiohttp's insides.

aiohttp (3.14) writes every body from a task of its own. On Python 3.11 a request then leaves a turn of the loop later,
and everywhere the task costs processor time. A body that the connection takes at once needs none: with one client, a
call to an engine takes a seventh less of it.

With another aiohttp than the one whose insides are known, bodies are sent its way, and a test says so.
"""

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import BytesPayload
from typing_extensions import override

SMALL_BYTES = 32 << 10
"""A body up to this size is sent at once: half of what a transport buffers before it makes its writer wait."""

_KNOWN = "3.14."


class QuickRequest(aiohttp.ClientRequest):
    """A request whose body, if it is small, leaves with its head. For sessions without traces and compression."""

    @override
    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        body, protocol, make = self._body, conn.protocol, self.response_class
        at_once = type(body) is BytesPayload and (body.size or 0) <= SMALL_BYTES
        if not at_once or make is None or protocol is None or protocol.writing_paused:
            return await super().send(conn)
        writer = StreamWriter(protocol, self.loop)
        await writer.write_headers(f"{self.method} {self.url.raw_path_qs} HTTP/1.1", self.headers)
        # Does not wait: nothing is drained. What goes wrong is told to whoever reads the answer.
        await self.write_bytes(writer, conn)
        answer = make(
            self.method,
            self.original_url,
            writer=None,
            continue100=None,
            timer=self._timer,
            request_info=self.request_info,
            traces=self._traces,
            loop=self.loop,
            session=self._session,
            stream_writer=writer,
        )
        self.response = answer  # type: ignore[assignment]  # declared as None
        return answer


def request_class(version: str = aiohttp.__version__) -> type[aiohttp.ClientRequest]:
    """Return what sessions make requests of, with this aiohttp."""
    return QuickRequest if version.startswith(_KNOWN) else aiohttp.ClientRequest
