"""The official client, in a thread of its own, against the application."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import openai
import pytest

from blazar_gateway.testing import (
    Exchange,
    LoadingHost,
    PlainSettings,
    ReadyHost,
    ScriptedEngine,
    chat_frame,
    error_frame,
    serve,
    until,
)

T = TypeVar("T")
MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


async def with_client(port: int, use: Callable[[openai.OpenAI], T]) -> T:
    def run() -> T:
        with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0) as client:
            return use(client)

    return await asyncio.to_thread(run)


async def test_whole_answer(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await with_client(
            served.port, lambda client: client.chat.completions.create(model="m", messages=MESSAGES, seed=1)
        )
    assert answer.choices[0].message.content == "Hello wörld"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    assert answer._request_id


async def test_stream_with_usage_while_the_model_loads(engine: ScriptedEngine) -> None:
    host = LoadingHost(engine)

    def read(client: openai.OpenAI) -> tuple[str, int]:
        stream = client.chat.completions.create(
            model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        usage = chunks[-1].usage
        return text, usage.completion_tokens if usage else 0

    async with serve(host, settings=PlainSettings(stream_ping_secs=0.01)) as served:
        reading = asyncio.ensure_future(with_client(served.port, read))
        await until(lambda: host.waiters)
        # Some comments pass before the load ends.
        await asyncio.sleep(0.05)
        host.loaded.set()
        assert await reading == ("Hello wörld", 3)


async def test_text_completion_and_models(host: ReadyHost) -> None:
    async with serve(host) as served:
        text = await with_client(served.port, lambda client: client.completions.create(model="m", prompt="Once"))
        models = await with_client(served.port, lambda client: [model.id for model in client.models.list()])
        one = await with_client(served.port, lambda client: client.models.retrieve("m"))
    assert text.choices[0].text == " the"
    assert models == ["m"]
    assert one.id == "m"


async def test_error_in_the_stream_is_an_exception(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def fails(exchange: Exchange) -> None:
        await exchange.stream([chat_frame({"content": "a"}), error_frame("Context size has been exceeded.")])

    engine.script = fails
    async with serve(host) as served:
        with pytest.raises(openai.APIError, match="Context size has been exceeded"):
            await with_client(
                served.port,
                lambda client: list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True)),
            )


async def test_refusals_are_the_right_exceptions(host: ReadyHost) -> None:
    async with serve(host) as served:
        with pytest.raises(openai.NotFoundError) as missing:
            await with_client(served.port, lambda client: client.chat.completions.create(model="x", messages=MESSAGES))
        with pytest.raises(openai.BadRequestError) as bad:
            await with_client(served.port, lambda client: client.chat.completions.create(model="m", messages=[]))
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    assert (bad.value.type, bad.value.param) == ("invalid_request_error", "messages")
    assert bad.value.request_id
