"""Ollama's ``/api/chat`` and ``/api/generate``: answers in lines, whole answers, and loading without a question."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

import orjson
from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.chat_orders import as_bytes, make_run, prepare_chat, with_images
from blazar_gateway.chat_runs import Run, run_stream, run_whole
from blazar_gateway.context import GATEWAY, KEY, REQUEST_ID, Gateway
from blazar_gateway.dialects.events import Event, Text, Texts
from blazar_gateway.dialects.ollama.answer import Clock, Lines, loaded, whole
from blazar_gateway.dialects.ollama.request import Kind, Translated, chat, generate
from blazar_gateway.dialects.times import rfc3339
from blazar_gateway.domains import Domain, check_domain
from blazar_gateway.error_responses import Dialect, EngineRefusal, WireError, error_frame
from blazar_gateway.event_stream import EventStream
from blazar_gateway.forms.form import Form
from blazar_gateway.forms.ollama import CHAT, GENERATE
from blazar_gateway.ids import new_call_id
from blazar_gateway.keep_alive import parse_keep_alive
from blazar_gateway.leases import Borrowed
from blazar_gateway.ollama_context import context_after, continued_prompt
from blazar_gateway.ports import ModelCard
from blazar_gateway.routes.infill import cannot_insert
from blazar_gateway.row_defaults import defaults_of, fill_parameters
from blazar_gateway.rows import get_card
from blazar_gateway.served_context import check_num_ctx
from blazar_gateway.thinking import check_can_think
from blazar_gateway.tickets import make_call_ticket, make_ticket

_NDJSON = {"Content-Type": "application/x-ndjson"}
_COUNT_CHAT = "/v1/chat/completions/input_tokens"
_PATHS = {Kind.COMPLETION: "/v1/completions", Kind.INFILL: "/infill"}


async def api_chat(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/chat``."""
    return await _serve(request, CHAT, partial(chat, new_call_id=new_call_id), is_chat=True)


async def api_generate(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/generate``."""
    return await _serve(request, GENERATE, generate, is_chat=False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with what its answer is written with."""

    request: web.Request
    gateway: Gateway
    card: ModelCard
    translated: Translated
    clock: Clock
    is_chat: bool
    body_bytes: int

    @property
    def wants_context(self) -> bool:
        """Whether the answer carries tokens for a continuation: generated with a template, so not raw."""
        return not self.is_chat and (self.translated.kind is Kind.CHAT or bool(self.translated.context))


async def _serve(
    request: web.Request, form: Form, translate: Callable[[dict[str, Any]], Translated], *, is_chat: bool
) -> web.StreamResponse:
    began_ns = time.monotonic_ns()
    gateway = request.app[GATEWAY]
    raw = await read_body(request, limit_bytes=gateway.max_body_bytes)
    translated = translate(form.parse(raw))
    clock = Clock(created_at=lambda: rfc3339(time.time()), elapsed_ns=lambda: time.monotonic_ns() - began_ns)
    card = get_card(request, translated.model)
    asked = _Asked(request, gateway, card, translated, clock, is_chat, len(raw))
    match translated.kind:
        case Kind.LOAD:
            return await _load(asked)
        case Kind.CHAT | Kind.COMPLETION | Kind.INFILL:
            return await _answer(asked)
        case _:
            assert_never(translated.kind)


async def _load(asked: _Asked) -> web.StreamResponse:
    """Load the model, or unload it when ``keep_alive`` is 0; one object whatever the client wants."""
    keep_alive = parse_keep_alive(asked.translated.keep_alive)
    unload = keep_alive is not None and keep_alive.seconds == 0
    name = asked.card.name
    if unload:
        await asked.gateway.host.unload(name)
    else:
        if keep_alive is not None:
            asked.gateway.host.keep(name, keep_alive.seconds)
        ticket = make_call_ticket(
            model=name,
            headers=asked.request.headers,
            key=asked.request.get(KEY),
            ctx_tokens=asked.translated.num_ctx or 0,
        )
        async with Borrowed(asked.gateway, ticket) as borrowed:
            asked.clock.load_ns = round(borrowed.lease.load_s * 1e9)
    return json_answer(loaded(model=asked.translated.model, chat=asked.is_chat, clock=asked.clock, unload=unload))


async def _answer(asked: _Asked) -> web.StreamResponse:
    run = await _run_chat(asked) if asked.translated.kind is Kind.CHAT else _run_native(asked)
    try:
        if not asked.translated.stream:
            return await run_whole(run, partial(_whole, asked))
        out = EventStream(
            asked.request, traffic=asked.gateway.traffic, ping_s=0, comment=lambda: "lines have no comments"
        )
        out.headers = _NDJSON
        return await run_stream(run, out, _Writer(asked))
    except EngineRefusal as refusal:
        raise EngineRefusal(_in_words_of_ollama(asked, refusal.wire)) from refusal


async def _run_chat(asked: _Asked) -> Run:
    translated, card = asked.translated, asked.card
    if translated.think is True or isinstance(translated.think, str):
        check_can_think(card, asked_as="think")
    generation = prepare_chat(translated.body, card, think=translated.think, continues=bool(translated.context))
    generation = await with_images(asked.gateway, generation)
    # What is rendered for the answer's context has to be what was asked.
    translated.body.update(generation.fields)
    run = make_run(
        asked.request,
        generation,
        body_bytes=asked.body_bytes,
        keep_alive=translated.keep_alive,
        num_ctx=translated.num_ctx,
        before=_num_ctx_check(asked, _COUNT_CHAT, generation.plain_body()),
        alone=asked.wants_context,
    )
    return continued_prompt(run, generation, translated.context) if translated.context else run


def _run_native(asked: _Asked) -> Run:
    """Return a run of a prompt that needs no template of the model's, or of a gap to be filled."""
    translated, card = asked.translated, asked.card
    check_domain(card, Domain.TEXT)
    body = {**translated.body, "model": card.name}
    card.rules.apply(body, chat=False)
    fill_parameters(body, defaults_of(card))
    if translated.kind is Kind.INFILL and "max_tokens" in body:
        # The engine's own route knows its own name only.
        body["n_predict"] = body.pop("max_tokens")
    prompt = body.get("prompt", "")
    return Run(
        request=asked.request,
        gateway=asked.gateway,
        ticket=make_ticket(
            model=card.name,
            headers=asked.request.headers,
            body_bytes=asked.body_bytes,
            choices=1,
            max_tokens=body.get("max_tokens", body.get("n_predict")),
            session=None,
            key=asked.request.get(KEY),
            ctx_tokens=translated.num_ctx or 0,
        ),
        path=_PATHS[translated.kind],
        streamed=orjson.dumps({**body, "stream": True, "stream_options": {"include_usage": True}}),
        keep_alive=parse_keep_alive(translated.keep_alive),
        thinks=translated.kind is not Kind.INFILL,
        before=_num_ctx_check(asked, "/tokenize", orjson.dumps({"content": prompt, "add_special": True})),
    )


def _num_ctx_check(asked: _Asked, path: str, body: bytes) -> Callable[[Borrowed], Awaitable[None]] | None:
    num_ctx = asked.translated.num_ctx
    if num_ctx is None:
        return None
    limit = asked.translated.body.get("max_tokens") or 0
    return partial(
        _check_num_ctx, gateway=asked.gateway, num_ctx=num_ctx, path=path, body=body, answer_tokens=int(limit)
    )


async def _check_num_ctx(
    borrowed: Borrowed, *, gateway: Gateway, num_ctx: int, path: str, body: bytes, answer_tokens: int
) -> None:
    await check_num_ctx(gateway, borrowed, num_ctx=num_ctx, path=path, body=body, answer_tokens=answer_tokens)


def _in_words_of_ollama(asked: _Asked, wire: WireError) -> WireError:
    """Return an engine's refusal of a gap it cannot fill as Ollama says it."""
    return cannot_insert(wire, asked.card) if asked.translated.kind is Kind.INFILL else wire


class _Writer:
    """An answer's lines, as a :class:`~blazar_gateway.chat_runs.Translation`."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._lines = Lines(model=asked.translated.model, chat=asked.is_chat, clock=asked.clock)
        self._said: list[str] = []

    def begin(self, borrowed: Borrowed) -> bytes:
        self._asked.clock.load_ns = round(borrowed.lease.load_s * 1e9)
        return b""

    def write(self, events: Sequence[Event]) -> bytes:
        if self._asked.wants_context:
            self._said.append(_text_in(events))
        return self._lines.write_all(events)

    async def end(self, borrowed: Borrowed) -> bytes:
        return self._lines.end(await _more(self._asked, borrowed, "".join(self._said)))

    def fail(self, wire: WireError) -> bytes:
        return error_frame(Dialect.OLLAMA, wire, request_id=self._asked.request[REQUEST_ID])


async def _whole(asked: _Asked, events: list[Event], borrowed: Borrowed) -> bytes:
    asked.clock.load_ns = round(borrowed.lease.load_s * 1e9)
    said = _text_in(events) if asked.wants_context else ""
    more = await _more(asked, borrowed, said)
    answer, _ = whole(events, model=asked.translated.model, chat=asked.is_chat, clock=asked.clock)
    return as_bytes({**answer, **more})


def _text_in(events: Sequence[Event]) -> str:
    """Return the text of some events."""
    out: list[str] = []
    for event in events:
        match event:
            case Text(text):
                out.append(text)
            case Texts(pieces):
                out += pieces
            case _:
                pass  # no text
    return "".join(out)


async def _more(asked: _Asked, borrowed: Borrowed, said: str) -> dict[str, Any]:
    """Return the fields of the last line that only ``/api/generate`` has."""
    if not asked.wants_context:
        return {}
    translated = asked.translated
    context = await context_after(asked.gateway, borrowed, translated.body, said, before=translated.context)
    return {} if context is None else {"context": context}
