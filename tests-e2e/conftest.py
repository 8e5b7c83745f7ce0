"""A home with a stub engine in it, and the daemon on that home; logs are shown when a test fails."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

import pytest

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
