"""What the rows point at: engine binaries and model files."""

import os
import shlex
import subprocess
from collections.abc import Iterator

from blazar_cli.doctor.finding import Finding, bad, ok, warn
from blazar_cli.output import human_bytes
from blazar_cli.registration import is_gguf
from blazar_gguf import GgufError, read_metadata_file, would_load
from blazar_store.types import EngineRow, ModelRow

_ENGINE_S = 60.0


def check_engines(engines: tuple[EngineRow, ...]) -> Iterator[Finding]:
    """Look whether every engine's binary is there and starts."""
    if not engines:
        yield warn("engine", "none is registered", "Register a llama-server: `blazar engine add-local PATH`.")
    for row in engines:
        yield _engine(row)


def _engine(row: EngineRow) -> Finding:
    what = f"engine {row.tag}"
    again = f"Put it back, or `blazar engine rm {row.tag}` and register another with `blazar engine add-local PATH`."
    if not row.server_path.is_file():
        return bad(what, f"its binary is gone: {row.server_path}", again)
    if not os.access(row.server_path, os.X_OK):
        return bad(what, f"{row.server_path} is not executable", f"`chmod +x {row.server_path}`.")
    libraries = os.pathsep.join(filter(None, (str(row.server_path.parent), os.environ.get("LD_LIBRARY_PATH", ""))))
    try:
        done = subprocess.run(
            [row.server_path, "--version"],
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ENGINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return bad(what, f"it does not start: {error}", again)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else f"exit status {done.returncode}"
        return bad(what, f"it does not start: {last}", "Install what it asks for, or register another engine.")
    return ok(what, f"{row.kind} {row.version or 'of unknown version'}{', active' if row.active else ''}")


def check_models(models: tuple[ModelRow, ...]) -> Iterator[Finding]:
    """Look whether every model's files are there, whole, and such that an engine would load them."""
    if not models:
        yield warn("model", "none is registered", "Add one: `blazar models add PATH`.")
    for row in models:
        yield _model(row)


def _model(row: ModelRow) -> Finding:
    what = f"model {row.name}"
    forget = f"Put it back, or forget the row: `blazar models rm {shlex.quote(row.name)}`."
    missing = [path for path in row.shards if not path.is_file()]
    if missing and missing[0].exists():
        kind = "a directory" if missing[0].is_dir() else "a pipe, a socket or a device"
        return bad(what, f"its file is {kind} now, not a file: {missing[0]}", forget)
    if missing:
        return bad(what, f"its file is gone: {missing[0]}", forget)
    size = sum(path.stat().st_size for path in row.shards)
    if size != row.size_bytes:
        again = shlex.join(["blazar", "models", "add", str(row.path), "--name", row.name])
        found = f"its size is {human_bytes(size)}, and was {human_bytes(row.size_bytes)} when it was added"
        return warn(what, found, f"If that is meant, read it again: `{again}`.")
    if not is_gguf(row):
        return ok(what, f"{row.path}, {human_bytes(row.size_bytes)}")
    try:
        prediction = would_load(read_metadata_file(row.path))
    except GgufError as error:
        return bad(what, str(error), "Fetch the file again.")
    if prediction.build_specific:
        return warn(what, f"not every engine build loads it: {prediction.reason}", "Keep the engine up to date.")
    if not prediction.loads:
        return bad(what, f"an engine would not load it: {prediction.reason}", "Fetch the file again, or another one.")
    return ok(what, f"{row.path}, {human_bytes(row.size_bytes)}")
