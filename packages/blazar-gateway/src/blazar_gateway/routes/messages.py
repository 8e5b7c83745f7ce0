"""Anthropic's ``/v1/messages`` and ``/v1/messages/count_tokens``."""

from collections.abc import Sequence

import orjson
from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.chat_orders import as_bytes, instance_of, make_run, prepare_chat, with_images
from blazar_gateway.chat_runs import Run, run_stream, run_whole
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import GATEWAY, KEY, REQUEST_ID
from blazar_gateway.dialects.anthropic.answer import PING, MessageStream, message
from blazar_gateway.dialects.anthropic.request import Translated, to_chat
from blazar_gateway.dialects.events import Event
from blazar_gateway.dialects.json_objects import JsonObject, name_in
from blazar_gateway.dialects.openai.generation import Generation
from blazar_gateway.error_responses import Dialect, WireError, error_frame
from blazar_gateway.event_stream import EventStream, comment_frame
from blazar_gateway.forms.anthropic import COUNT_TOKENS, MESSAGES
from blazar_gateway.ids import new_id
from blazar_gateway.leases import Borrowed, ChildStalled
from blazar_gateway.ports import ModelCard
from blazar_gateway.progress import progress_of
from blazar_gateway.rows import get_card
from blazar_gateway.thinking import check_can_think, knows_thinking
from blazar_gateway.tickets import BYTES_PER_TOKEN, make_call_ticket
from blazar_routing.errors import EngineStalled


async def messages(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/messages``."""
    gateway = request.app[GATEWAY]
    raw = await read_body(request, limit_bytes=gateway.max_body_bytes)
    body = MESSAGES.parse(raw)
    card = _card(request, body)
    translated, asked = _prepare(body, card)
    asked = await with_images(gateway, asked)
    run = make_run(
        request,
        asked,
        body_bytes=len(raw),
        session=_user_id(body),
        keep_alive=body.get("keep_alive"),
        stop_words=translated.stop_sequences,
    )
    if body.get("stream") is True:
        return await _stream(run, str(body["model"]), translated, body_bytes=len(raw))
    return await _whole(run, str(body["model"]), translated)


async def count_tokens(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/messages/count_tokens``: the engine renders the chat with its own template and counts."""
    gateway = request.app[GATEWAY]
    body = COUNT_TOKENS.parse(await read_body(request, limit_bytes=gateway.max_body_bytes))
    card = _card(request, body)
    _, asked = _prepare(body, card, counting=True)
    asked = await with_images(gateway, asked)
    ticket = make_call_ticket(model=instance_of(request, asked), headers=request.headers, key=request.get(KEY))
    path = "/v1/chat/completions/input_tokens"
    try:
        async with (
            Borrowed(gateway, ticket) as borrowed,
            ChildCall(gateway, borrowed, path, asked.plain_body()) as call,
        ):
            await call.check_status()
            counted = orjson.loads(await call.read_all())
            return json_answer({"input_tokens": counted["input_tokens"]})
    except ChildStalled:
        limit_s = gateway.settings().child_header_timeout_secs
        raise EngineStalled(model=card.name, seconds=limit_s) from None


def _card(request: web.Request, body: JsonObject) -> ModelCard:
    missing = "model: Field required (GET /v1/models lists what there is)."
    return get_card(request, name_in(body, "model", missing=missing))


def _prepare(body: JsonObject, card: ModelCard, *, counting: bool = False) -> tuple[Translated, Generation]:
    """Translate a body by the rules of thinking: ``enabled`` is explicit, ``adaptive`` leaves it to the model."""
    translated = to_chat(body, counting=counting)
    thinking = body.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind == "enabled":
        check_can_think(card, asked_as="thinking")
    if knows_thinking(card) is False:
        for name in ("chat_template_kwargs", "thinking_budget_tokens", "reasoning_effort"):
            translated.body.pop(name, None)
    effort = translated.body.get("reasoning_effort")
    if kind is None and effort is not None:
        # Asking for effort is asking for thought, though nothing was said of thinking itself.
        translated.body.pop("chat_template_kwargs", None)
    return translated, prepare_chat(translated.body, card, think=None)


def _user_id(body: JsonObject) -> str | None:
    metadata = body.get("metadata")
    user_id = metadata.get("user_id") if isinstance(metadata, dict) else None
    return user_id if isinstance(user_id, str) and user_id else None


class _Frames:
    """A message's stream, as a :class:`~blazar_gateway.chat_runs.Translation`."""

    def __init__(self, stream: MessageStream, request_id: str) -> None:
        self._stream = stream
        self._request_id = request_id

    def ping(self, comment: str) -> bytes:
        """Return a sign of life, with what there is to say as a comment, which clients pass over.

        The message begins with it if need be: its start has to be the first event.
        """
        return b"".join(self._stream.begin()) + comment_frame(comment) + PING

    def begin(self, borrowed: Borrowed) -> bytes:  # noqa: ARG002 - the protocol's form
        return b"".join(self._stream.begin())

    def write(self, events: Sequence[Event]) -> bytes:
        return self._stream.write_all(events)

    async def end(self, borrowed: Borrowed) -> bytes:  # noqa: ARG002 - the protocol's form
        return b"".join(self._stream.end())

    def fail(self, wire: WireError) -> bytes:
        return error_frame(Dialect.ANTHROPIC, wire, request_id=self._request_id)


async def _stream(run: Run, model: str, translated: Translated, *, body_bytes: int) -> web.StreamResponse:
    stream = MessageStream(
        message_id=new_id("msg"),
        model=model,
        show_thinking=translated.show_thinking,
        prompt_tokens=body_bytes // BYTES_PER_TOKEN,
    )
    frames = _Frames(stream, run.request[REQUEST_ID])
    out = EventStream(
        run.request,
        traffic=run.gateway.traffic,
        ping_s=run.gateway.settings().stream_ping_secs,
        comment=lambda: progress_of(run.gateway, run.ticket.model),
        as_frame=frames.ping,
    )
    return await run_stream(run, out, frames)


async def _whole(run: Run, model: str, translated: Translated) -> web.StreamResponse:
    async def finish(events: list[Event], borrowed: Borrowed) -> bytes:  # noqa: ARG001 - the form that is called
        answer, _ = message(events, message_id=new_id("msg"), model=model, show_thinking=translated.show_thinking)
        return as_bytes(answer)

    return await run_whole(run, finish)
