"""Text completions with a ``suffix``: a gap to be filled, which engines do by a call of their own."""

import time
from collections.abc import Sequence
from functools import partial

import orjson
from aiohttp import web

from blazar_gateway.chat_orders import as_bytes
from blazar_gateway.chat_runs import Run, run_stream, run_whole
from blazar_gateway.context import GATEWAY, KEY, REQUEST_ID
from blazar_gateway.dialects.events import Event, Finished, Text, Texts, UsageReported
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.openai.generation import Generation
from blazar_gateway.dialects.openai.legacy import CompletionWriter, Echo, Reshaping, Wishes
from blazar_gateway.error_responses import Dialect, EngineRefusal, WireError, error_frame
from blazar_gateway.event_stream import EventStream
from blazar_gateway.ids import new_id
from blazar_gateway.keep_alive import parse_keep_alive
from blazar_gateway.leases import Borrowed
from blazar_gateway.ports import ModelCard
from blazar_gateway.progress import progress_of
from blazar_gateway.tickets import make_ticket

PATH = "/infill"
_DONE = b"data: [DONE]\n\n"


def cannot_insert(wire: WireError, card: ModelCard) -> WireError:
    """Return an engine's refusal in words that say what the model lacks, if that is why it refuses."""
    if wire.code != "not_supported_error":
        return wire
    message = f'"{card.name}" does not support insert: its vocabulary has no tokens for a gap'
    return WireError(status=400, type="invalid_request_error", code="invalid_request", message=message)


async def serve_infill(
    request: web.Request, asked: Generation, wishes: Wishes, card: ModelCard, *, body_bytes: int
) -> web.StreamResponse:
    """Answer a completion that has a suffix.

    Raises:
        EngineRefusal: The model cannot do it, or the engine refuses for another reason.
        LaneError: Why there is no answer.
    """
    gateway = request.app[GATEWAY]
    run = Run(
        request=request,
        gateway=gateway,
        ticket=make_ticket(
            model=card.name,
            headers=request.headers,
            body_bytes=body_bytes,
            choices=1,
            max_tokens=asked.max_tokens,
            session=asked.session,
            key=request.get(KEY),
        ),
        path=PATH,
        streamed=orjson.dumps(_infill_body(asked, wishes)),
        keep_alive=parse_keep_alive(asked.keep_alive),
        thinks=False,
    )
    writer = CompletionWriter(answer_id=new_id("cmpl"), created=int(time.time()), model=asked.model)
    prompt = wishes.prompts[0]
    echoes = [Echo(prompt)] if wishes.echo and isinstance(prompt, str) else []
    reshaping = Reshaping(wishes, echoes)
    try:
        if not asked.stream:
            return await run_whole(run, partial(_finish, writer, reshaping))
        out = EventStream(
            request,
            traffic=gateway.traffic,
            ping_s=gateway.settings().stream_ping_secs,
            comment=lambda: progress_of(gateway, card.name),
        )
        return await run_stream(run, out, _Chunks(request, writer, reshaping, usage_asked=asked.usage_asked))
    except EngineRefusal as refusal:
        raise EngineRefusal(cannot_insert(refusal.wire, card)) from refusal


def _infill_body(asked: Generation, wishes: Wishes) -> JsonObject:
    left_out = {"prompt", "n", "stream_options", "max_tokens", "logprobs"}
    body = {name: value for name, value in asked.fields.items() if name not in left_out and value is not None}
    body.update(input_prefix=wishes.prompts[0], input_suffix=wishes.suffix, stream=True)
    body["n_predict"] = asked.fields["max_tokens"]
    if wishes.logprobs is not None:
        body["n_probs"] = max(1, wishes.logprobs)
    return body


def _usage(event: UsageReported | None) -> JsonObject:
    counted = event or UsageReported(0, 0)
    return {
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.completion_tokens,
        "total_tokens": counted.prompt_tokens + counted.completion_tokens,
    }


class _Chunks:
    """A completion's stream, as a :class:`~blazar_gateway.chat_runs.Translation`."""

    def __init__(
        self, request: web.Request, writer: CompletionWriter, reshaping: Reshaping, *, usage_asked: bool
    ) -> None:
        self._request = request
        self._writer = writer
        self._reshaping = reshaping
        self._usage_asked = usage_asked
        self._usage: UsageReported | None = None

    def begin(self, borrowed: Borrowed) -> bytes:  # noqa: ARG002 - the protocol's form
        return b""

    def write(self, events: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            match event:
                case Text(text, entries):
                    out.append(self._writer.frame(text, entries))
                case Texts(pieces):
                    out += [self._writer.frame(text) for text in pieces]
                case Finished(reason):
                    out.append(self._writer.frame("", finish=reason.value))
                case UsageReported():
                    self._usage = event
                case _:
                    pass  # a text completion has nothing else
        return self._reshaping.stream(b"".join(out))

    async def end(self, borrowed: Borrowed) -> bytes:  # noqa: ARG002 - the protocol's form
        return (self._writer.usage_frame(_usage(self._usage)) if self._usage_asked else b"") + _DONE

    def fail(self, wire: WireError) -> bytes:
        return error_frame(Dialect.OPENAI, wire, request_id=self._request[REQUEST_ID])


async def _finish(
    writer: CompletionWriter,
    reshaping: Reshaping,
    events: list[Event],
    borrowed: Borrowed,  # noqa: ARG001 - the form that is called
) -> bytes:
    texts: list[str] = []
    entries: list[object] = []
    finish: str | None = None
    usage: UsageReported | None = None
    for event in events:
        match event:
            case Text(text, logprobs):
                texts.append(text)
                entries += logprobs
            case Texts(pieces):
                texts += pieces
            case Finished(reason):
                finish = reason.value
            case UsageReported():
                usage = event
            case _:
                pass  # a text completion has nothing else
    found = [entry for entry in entries if isinstance(entry, dict)]
    return as_bytes(reshaping.answer(writer.object("".join(texts), found, finish=finish, usage=_usage(usage))))
