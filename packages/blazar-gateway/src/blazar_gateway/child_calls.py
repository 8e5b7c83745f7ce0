"""One request to a child, under a lease: sent, read, and closed whatever happens."""

import asyncio
from types import TracebackType
from typing import Self

import aiohttp

from blazar_gateway.context import Gateway
from blazar_gateway.dialects.openai import engine_errors
from blazar_gateway.error_responses import EngineRefusal
from blazar_gateway.leases import Borrowed
from blazar_gateway.prompt_room import prompt_too_long
from blazar_routing.errors import EngineUnreachable

_MAX_ERROR_BYTES = 1 << 20


class ChildCall:
    """A request to a child as a context: entering sends it and waits for headers, leaving closes the answer.

    An answer that has not been read to its end is closed with its connection, at once: that is what makes an engine
    stop working on it (:mod:`blazar_gateway.abandoned` has the exception). One that has been read gives its connection
    back to the pool.

    Raises:
        LaneError: On entering and reading, why the child cannot be reached or broke off.
    """

    __slots__ = ("_body", "_borrowed", "_gateway", "_path", "answer")

    answer: aiohttp.ClientResponse

    def __init__(self, gateway: Gateway, borrowed: Borrowed, path: str, body: bytes) -> None:
        self._gateway = gateway
        self._borrowed = borrowed
        self._path = path
        self._body = body

    async def __aenter__(self) -> Self:
        borrowed = self._borrowed
        borrowed.awaiting_child = True
        try:
            self.answer = await self._post()
        except (aiohttp.ClientError, OSError) as error:
            raise await borrowed.lease.explain_failure(error) from error
        borrowed.awaiting_child = False
        borrowed.moving = True
        self._gateway.traffic.child_calls += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gateway.traffic.child_calls -= 1
        if self._borrowed.lease.drain_s and not self.answer.content.at_eof():
            self._borrowed.abandon(_there(self.answer))
        elif not self.answer.closed:
            self.answer.close()

    async def _post(self) -> aiohttp.ClientResponse:
        borrowed = self._borrowed
        posting = self._gateway.children.post(borrowed.lease, self._path, self._body)
        if not borrowed.lease.drain_s:
            return await posting
        # An engine that must not be dropped must not be dropped before its headers either.
        sent = asyncio.ensure_future(posting)
        try:
            return await asyncio.shield(sent)
        except asyncio.CancelledError:
            borrowed.abandon(sent)
            raise

    @property
    def is_stream(self) -> bool:
        """Whether the child answers with server-sent events."""
        return self.answer.headers.get("Content-Type", "").startswith("text/event-stream")

    async def read(self) -> bytes:
        """Return what has arrived since the last call, waiting for something to; ``b""`` at the end."""
        borrowed = self._borrowed
        borrowed.awaiting_child = True
        try:
            data = await self.answer.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise await borrowed.lease.explain_failure(error) from error
        borrowed.awaiting_child = False
        borrowed.moving = True
        return data

    async def read_all(self, *, limit_bytes: int | None = None) -> bytes:
        """Return the rest of the answer, cut where it exceeds the limit."""
        pieces: list[bytes] = []
        size = 0
        while data := await self.read():
            pieces.append(data)
            size += len(data)
            if (limit_bytes is not None and size >= limit_bytes) or self.answer.content.at_eof():
                break
        return b"".join(pieces)

    async def check_status(self) -> None:
        """Return if the child took the request.

        Raises:
            PromptTooLong: It did not, for the prompt's length.
            EngineRefusal: It did not, for another reason; its own text and status are in the error.
            LaneError: It refused the daemon's own key, which is no client's business, or broke off.
        """
        status = self.answer.status
        if status == 200:
            return
        body = await self.read_all(limit_bytes=_MAX_ERROR_BYTES)
        if status == 401:
            reason = "it does not take the daemon's own key"
            lease = self._borrowed.lease
            raise EngineUnreachable(model=lease.model, reason=reason, child=lease.child)
        wire = engine_errors.from_answer(status if status >= 400 else 502, body)
        needed, ctx = wire.extra.get("n_prompt_tokens"), wire.extra.get("n_ctx")
        if wire.code == "context_length_exceeded" and isinstance(needed, int) and isinstance(ctx, int):
            model = self._borrowed.lease.model
            raise prompt_too_long(self._gateway, model, path=self._path, needed=needed, ctx=ctx)
        raise EngineRefusal(wire)


async def _there(answer: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
    return answer
