"""Rows for tests, in this package and in those above it."""

from dataclasses import replace
from pathlib import Path

from blazar_store.types import EngineRow, ModelRow

_MODEL = ModelRow(
    name="model",
    path=Path("/weights/model.gguf"),
    shards=(Path("/weights/model.gguf"),),
    mmproj_path=None,
    format="gguf",
    arch="llama",
    params=135_000_000,
    quant="Q4_K_M",
    ctx_train=2048,
    size_bytes=98_000_000,
    digest="0" * 64,
    capabilities=("completion",),
    engine=None,
    pulled=False,
    added_at=1_700_000_000,
    modified_at=1_700_000_000,
)
_ENGINE = EngineRow(
    tag="b1",
    kind="llamacpp",
    server_path=Path("/opt/llama.cpp/llama-server"),
    local=False,
    version="",
    commit="",
    active=False,
    installed_at=1_700_000_000,
)


def make_model(name: str = "model", **changes: object) -> ModelRow:
    """Return a plausible row of a small GGUF model, changed where the test cares."""
    path = Path(f"/weights/{name}.gguf")
    return replace(_MODEL, **{"name": name, "path": path, "shards": (path,), **changes})  # type: ignore[arg-type]  # by name


def make_engine(tag: str = "b1", **changes: object) -> EngineRow:
    """Return a plausible row of a llama.cpp build, changed where the test cares."""
    return replace(_ENGINE, **{"tag": tag, **changes})  # type: ignore[arg-type]  # by name
