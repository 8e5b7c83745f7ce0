"""What ``blazar fit`` asks of the budget: which model, started how, on what memory. Reads headers and the machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blazar_budget import BudgetError, Launch, Memory, Pool, Verdict, default_context, unified_ctx_verdict
from blazar_budget.probe import probe_memory
from blazar_budget.shape import read_context_length
from blazar_cli.catalogue import row_named
from blazar_cli.registration import describe_model, is_gguf
from blazar_gguf import GgufError, GgufMeta
from blazar_routing.errors import InvalidRequest, ModelNotFound, NotAnEngine
from blazar_store.names import near_names
from blazar_store.settings import Settings
from blazar_store.store import Store
from blazar_store.types import EngineRow
from blazar_supervisor.builds.probe import probe_binary
from blazar_supervisor.engines.llamacpp.memory_flags import launch_of
from blazar_supervisor.engines.llamacpp.speculation import kinds_wished
from blazar_supervisor.residency.model_files import read_model, unreadable
from blazar_supervisor.residency.planner import knobs_for

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Wish:
    """How the model would be started, as far as somebody said so.

    Attributes:
        ctx: Tokens, or ``None`` for the largest that plainly fits.
        cache_type: Of K and V.
        parallel: Slots.
        gpu_layers: ``-ngl``.
        gpus_gib: Accelerators to reckon with instead of this machine's, GiB each.
    """

    ctx: int | None = None
    cache_type: str | None = None
    parallel: int | None = None
    gpu_layers: int | None = None
    gpus_gib: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The verdict and what it is about.

    Attributes:
        name: The model, as it is called.
        meta: Its first header.
        launch: How it would be started.
        memory: What it was judged by.
        verdict: The budget's.
    """

    name: str
    meta: GgufMeta
    launch: Launch
    memory: Memory
    verdict: Verdict


def ask_about_row(store: Store, settings: Settings, model: str, wish: Wish) -> Answered:
    """Answer for a registered model, or for a file that need not be registered.

    Raises:
        ModelNotFound: There is neither.
        ModelUnreadable, ModelFileMissing: It is no model.
    """
    row = row_named(store, settings, model)
    if row is None:
        if not Path(model).exists():
            raise ModelNotFound(model=model, near=near_names(model, [known.name for known in store.list_models()]))
        row = describe_model(Path(model))
    if not is_gguf(row):
        size = row.size_bytes / _GIB
        raise InvalidRequest(
            f"the memory verdict is for GGUF files; of '{row.name}' ({row.format}) only the size is known, "
            f"{size:.1f} GiB."
        )
    parts = read_model(row)
    knobs = knobs_for(row, settings)
    knobs = replace(knobs, kinds=kinds_wished(knobs.written))
    ctx = knobs.ctx if wish.ctx is None else wish.ctx
    launch = launch_of(row, knobs, ctx=ctx or 0)
    return _answer(row.name, parts, launch, replace(wish, ctx=ctx), _memory(wish, store.list_engines()))


def ask_about_url(url: str, wish: Wish) -> Answered:
    """Answer for a file behind an https address, of which only the header is fetched.

    Raises:
        ModelUnreadable: It cannot be read, or is no model.
    """
    # Networking, which a verdict on a file of this machine need not wait for.
    from blazar_gguf.remote import read_metadata_url

    try:
        meta = read_metadata_url(url, complete=True)
    except GgufError as error:
        raise unreadable(url, error) from error
    launch = Launch(ctx=0, parallel=4, unified=True)
    return _answer(url.rpartition("/")[2], (meta,), launch, wish, _memory(wish, ()))


def _answer(name: str, parts: Sequence[GgufMeta], launch: Launch, wish: Wish, memory: Memory) -> Answered:
    meta = parts[0]
    if wish.parallel is not None:
        launch = replace(launch, parallel=wish.parallel, unified=wish.parallel > 1)
    if wish.cache_type is not None:
        launch = launch.with_cache_type(wish.cache_type)
    if wish.gpu_layers is not None:
        launch = launch.with_gpu_layers(wish.gpu_layers)
    launch = launch.with_ctx(_largest_context(parts, launch, memory) if wish.ctx is None else wish.ctx)
    return Answered(name, meta, launch, memory, unified_ctx_verdict(meta, launch, memory, parts=parts))


def _largest_context(parts: Sequence[GgufMeta], launch: Launch, memory: Memory) -> int:
    try:
        return default_context(parts[0], launch, memory, parts=parts).ctx
    except BudgetError:
        # The engine refuses the settings whatever the context; the verdict says which and why.
        return read_context_length(parts[0])


def _memory(wish: Wish, engines: Sequence[EngineRow]) -> Memory:
    machine = probe_memory()
    if wish.gpus_gib:
        pools = tuple(Pool(f"GPU{index}", round(gib * _GIB)) for index, gib in enumerate(wish.gpus_gib))
        return Memory(machine.ram_total, pools)
    if machine.gpus and _uses_no_device(engines):
        machine = replace(machine, gpus=())
    return machine.capacity()


def _uses_no_device(engines: Sequence[EngineRow]) -> bool:
    """Return whether the engine that would be started was built without a backend for this machine's accelerators."""
    active = next((engine for engine in engines if engine.kind == "llamacpp" and engine.active), None)
    if active is None:
        return False
    try:
        return not probe_binary(active.server_path).devices
    except NotAnEngine:
        return False
