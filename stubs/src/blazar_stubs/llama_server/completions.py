"""The endpoints that generate: body to prompt and parameters, slots, generations, answer."""

from collections.abc import Callable
from typing import Any

from blazar_stubs.llama_server.bodies import read_object, required
from blazar_stubs.llama_server.exchange import Exchange
from blazar_stubs.llama_server.generation import Generation
from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.messages_shape import MessagesShape
from blazar_stubs.llama_server.params import Params
from blazar_stubs.llama_server.prompts import (
    Refusal,
    from_messages_api,
    from_responses_api,
    last_user_text,
)
from blazar_stubs.llama_server.replies import plan
from blazar_stubs.llama_server.responses_shape import ResponsesShape
from blazar_stubs.llama_server.results import Choice, Results
from blazar_stubs.llama_server.server import Server
from blazar_stubs.llama_server.shapes import ChatShape, CompletionShape, NativeShape, Shape
from blazar_stubs.llama_server.streams import write_stream, write_whole
from blazar_stubs.llama_server.tokenizer import detokenize, tokenize


async def chat(server: Server, exchange: Exchange) -> None:
    """``/v1/chat/completions``."""
    shape = ChatShape(server.settings.model_name, exchange.script)
    await _chat(server, exchange, read_object(exchange), shape)


async def responses(server: Server, exchange: Exchange) -> None:
    """``/v1/responses``."""
    body = from_responses_api(read_object(exchange))
    await _chat(server, exchange, body, ResponsesShape(server.settings.model_name))


async def messages(server: Server, exchange: Exchange) -> None:
    """``/v1/messages``."""
    body = from_messages_api(read_object(exchange))
    await _chat(server, exchange, body, MessagesShape(server.settings.model_name))


async def text(server: Server, exchange: Exchange) -> None:
    """``/v1/completions``."""
    await _plain(server, exchange, CompletionShape(server.settings.model_name, exchange.script))


async def native(server: Server, exchange: Exchange) -> None:
    """``/completion``."""
    await _plain(server, exchange, NativeShape(server.settings.model_name))


async def _chat(server: Server, exchange: Exchange, body: Json, shape: Shape) -> None:
    await server.loaded.engine.touch()
    template = server.loaded.template
    kind = body.get("response_format")
    if isinstance(kind, dict) and kind.get("type") not in {None, "text", "json_object", "json_schema"}:
        raise Refusal(f'response_format type must be one of "text" or "json_object", but got: {kind["type"]}')
    prompt = template.render(body, vision=bool(server.settings.projector))
    params = _params(server, body, is_chat=True)
    tools = body.get("tools") if template.has_tools else None
    job = _Job(server, exchange, shape, params)
    job.heard = last_user_text(body)
    job.tools = tools if isinstance(tools, list) else []
    job.chat_format, job.generation_prompt = "peg-native", "<|im_start|>assistant\n"
    await job.run([(prompt, tokenize(prompt))])


async def _plain(server: Server, exchange: Exchange, shape: Shape) -> None:
    body = read_object(exchange)
    await server.loaded.engine.touch()
    prompts = _prompts(required(body, "prompt", Refusal))
    params = _params(server, body, is_chat=False)
    await _Job(server, exchange, shape, params).run(prompts)


def _params(server: Server, body: Json, *, is_chat: bool) -> Params:
    settings = server.settings
    return Params(
        body,
        slots=settings.slots,
        predict=settings.predict,
        ping_interval_s=settings.ping_interval_s,
        chat=is_chat,
    )


def _prompts(value: Any) -> list[tuple[str, list[int]]]:
    """One or several prompts: a text, token numbers, a mixture, or a list of those."""
    match value:
        case str():
            return [(value, tokenize(value))]
        case []:
            raise Refusal('"prompt" must not be empty')
        case list() if all(isinstance(part, str) for part in value) or any(isinstance(part, list) for part in value):
            return [prompt for part in value for prompt in _prompts(part)]
        case list() if all(isinstance(part, int | str) for part in value):
            tokens = [token for part in value for token in (tokenize(part) if isinstance(part, str) else [int(part)])]
            return [(detokenize(tokens), tokens)]
        case {"prompt_string": str(inner)}:
            return _prompts(inner)
        case _:
            raise Refusal(
                '"prompt" elements must be a string, a list of tokens, a JSON object containing a prompt string, or a '
                "list of mixed strings & tokens."
            )


class _Job:
    """All generations of one request."""

    def __init__(self, server: Server, exchange: Exchange, shape: Shape, params: Params) -> None:
        self._server = server
        self._exchange = exchange
        self._shape = shape
        self._params = params
        self.heard: str | None = None
        self.tools: list[Json] = []
        self.chat_format = "Content-only"
        self.generation_prompt = ""

    async def run(self, prompts: list[tuple[str, list[int]]]) -> None:
        """Generate and answer."""
        server, exchange, params = self._server, self._exchange, self._params
        await self._hang_if_told()
        count = params.choices
        results = Results(server.reactor, count * len(prompts))
        exchange.connection.client_left.on_set(results.poke)
        for number, (prompt, tokens) in enumerate(prompts):
            choices = [Choice(number * count + place, params, tokens, prompt) for place in range(count)]
            server.reactor.spawn(self._generate(choices, results))
        if not params.stream:
            await write_whole(exchange, results, self._shape)
            return
        conversation = exchange.request.header("x-conversation-id")
        replay: bytearray | None = None
        if conversation:
            replay = server.conversations[conversation] = bytearray()
        await write_stream(exchange, results, self._shape, ping_s=params.ping_interval_s, replay=replay)

    async def _hang_if_told(self) -> None:
        """Healthy but never answering: take a slot and keep it until the client leaves."""
        if self._server.playbook.knobs.get("generation", "answer") != "never":
            return
        engine = self._server.loaded.engine
        (slot,) = await engine.acquire(1, [], -1)
        slot.params, slot.generating = self._params, True
        self._server.reactor.spawn(self._release_later(lambda: engine.release(slot)))
        await self._exchange.hang()

    async def _release_later(self, release: Callable[[], None]) -> None:
        await self._exchange.connection.client_left.wait()
        release()

    async def _generate(self, choices: list[Choice], results: Results) -> None:
        server, script = self._server, self._exchange.script
        engine, params = server.loaded.engine, self._params
        slots = await engine.acquire(len(choices), choices[0].prompt, params.wanted_slot)
        for slot, choice in zip(slots, choices, strict=False):
            choice.task = engine.new_task()
            choice.is_child = choice is not choices[0]
            choice.chat_format, choice.generation_prompt = self.chat_format, self.generation_prompt
            heard = choice.prompt_text if self.heard is None else self.heard
            pieces = plan(script, params, heard=heard, tools=self.tools)
            generation = Generation(engine, slot, choice, results, script=script, knobs=server.playbook.knobs)
            server.reactor.spawn(generation.run(pieces))
