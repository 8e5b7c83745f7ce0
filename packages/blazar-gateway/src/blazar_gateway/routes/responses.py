"""OpenAI's ``/v1/responses``: a generation in events or in one object, kept for the next one if wished."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import orjson
from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.chat_orders import as_bytes, instance_of, make_run, prepare_chat, with_images
from blazar_gateway.chat_runs import Run, run_stream, run_whole
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import GATEWAY, KEY, REQUEST_ID
from blazar_gateway.dialects.events import Event, Failed
from blazar_gateway.dialects.json_objects import JsonObject, name_in
from blazar_gateway.dialects.responses.kept import with_ids
from blazar_gateway.dialects.responses.request import Translated, to_chat
from blazar_gateway.dialects.responses.response import response_object
from blazar_gateway.dialects.responses.stream import ResponseStream
from blazar_gateway.error_responses import WireError
from blazar_gateway.event_stream import EventStream
from blazar_gateway.forms.openai import RESPONSE
from blazar_gateway.ids import new_id
from blazar_gateway.leases import Borrowed, ChildStalled
from blazar_gateway.ports import ModelCard
from blazar_gateway.progress import progress_of
from blazar_gateway.response_history import find_history, owner_of, resolve_references
from blazar_gateway.rows import get_card
from blazar_gateway.tickets import make_call_ticket
from blazar_routing.errors import EngineStalled, InvalidRequest
from blazar_store.types import KeptResponse

SKIPPED_TOOLS = "x-blazar-skipped-tools"
"""The header that names the kinds of tools which a local model cannot be offered."""

_log = logging.getLogger("blazar.gateway")


async def create(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/responses``."""
    gateway = request.app[GATEWAY]
    raw = await read_body(request, limit_bytes=gateway.max_body_bytes)
    body = RESPONSE.parse(raw)
    card = _card(request, body)
    _refuse_unkept_state(body)
    translated = await _translate(request, body)
    asked = await with_images(gateway, prepare_chat(translated.body, card, think=None))
    run = make_run(request, asked, body_bytes=len(raw), keep_alive=body.get("keep_alive"))
    answer = _Answer(run, body, translated)
    if translated.skipped_tools:
        kinds = ",".join(sorted(set(translated.skipped_tools)))[:200]
        _log.info("%s: tools of these kinds are not offered to the model: %s", request[REQUEST_ID], kinds)
    return await (_stream(answer) if body.get("stream") is True else _whole(answer))


async def input_tokens(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/responses/input_tokens``: the engine renders the chat with its own template and counts."""
    gateway = request.app[GATEWAY]
    body = RESPONSE.parse(await read_body(request, limit_bytes=gateway.max_body_bytes))
    card = _card(request, body)
    translated = await _translate(request, body)
    asked = await with_images(gateway, prepare_chat(translated.body, card, think=None))
    ticket = make_call_ticket(model=instance_of(request, asked), headers=request.headers, key=request.get(KEY))
    path = "/v1/chat/completions/input_tokens"
    try:
        async with (
            Borrowed(gateway, ticket) as borrowed,
            ChildCall(gateway, borrowed, path, asked.plain_body()) as call,
        ):
            await call.check_status()
            counted = orjson.loads(await call.read_all())
            return json_answer({"object": "response.input_tokens", "input_tokens": counted["input_tokens"]})
    except ChildStalled:
        limit_s = gateway.settings().child_header_timeout_secs
        raise EngineStalled(model=card.name, seconds=limit_s) from None


def _card(request: web.Request, body: JsonObject) -> ModelCard:
    missing = "model is missing: name the model to use (GET /v1/models lists them)."
    return get_card(request, name_in(body, "model", missing=missing))


def _refuse_unkept_state(body: JsonObject) -> None:
    """Refuse what would lose text or never answer if it were ignored.

    Raises:
        InvalidRequest: The request names a conversation, or wants to run in the background.
    """
    if body.get("conversation") is not None:
        raise InvalidRequest(
            "`conversation` is not kept here: continue with `previous_response_id`, or send the whole `input`",
            param="conversation",
        )
    if body.get("background") is True:
        raise InvalidRequest(
            "`background` is not offered here: leave it out, and use `stream` for answers that take long",
            param="background",
        )


async def _translate(request: web.Request, body: JsonObject) -> Translated:
    gateway, key = request.app[GATEWAY], owner_of(request)
    history = await find_history(gateway, key, body.get("previous_response_id"))
    value = await resolve_references(gateway, key, body.get("input", []))
    return to_chat({**body, "input": value}, history)


def _custom_tools(tools: object) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, Mapping):
            if tool.get("type") == "custom" and isinstance(tool.get("name"), str):
                yield tool["name"]
            elif tool.get("type") == "namespace":
                yield from _custom_tools(tool.get("tools"))


@dataclass(slots=True)
class _Answer:
    """One response in the making, as a :class:`~blazar_gateway.chat_runs.Translation`."""

    run: Run
    body: JsonObject
    translated: Translated
    stream: ResponseStream

    def __init__(self, run: Run, body: JsonObject, translated: Translated) -> None:
        self.run = run
        self.body = body
        self.translated = translated
        response = response_object(
            body,
            response_id=new_id("resp"),
            created_at=int(time.time()),
            model=str(body["model"]),
            store=translated.store and run.gateway.memory is not None,
        )
        self.stream = ResponseStream(
            response,
            new_id=new_id,
            now=lambda: int(time.time()),
            custom_tools=frozenset(_custom_tools(body.get("tools"))),
        )

    def begin(self, borrowed: Borrowed) -> bytes:  # noqa: ARG002 - the protocol's form
        return b"".join(self.stream.begin())

    def write(self, events: Sequence[Event]) -> bytes:
        return self.stream.write_all(events)

    async def end(self, borrowed: Borrowed) -> bytes:  # noqa: ARG002 - the protocol's form
        frames = b"".join(self.stream.end())
        await self.keep()
        return frames

    def fail(self, wire: WireError) -> bytes:
        return b"".join(self.stream.write(Failed(code=wire.code, message=wire.message, status=wire.status)))

    async def keep(self) -> None:
        """Remember the response before its last event is sent: the client may ask for it at once.

        An answer that was made is not lost because the disk is full: it says that it was not stored.
        """
        memory, response = self.run.gateway.memory, self.stream.response
        if memory is None or not response["store"]:
            return
        kept = KeptResponse(
            id=response["id"],
            created_at=response["created_at"],
            response=response,
            items=with_ids(self.translated.items, new_id),
            previous=self.translated.previous_response_id,
        )
        try:
            await memory.put(owner_of(self.run.request), kept)
        except OSError as error:
            response["store"] = False
            _log.warning(
                "%s: the response %s was answered and is not kept, so that no request can go on from it: %s",
                self.run.request[REQUEST_ID],
                response["id"],
                error,
            )

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the answer besides those that every one has."""
        kinds = sorted(set(self.translated.skipped_tools))
        # What a client wrote must not break a header.
        shown = ",".join(kind for kind in kinds if kind.isascii() and kind.isprintable())
        return {SKIPPED_TOOLS: shown[:200]} if shown else {}


async def _stream(answer: _Answer) -> web.StreamResponse:
    run = answer.run
    out = EventStream(
        run.request,
        traffic=run.gateway.traffic,
        ping_s=run.gateway.settings().stream_ping_secs,
        comment=lambda: progress_of(run.gateway, run.ticket.model),
    )
    out.headers = answer.headers
    return await run_stream(run, out, answer)


async def _whole(answer: _Answer) -> web.StreamResponse:
    return await run_whole(answer.run, partial(_finish, answer), headers=answer.headers)


async def _finish(answer: _Answer, events: list[Event], borrowed: Borrowed) -> bytes:
    answer.write(events)
    await answer.end(borrowed)
    return as_bytes(answer.stream.response)
