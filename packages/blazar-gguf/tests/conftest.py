from pathlib import Path

import pytest

from blazar_gguf import GgufWriter
from blazar_gguf.testing import RawFile, TinyShape, tiny_model


@pytest.fixture
def tiny() -> GgufWriter:
    """A small healthy model, not written yet."""
    return tiny_model("llama", shape=TinyShape(layers=2))


@pytest.fixture
def tiny_path(tiny: GgufWriter, tmp_path: Path) -> Path:
    """The same as a file."""
    return tiny.write(tmp_path / "tiny.gguf")


@pytest.fixture
def raw(tiny: GgufWriter) -> RawFile:
    """The same in parts."""
    return RawFile.from_writer(tiny)
