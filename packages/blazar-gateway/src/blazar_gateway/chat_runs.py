"""Running a canonical request against a lease, for the dialects that are translated.

The engine is always asked for a stream, which it stops working on when it is closed: that is how a client that leaves,
and a stop string that is met, free its slot. What comes is turned into canonical events; whoever translates them into
a dialect never sees a byte of the engine's.

As with the passthrough, a child that hangs is replaced once, as long as the client has seen nothing of an answer.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

import orjson
from aiohttp import web

from blazar_gateway.accounting import count_tokens
from blazar_gateway.answers import send_whole, timing_headers
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import Gateway
from blazar_gateway.dialects.engine_chunks import not_json
from blazar_gateway.dialects.engine_stream import EngineStream
from blazar_gateway.dialects.events import Event
from blazar_gateway.dialects.openai import engine_errors
from blazar_gateway.error_responses import EngineRefusal, WireError, wire_error
from blazar_gateway.event_stream import EventStream
from blazar_gateway.ids import new_call_id
from blazar_gateway.keep_alive import KeepAlive
from blazar_gateway.leases import Borrowed, ChildStalled
from blazar_gateway.preflight import check_fits
from blazar_gateway.singleflight import Flight
from blazar_routing.errors import EngineStalled, EngineUnreachable, LaneError
from blazar_routing.ticket import Ticket


class Translation(Protocol):
    """One answer being written in a client's dialect."""

    def begin(self, borrowed: Borrowed) -> bytes:
        """Return what can be sent as soon as the engine has taken the request; called again after a second try."""

    def write(self, events: Sequence[Event]) -> bytes:
        """Return what can be sent for some events, ``b""`` for nothing."""

    async def end(self, borrowed: Borrowed) -> bytes:
        """Return what closes an answer that finished; the lease is still held."""

    def fail(self, wire: WireError) -> bytes:
        """Return what ends an answer that broke after it had begun."""


@dataclass(frozen=True, slots=True)
class Run:
    """A request to an engine with everything that is needed to serve it.

    Attributes:
        request: The client's.
        gateway: Whose it is.
        ticket: Its place in the queue.
        path: On the engine.
        streamed: The body that asks for a stream with usage.
        plain: The body that asks for one answer, or ``None`` where that is no way out.
        keep_alive: What the client says of it.
        stop_words: Strings that the gateway looks for.
        one_call: Whether the client takes one tool call at most.
        before: What is checked once there is a lease, before the engine is asked; it may refuse.
        thinks: Whether thoughts may stand in the text.
        make_streamed: Makes the body instead, where that takes the engine's help.
        deterministic: Whether the same chat would be answered the same again; ``None`` where what is asked for is not
            all in the body, so that equal bodies prove nothing.
    """

    request: web.Request
    gateway: Gateway
    ticket: Ticket
    path: str
    streamed: bytes
    plain: bytes | None = None
    keep_alive: KeepAlive | None = None
    stop_words: tuple[str, ...] = ()
    one_call: bool = False
    thinks: bool = True
    before: Callable[[Borrowed], Awaitable[None]] | None = None
    make_streamed: Callable[[Borrowed], Awaitable[bytes]] | None = None
    deterministic: bool | None = None

    def borrow(self) -> Borrowed:
        """Return the lease to enter."""
        return Borrowed(self.gateway, self.ticket)

    async def ready(self, borrowed: Borrowed) -> bytes:
        """Return the body for the engine, once it has been checked what only a lease tells.

        Raises:
            LaneError: It will not be served as it is.
            EngineRefusal: The engine says so.
        """
        if self.before is not None:
            await self.before(borrowed)
        body = self.streamed if self.make_streamed is None else await self.make_streamed(borrowed)
        await check_fits(self.gateway, borrowed, path=self.path, body=body)
        return body

    def call(self, borrowed: Borrowed, body: bytes) -> ChildCall:
        """Return the call to enter."""
        if self.keep_alive is not None:
            self.gateway.host.keep(self.ticket.model, self.keep_alive.seconds)
        return ChildCall(self.gateway, borrowed, self.path, body)

    def reader(self) -> EngineStream:
        """Return what turns the engine's bytes into events."""
        return EngineStream(
            new_call_id=new_call_id, one_call=self.one_call, stop_words=self.stop_words, thinks=self.thinks
        )

    def count(self, reader: EngineStream) -> None:
        """Account for what was used, whether the answer was finished or not."""
        usage = reader.usage()
        count_tokens(self.request, self.ticket.row, prompt=usage.prompt_tokens, completion=usage.completion_tokens)

    def stalled(self) -> EngineStalled:
        """Return the error of a child that hangs, where its status can still be sent."""
        return EngineStalled(model=self.ticket.row, seconds=self.gateway.settings().child_header_timeout_secs)

    def broke_off(self) -> EngineUnreachable:
        """Return the error of a child that hangs in the middle of an answer."""
        limit_s = self.gateway.settings().child_header_timeout_secs
        reason = f"it sent nothing for {limit_s:g} s and showed no progress"
        return EngineUnreachable(model=self.ticket.row, reason=reason)


async def run_stream(run: Run, out: EventStream, translation: Translation) -> web.StreamResponse:
    """Serve a stream, and return the answer once its last byte has left.

    Raises:
        LaneError: Nothing has been sent yet, so the failure has its own status.
        EngineRefusal: Likewise.
    """
    seen = _Seen()
    try:
        try:
            return await _relay(run, out, translation, seen)
        except ChildStalled:
            if seen.content:
                raise run.broke_off() from None
        try:
            return await _relay(run, out, translation, seen)
        except ChildStalled:
            raise (run.broke_off() if seen.content else run.stalled()) from None
    except (LaneError, EngineRefusal) as error:
        if out.response is None:
            raise
        run.gateway.traffic.failed += 1
        wire = error.wire if isinstance(error, EngineRefusal) else wire_error(error)
        return await out.end(translation.fail(wire))
    finally:
        out.close()


@dataclass(slots=True)
class _Seen:
    """Whether the client has seen something of an answer; a second try would contradict it."""

    content: bool = False


async def _relay(run: Run, out: EventStream, translation: Translation, seen: _Seen) -> web.StreamResponse:
    async with run.borrow() as borrowed:
        streamed = await run.ready(borrowed)
        reader = run.reader()
        out.headers = {**out.headers, **timing_headers(borrowed.lease)}
        try:
            async with run.call(borrowed, streamed) as call:
                await call.check_status()
                if not call.is_stream:
                    raise await _no_stream(call)
                if opening := translation.begin(borrowed):
                    await out.write(opening)
                while not reader.stopped and reader.error is None and (data := await call.read()):
                    if (events := reader.feed(data)) and (frames := translation.write(events)):
                        seen.content = True
                        await out.write(frames)
            rest = translation.write(reader.finish())
        finally:
            run.count(reader)
        await _check_end(reader, borrowed)
        return await out.end(rest + await translation.end(borrowed))


Finish = Callable[[list[Event], Borrowed], Awaitable[bytes]]
"""Makes an answer's body of its events."""


async def run_whole(
    run: Run,
    finish: Finish,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> web.StreamResponse:
    """Serve an answer in one piece, and return it once its last byte has left.

    Args:
        run: The request.
        finish: Makes the answer's body of its events. For a shared answer the lease is over: it only tells its times.
        headers: Headers of the answer besides those that every one has.

    Raises:
        LaneError: Why there is no answer.
        EngineRefusal: The engine's own reason.
    """
    lead = partial(_lead, run, finish, headers)
    alone = run.deterministic is None or run.before is not None or run.make_streamed is not None
    if alone or run.ticket.deadline_s is not None:
        return await lead(None)
    ticket = run.ticket
    asked = (run.path, ticket.key, ticket.model, ticket.priority, run.keep_alive, run.streamed)
    return await run.gateway.flights.serve(
        (*asked, run.stop_words, run.one_call),
        shares=bool(run.deterministic),
        lead=lead,
        share=partial(_send, run, finish, headers),
    )


@dataclass(frozen=True, slots=True)
class _Events:
    """What an engine answered, for all who asked for it, whatever they call their own answers."""

    events: list[Event]
    borrowed: Borrowed


async def _lead(run: Run, finish: Finish, headers: Mapping[str, str], flight: Flight[_Events] | None) -> web.Response:
    try:
        return await _assemble(run, finish, headers, flight)
    except ChildStalled:
        pass  # nothing was sent to the client, so a second child may try
    try:
        return await _assemble(run, finish, headers, flight)
    except ChildStalled:
        raise run.stalled() from None


async def _assemble(
    run: Run, finish: Finish, headers: Mapping[str, str], flight: Flight[_Events] | None
) -> web.Response:
    async with run.borrow() as borrowed:
        streamed = await run.ready(borrowed)
        reader = run.reader()
        events: list[Event] = []
        try:
            async with run.call(borrowed, streamed) as call:
                await call.check_status()
                if not call.is_stream:
                    raise await _no_stream(call)
                while not reader.stopped and reader.error is None and (data := await call.read()):
                    events += reader.feed(data)
                    if flight is not None:
                        flight.evaluated()
            events += reader.finish()
        finally:
            run.count(reader)
        if run.plain is not None and reader.error is not None and engine_errors.is_parse_trouble(reader.error):
            reader, events = await _ask_plainly(run, borrowed, run.plain)
        await _check_end(reader, borrowed)
        answer = _Events(events, borrowed)
        if flight is not None:
            flight.publish(answer)
        return await _send(run, finish, headers, answer)


async def _send(run: Run, finish: Finish, headers: Mapping[str, str], answer: _Events) -> web.Response:
    body = await finish(answer.events, answer.borrowed)
    return await send_whole(run.request, body, {**headers, **timing_headers(answer.borrowed.lease)})


async def _ask_plainly(run: Run, borrowed: Borrowed, body: bytes) -> tuple[EngineStream, list[Event]]:
    """Ask once more without a stream: then the engine parses the text once, at the end."""
    async with run.call(borrowed, body) as call:
        await call.check_status()
        answer = await call.read_all()
    reader = run.reader()
    try:
        parsed = orjson.loads(answer)
    except orjson.JSONDecodeError:
        parsed = not_json()
    events = reader.take_answer(parsed)
    run.count(reader)
    return reader, events


async def _check_end(reader: EngineStream, borrowed: Borrowed) -> None:
    """Return if the model said why it stopped.

    Raises:
        EngineRefusal: The engine reported an error in its stream.
        LaneError: The stream broke off.
    """
    if reader.error is not None:
        raise EngineRefusal(engine_errors.from_object(reader.error))
    if not reader.finished:
        raise await borrowed.lease.explain_failure(None)


async def _no_stream(call: ChildCall) -> EngineRefusal:
    body = await call.read_all(limit_bytes=4096)
    return EngineRefusal(engine_errors.from_answer(502, body or b"the engine did not answer with a stream"))
