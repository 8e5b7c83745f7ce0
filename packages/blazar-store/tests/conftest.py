import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from blazar_store.layout import Layout
from blazar_store.store import Store


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "data", short_root=tmp_path)
    layout.prepare()
    return layout


@pytest.fixture
def store(layout: Layout) -> Iterator[Store]:
    with Store(layout) as store:
        yield store


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A directory that an unprivileged user can reach too; pytest's own are private."""
    directory = Path(tempfile.mkdtemp(prefix="blazar-store-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        for path in [directory, *directory.rglob("*")]:
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(directory)


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    """Make permissions count, also where the tests run as root."""

    @contextlib.contextmanager
    def act() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return act
