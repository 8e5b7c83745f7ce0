"""What a test can ask of a stub: the names, their types, and their check.

Two levels. `Knobs` belong to a process: how it starts, answers probes, dies. A `Script` belongs to one request:
what is sent, when, cut how, and what goes wrong. The meaning of each is in ``stubs/README.md``.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

Json = dict[str, Any]


class Script(TypedDict, total=False):
    """What one request gets."""

    # which request, when the script waits in a sidecar or in the queue
    match: str
    path: str
    times: int
    # the answer's text
    text: str
    n_tokens: int
    reasoning: str
    tool_calls: list[Json]
    finish_reason: str | None
    chunks: list[Json]
    usage: Json
    usage_always: bool
    done: bool
    # a fixed answer
    status: int
    headers: Json
    body: Any
    slices: list[Any]
    raw: bool
    # time
    header_delay_s: float
    prefill_delay_s: float
    progress: bool
    first_byte_delay_s: float
    token_delay_s: float
    slice_delay_s: float
    # the wire
    cut_every: int
    cut_at: list[int]
    close_after_bytes: int
    close_after_tokens: int
    close_mode: str
    never_answer: bool
    hang_after_tokens: int
    # the process
    exit_code: int
    signal: str
    exit_after_tokens: int
    exit_on_disconnect: int


class Crash(TypedDict, total=False):
    """A death while loading."""

    text: str | list[str]
    exit_code: int
    signal: str
    after_s: float
    before_bind: bool
    first_spawns: int


class Wake(TypedDict, total=False):
    """How waking from sleep goes."""

    fail: bool
    delay_s: float


class Memory(TypedDict, total=False):
    """Figures to report, and bytes to really hold."""

    device: str
    model_mib: float
    kv_mib: float
    output_mib: float
    compute_mib: float
    hold_mib: float


class Knobs(TypedDict, total=False):
    """How one process behaves."""

    bind_delay_s: float
    load_delay_s: float
    crash: Crash
    never_ready: bool
    load_lines: list[str]
    help: str
    help_without: list[str]
    version: str
    devices: str
    probe_delay_s: float
    probe_exit_code: int
    ignore_sigterm: bool
    term_exit_code: int
    health: str
    generation: str
    wake: Wake
    memory: Memory
    token_delay_s: float
    prefill_s_per_token: float
    keep_alive_s: float
    keep_alive_requests: int
    events: bool
    defaults: Script
    requests: list[Script]


class KnobError(Exception):
    """A test asked for something that does not exist; the stub says so instead of guessing."""


def checked_knobs(value: object, source: str) -> Knobs:
    """Check the shape of process knobs and of the scripts within.

    Raises:
        KnobError: A name is unknown, or a value is not of its kind.
    """
    knobs = _checked(value, Knobs, source)
    for name, kind in (("crash", Crash), ("wake", Wake), ("memory", Memory), ("defaults", Script)):
        if name in knobs:
            _checked(knobs[name], kind, f"{source}, {name}")
    for index, script in enumerate(knobs.get("requests", [])):
        _checked(script, Script, f"{source}, requests[{index}]")
    return knobs  # type: ignore[return-value] # its keys were just checked


def checked_script(value: object, source: str) -> Script:
    """Check the shape of one request's script.

    Raises:
        KnobError: A name is unknown.
    """
    return _checked(value, Script, source)  # type: ignore[return-value] # its keys were just checked


def _checked(value: object, kind: type[Mapping[str, Any]], source: str) -> Json:
    if not isinstance(value, dict):
        raise KnobError(f"stub: {source}: expected an object, found {type(value).__name__}")
    known = kind.__annotations__
    for name in value:
        if name not in known:
            raise KnobError(f"stub: {source}: no knob is called {name!r}; known: {', '.join(known)}")
    return value
