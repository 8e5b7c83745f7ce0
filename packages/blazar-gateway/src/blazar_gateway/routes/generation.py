"""``/v1/chat/completions`` and ``/v1/completions``: a generation, streamed or whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import orjson
from aiohttp import web

from blazar_gateway.accounting import count_tokens
from blazar_gateway.answers import send_whole, timing_headers
from blazar_gateway.bodies import read_body
from blazar_gateway.chat_orders import apply_rules, as_bytes, gate_chat, instance_of, with_defaults, with_images
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import GATEWAY, KEY, REQUEST_ID, Gateway
from blazar_gateway.dialects.engine_chunks import not_json
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.openai import engine_errors
from blazar_gateway.dialects.openai.assembly import Assembly
from blazar_gateway.dialects.openai.delta_repair import DeltaRepair
from blazar_gateway.dialects.openai.generation import Generation, Surface, parse_chat, parse_completion
from blazar_gateway.dialects.openai.legacy import Reshaping
from blazar_gateway.dialects.openai.stream_filter import StreamFilter
from blazar_gateway.dialects.openai.usage import UsageTally
from blazar_gateway.domains import Domain, check_domain
from blazar_gateway.echoes import prepare_reshaping
from blazar_gateway.error_responses import Dialect, EngineRefusal, WireError, error_frame, wire_error
from blazar_gateway.event_stream import EventStream
from blazar_gateway.ids import new_call_id
from blazar_gateway.keep_alive import KeepAlive, parse_keep_alive
from blazar_gateway.leases import Borrowed, ChildStalled
from blazar_gateway.preflight import check_fits
from blazar_gateway.progress import progress_of
from blazar_gateway.routes.infill import serve_infill
from blazar_gateway.rows import get_card
from blazar_gateway.singleflight import Flight, is_deterministic
from blazar_gateway.thinking import knows_thinking
from blazar_gateway.tickets import make_ticket
from blazar_routing.errors import EngineStalled, EngineUnreachable, LaneError
from blazar_routing.ticket import Ticket


@dataclass(frozen=True, slots=True)
class _Order:
    """A generation with everything that is needed to serve it."""

    request: web.Request
    gateway: Gateway
    asked: Generation
    reasons: bool
    ticket: Ticket
    keep_alive: KeepAlive | None

    def borrow(self) -> Borrowed:
        return Borrowed(self.gateway, self.ticket)

    async def ready(self, borrowed: Borrowed) -> bytes:
        """Return the body that asks for a stream, once it is known to fit."""
        body = self.asked.streamed_body()
        await check_fits(self.gateway, borrowed, path=self.asked.surface, body=body)
        return body

    def call(self, borrowed: Borrowed, body: bytes) -> ChildCall:
        if self.keep_alive is not None:
            self.gateway.host.keep(self.ticket.model, self.keep_alive.seconds)
        return ChildCall(self.gateway, borrowed, self.asked.surface, body)

    def count(self, tally: UsageTally) -> None:
        usage = tally.total()
        count_tokens(self.request, self.ticket.row, prompt=usage.prompt_tokens, completion=usage.completion_tokens)

    async def reshaping(self, borrowed: Borrowed) -> Reshaping | None:
        wishes = self.asked.wishes
        if wishes is None or not wishes.reshapes:
            return None
        return await prepare_reshaping(self.gateway, borrowed, wishes)

    def repair(self) -> DeltaRepair | None:
        if self.asked.surface is not Surface.CHAT:
            return None
        return DeltaRepair(choices=self.asked.choices, new_call_id=new_call_id, one_call=self.asked.one_call)

    def assembly(self) -> Assembly:
        asked = self.asked
        return Assembly(
            surface=asked.surface,
            choices=asked.choices,
            prompts=asked.prompts,
            new_call_id=new_call_id,
            one_call=asked.one_call,
        )

    def stalled(self) -> EngineStalled:
        limit_s = self.gateway.settings().child_header_timeout_secs
        return EngineStalled(model=self.ticket.row, seconds=limit_s)


@dataclass(frozen=True, slots=True)
class _Whole:
    """An answer in one piece, for all who asked for it."""

    body: bytes
    headers: Mapping[str, str]


async def chat(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/chat/completions``."""
    return await _serve(request, parse_chat)


async def completions(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/completions``."""
    return await _serve(request, parse_completion)


async def _serve(request: web.Request, parse: Callable[[bytes], Generation]) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    body = await read_body(request, limit_bytes=gateway.max_body_bytes)
    asked = parse(body)
    card = get_card(request, asked.model)
    check_domain(card, Domain.TEXT)
    asked = with_defaults(apply_rules(asked, body, card), card)
    if asked.surface is Surface.CHAT:
        asked = await with_images(gateway, gate_chat(asked, card))
    if asked.wishes is not None and asked.wishes.suffix:
        return await serve_infill(request, asked, asked.wishes, card, body_bytes=len(body))
    asked = asked.for_row(card.name)
    ticket = make_ticket(
        model=instance_of(request, asked),
        headers=request.headers,
        body_bytes=len(body),
        choices=asked.choices * asked.prompts,
        max_tokens=asked.max_tokens,
        session=asked.session,
        key=request.get(KEY),
    )
    order = _Order(
        request=request,
        gateway=gateway,
        asked=asked,
        reasons=knows_thinking(card) is not False,
        ticket=ticket,
        keep_alive=parse_keep_alive(asked.keep_alive),
    )
    return await (_stream(order) if asked.stream else _whole(order))


async def _stream(order: _Order) -> web.StreamResponse:
    gateway = order.gateway
    out = EventStream(
        order.request,
        traffic=gateway.traffic,
        ping_s=gateway.settings().stream_ping_secs,
        comment=lambda: progress_of(gateway, order.ticket.model),
    )
    try:
        try:
            return await _relay(order, out)
        except ChildStalled:
            if out.has_content:
                raise _broke_off(order) from None
        try:
            return await _relay(order, out)
        except ChildStalled:
            raise (_broke_off(order) if out.has_content else order.stalled()) from None
    except LaneError as error:
        return await _end_in_error(order, out, wire_error(error), error)
    except EngineRefusal as refusal:
        return await _end_in_error(order, out, refusal.wire, refusal)
    finally:
        out.close()


async def _relay(order: _Order, out: EventStream) -> web.StreamResponse:
    """Pass the child's stream on, to its end."""
    asked = order.asked
    async with order.borrow() as borrowed:
        sieve = StreamFilter(
            usage_asked=asked.usage_asked,
            choices=asked.choices,
            prompts=asked.prompts,
            reasons=order.reasons,
            repair=order.repair(),
        )
        out.headers = timing_headers(borrowed.lease)
        reshaping = await order.reshaping(borrowed)
        try:
            async with order.call(borrowed, await order.ready(borrowed)) as call:
                await call.check_status()
                if not call.is_stream:
                    raise await _no_stream(call)
                while data := await call.read():
                    frames = sieve.feed(data)
                    if frames:
                        await out.write(reshaping.stream(frames) if reshaping else frames)
            rest = reshaping.stream(sieve.finish()) if reshaping else sieve.finish()
        finally:
            order.count(sieve.tally)
        if sieve.error is not None:
            order.gateway.traffic.failed += 1
        elif not sieve.complete:
            raise await borrowed.lease.explain_failure(None)
        return await out.end(rest)


async def _end_in_error(
    order: _Order, out: EventStream, wire: WireError, error: LaneError | EngineRefusal
) -> web.StreamResponse:
    """Say what went wrong in the stream if it is open; else leave it to be answered with its own status."""
    if out.response is None:
        raise error
    order.gateway.traffic.failed += 1
    return await out.end(error_frame(Dialect.OPENAI, wire, request_id=order.request[REQUEST_ID]))


async def _whole(order: _Order) -> web.StreamResponse:
    """Serve an answer in one piece; chats that are asked for several times at once are asked of the engine once."""
    asked, ticket = order.asked, order.ticket
    if asked.surface is not Surface.CHAT or ticket.deadline_s is not None:
        return await _lead(order, None)
    return await order.gateway.flights.serve(
        (asked.surface, ticket.key, ticket.model, ticket.priority, order.keep_alive, asked.streamed_body()),
        shares=is_deterministic(asked.fields),
        lead=partial(_lead, order),
        share=partial(_send_shared, order),
    )


async def _send_shared(order: _Order, whole: _Whole) -> web.StreamResponse:
    return await send_whole(order.request, whole.body, whole.headers)


async def _lead(order: _Order, flight: Flight[_Whole] | None) -> web.StreamResponse:
    try:
        return await _assemble(order, flight)
    except ChildStalled:
        pass  # nothing was sent to the client, so a second child may try
    try:
        return await _assemble(order, flight)
    except ChildStalled:
        raise order.stalled() from None


async def _assemble(order: _Order, flight: Flight[_Whole] | None) -> web.StreamResponse:
    """Ask the child for an answer and send it, while the lease is held."""
    async with order.borrow() as borrowed:
        reshaping = await order.reshaping(borrowed)
        answer = await _answer(order, borrowed, flight)
        body = as_bytes(reshaping.answer(answer) if reshaping else answer)
        headers = timing_headers(borrowed.lease)
        if flight is not None:
            flight.publish(_Whole(body, headers))
        return await send_whole(order.request, body, headers)


async def _answer(order: _Order, borrowed: Borrowed, flight: Flight[_Whole] | None) -> JsonObject:
    """Ask the child for a stream, so that it stops when the client leaves, and return what that adds up to."""
    assembly = order.assembly()
    try:
        async with order.call(borrowed, await order.ready(borrowed)) as call:
            await call.check_status()
            if not call.is_stream:
                return _repaired(order, await call.read_all())
            while data := await call.read():
                assembly.feed(data)
                if flight is not None:
                    flight.evaluated()
        assembly.finish()
    finally:
        order.count(assembly.tally)
    if assembly.error is not None:
        if not engine_errors.is_parse_trouble(assembly.error):
            raise EngineRefusal(engine_errors.from_object(assembly.error))
        return await _ask_plainly(order, borrowed)
    if not assembly.complete:
        raise await borrowed.lease.explain_failure(None)
    return assembly.object()


async def _ask_plainly(order: _Order, borrowed: Borrowed) -> JsonObject:
    """Ask once more without a stream: then the engine parses the text once, at the end."""
    async with order.call(borrowed, order.asked.plain_body()) as call:
        await call.check_status()
        return _repaired(order, await call.read_all())


def _repaired(order: _Order, answer: bytes) -> JsonObject:
    """Return an answer that the engine gave in one piece, repaired as a stream would have been."""
    try:
        parsed = orjson.loads(answer)
    except orjson.JSONDecodeError:
        parsed = not_json()
    assembly = order.assembly()
    assembly.take_answer(parsed)
    order.count(assembly.tally)
    if assembly.error is not None:
        raise EngineRefusal(engine_errors.from_object(assembly.error))
    return assembly.object()


async def _no_stream(call: ChildCall) -> EngineRefusal:
    body = await call.read_all(limit_bytes=4096)
    return EngineRefusal(engine_errors.from_answer(502, body or b"the engine did not answer with a stream"))


def _broke_off(order: _Order) -> EngineUnreachable:
    limit_s = order.gateway.settings().child_header_timeout_secs
    reason = f"it sent nothing for {limit_s:g} s and showed no progress"
    return EngineUnreachable(model=order.ticket.row, reason=reason)
