"""An engine that answers well, and a watch for calls that block the loop."""

from collections.abc import AsyncIterator, Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from blazar_gateway.testing import Exchange, ReadyHost, ScriptedEngine, chat_stream, completion_frame, done_frame
from blazar_gateway.testing.frames import usage_object


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[BlockBuster]:
    """Fail a test in which something blocks the event loop."""
    with blockbuster_ctx() as detector:
        yield detector


async def answers_well(exchange: Exchange) -> None:
    """Do what a healthy llama-server does on the routes that are used here."""
    if exchange.path == "/v1/chat/completions":
        await exchange.stream(chat_stream(["Hello", " ", "wörld"]))
    elif exchange.path == "/v1/completions":
        usage = usage_object(2, 1)
        frames = completion_frame(" the") + completion_frame("", finish="length", usage=usage) + done_frame()
        await exchange.stream(frames)
    elif exchange.path == "/tokenize":
        await exchange.answer(b'{"tokens":[28120,905]}')
    else:
        await exchange.answer(b'{"prompt":"x","content":"y"}')


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedEngine]:
    async with ScriptedEngine(answers_well) as scripted:
        yield scripted


@pytest.fixture
def host(engine: ScriptedEngine) -> ReadyHost:
    return ReadyHost(engine)
