"""Beside llama-server's own router: the same engine and tiny model, asked directly, through Blazar, and through it.

The call is ``/tokenize``, which costs the engine next to nothing. The engine has a core of its own, the two gateways
share the other, one at a time. What a gateway adds is its latency alone less that of the engine asked directly.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench_parts.measure import Key, Series, measure
from bench_parts.pinning import move_thread
from bench_parts.servers import BenchFailed, Gateway, blazar, free_port, load_model, running, wait_until_up
from bench_parts.workloads import MODEL, WORKLOADS
from blazar_cli.errors import CliError
from blazar_cli.parts import ensure_part
from blazar_gguf.testing import write_tiny_model

ENGINE, ROUTER, OURS = "engine alone", "llama-server's router", "blazar, same engine"
CALLS = WORKLOADS[0]
_THREADS = ("-t", "1", "-tb", "1")


def real_engine() -> Path:
    """Return the pinned llama-server.

    Raises:
        BenchFailed: It cannot be had here.
    """
    try:
        return ensure_part("engine")
    except CliError as error:
        raise BenchFailed(f"no llama-server to compare with: {error}") from error


@contextmanager
def three(*, upstream_core: int, gateway_core: int, guarded: bool) -> Iterator[tuple[Gateway, ...]]:
    """Run the engine alone, Blazar before it, and its own router.

    Raises:
        BenchFailed: One did not come up, or there is no engine.
    """
    binary = real_engine()
    env = {"LD_LIBRARY_PATH": str(binary.parent)}
    with tempfile.TemporaryDirectory(prefix="blazar-router-") as folder, ExitStack() as stack:
        models, ours = Path(folder, "models"), Path(folder, "ours")
        models.mkdir()
        ours.mkdir()
        weights = models / f"{MODEL}.gguf"
        write_tiny_model(weights)
        alone = [str(binary), "-m", str(weights), "-a", MODEL, "-np", "4", "-kvu", *_THREADS]
        routing = [str(binary), "--models-dir", str(models), "-np", "4", *_THREADS]
        yield (
            stack.enter_context(_server(ENGINE, alone, core=upstream_core, folder=Path(folder), env=env)),
            stack.enter_context(
                blazar(
                    upstream_core=upstream_core,
                    gateway_core=gateway_core,
                    workdir=ours,
                    guarded=guarded,
                    engine=f'/usr/bin/env LD_LIBRARY_PATH="{binary.parent}" "{binary}" {" ".join(_THREADS)}',
                    weights=weights,
                    name=OURS,
                )
            ),
            stack.enter_context(
                _server(ROUTER, routing, core=gateway_core, folder=Path(folder), env=env, engine_core=upstream_core)
            ),
        )


@contextmanager
def _server(
    name: str,
    command: Sequence[str],
    *,
    core: int,
    folder: Path,
    env: Mapping[str, str],
    engine_core: int | None = None,
) -> Iterator[Gateway]:
    port, log = free_port(), folder / f"{command[1].strip('-')}.log"
    with running([*command, "--port", str(port), "--no-ui"], core=core, log=log, env=env) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until_up(f"{url}/health", process, log)
        load_model(url)
        if engine_core is not None:
            # A router's child inherits its core; threads of it that are there already have to be moved one by one.
            for child in process.children(recursive=True):
                for thread in child.threads():
                    move_thread(thread.id, engine_core)
        yield Gateway(name, url, process, int(process.memory_info().rss))


def measure_router(
    *, rounds: int, seconds: float, cores: tuple[int, int], wrk: str | None, guarded: bool, tell: Callable[[str], None]
) -> dict[Key, Series]:
    """Return the series of all three.

    Raises:
        BenchFailed: There is nothing to compare with.
    """
    load_core, gateway_core = cores
    with three(upstream_core=load_core, gateway_core=gateway_core, guarded=guarded) as gateways:
        return measure(
            gateways, workloads=[CALLS], rounds=rounds, seconds=seconds, load_core=load_core, wrk=wrk, tell=tell
        )
