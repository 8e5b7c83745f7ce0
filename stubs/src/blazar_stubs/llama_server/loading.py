"""Loading a model, as it looks from outside: log lines, time, failures (llamacpp.md, sections 1.2, 1.3, 7.2)."""

import os
import signal

from blazar_stubs.llama_server.console import TRACE, Console
from blazar_stubs.llama_server.engine import Engine
from blazar_stubs.llama_server.gguf_header import Header, LoadError, read_header
from blazar_stubs.llama_server.knobs import Crash, Memory
from blazar_stubs.llama_server.reactor import Reactor
from blazar_stubs.llama_server.record import Recorder
from blazar_stubs.llama_server.scripts import Playbook
from blazar_stubs.llama_server.server import Model
from blazar_stubs.llama_server.settings import Settings, Shape

_MIB = 1024 * 1024


def announce(console: Console, settings: Settings) -> None:
    """The lines before anything happens."""
    name = "common_params_print_info"
    console.common(name, f"{name}: build 1 (7e4c0a9) with GNU 11.4.0 for Linux x86_64", verbosity=TRACE)
    console.common(name, f"{name}: verbosity = {settings.verbosity} (adjust with the `-lv N` CLI arg)")
    if not settings.api_keys:
        rule = "-----------------"
        words = [
            rule,
            "CORS is set to allow all origins ('*') and no API key is set",
            "this can be a security risk (cross-origin attacks)",
            "more info: https://github.com/ggml-org/llama.cpp/pull/25655",
            rule,
        ]
        for word in words:
            console.server("llama_server", word, letter="W")
    elif len(settings.api_keys) == 1:
        console.server("init", f"api_keys: ****{settings.api_keys[0][-4:]}", verbosity=TRACE)


class Failed(Exception):
    """The model cannot be loaded; everything that upstream says about it has been said."""


class Loader:
    """Loads the model of one process, first at start and again after sleep."""

    def __init__(
        self, reactor: Reactor, console: Console, settings: Settings, playbook: Playbook, recorder: Recorder
    ) -> None:
        self._reactor = reactor
        self._console = console
        self._settings = settings
        self._playbook = playbook
        self._recorder = recorder

    async def load(self) -> Model:
        """Load at start.

        Raises:
            Failed: It did not work.
        """
        console, knobs = self._console, self._playbook.knobs
        console.server("load_model", f"loading model '{self._settings.model_path}'")
        for row in knobs.get("load_lines", []):
            console.raw(row)
        crash = knobs.get("crash")
        if crash is not None and not crash.get("before_bind", False):
            await self._reactor.sleep(crash.get("after_s", 0.0))
            crash_now(crash, self._recorder)
        header = self._read()
        shape = Shape(self._settings, header)
        self._check(shape)
        await self._reactor.sleep(knobs.get("load_delay_s", 0.0))
        while self._playbook.knobs.get("never_ready", False):
            await self._reactor.sleep(0.05)
            self._playbook.refresh()
        engine = Engine(self._reactor, console, self._settings, shape)
        engine.wake = lambda: self.wake(engine)
        self._say(header, shape, engine)
        return Model(header, shape, engine, self._settings)

    async def wake(self, engine: Engine) -> None:
        """Load again; a failure kills the process with SIGABRT, as upstream's does."""
        self._playbook.refresh()
        wake = self._playbook.knobs.get("wake", {})
        console = self._console
        console.server("load_model", f"loading model '{self._settings.model_path}'")
        await self._reactor.sleep(wake.get("delay_s", self._playbook.knobs.get("load_delay_s", 0.0)))
        try:
            header = self._read(forced_failure=wake.get("fail", False))
        except Failed:
            console.raw("server-context.cpp:906: failed to reload model after sleeping")
            self._recorder.event("exit", signal="SIGABRT")
            signal.signal(signal.SIGABRT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGABRT)
            raise
        self._say(header, engine.shape, engine)

    def _read(self, *, forced_failure: bool = False) -> Header:
        path, console = self._settings.model_path, self._console
        try:
            if forced_failure:
                raise LoadError("unable to allocate CPU buffer")
            return read_header(path)
        except LoadError as error:
            # The pass that fits parameters to memory tries the load first, so everything is said twice.
            for attempt in (0, 1) if self._settings.fit else (1,):
                if error.reader_line is not None:
                    console.line(error.reader_line, letter="E")
                console.line(f"llama_model_load: error loading model: {error.reason}", letter="E")
                console.line("llama_model_load_from_file_impl: failed to load model", letter="E")
                if attempt == 0:
                    self._fit_failed("failed to load model")
            console.common("common_init_", f"failed to load model '{path}'", letter="E")
            console.server("load_model", f"failed to load model, '{path}'", letter="E")
            raise Failed from None

    def _fit_failed(self, why: str) -> None:
        text = "encountered an error while trying to fit params to free device memory"
        self._console.line(f"common_fit_params: {text}: {why}", letter="E")

    def _check(self, shape: Shape) -> None:
        settings, console, path = self._settings, self._console, self._settings.model_path
        if settings.batch == 0:
            console.raw("llama-context.cpp:2189: GGML_ASSERT(n_outputs >= 1) failed")
            self._recorder.event("exit", signal="SIGABRT")
            os.kill(os.getpid(), signal.SIGABRT)
        plain = settings.cache_type_v in {"f32", "f16", "bf16"}
        if not plain and settings.flash_attention in {"off", "0", "false", "disabled"}:
            line = "llama_init_from_model: quantized V cache requires flash_attn to be enabled"
            if settings.fit:
                console.line(line, letter="E")
                self._fit_failed("failed to create llama_context from model")
            console.line(line, letter="E")
            for _ in range(2):
                console.common("common_init_", f"failed to create context with model '{path}'", letter="E")
            console.server("load_model", f"failed to create_context with model '{path}'", letter="E")
            raise Failed
        if shape.rounded:
            text = f"n_ctx is not divisible by n_seq_max - rounding down to {shape.cells}"
            console.line(f"llama_context: {text}", letter="W")
        if shape.uncapped_context > shape.train_context:
            text = (
                f"the slot context ({shape.uncapped_context}) exceeds the training context of the model "
                f"({shape.train_context}) - capping"
            )
            console.server("load_model", text, letter="W")

    def _say(self, header: Header, shape: Shape, engine: Engine) -> None:
        console, settings = self._console, self._settings
        memory = self._playbook.knobs.get("memory", {})
        held_mib = memory.get("hold_mib", 0.0)
        if held_mib:
            # Not zeros: untouched zero pages are not resident.
            engine.held = bytearray(b"\x01" * int(held_mib * _MIB))
        self._say_memory(header, shape, memory)
        console.common("init", "llama threadpool init, n_threads = 2")
        unified = str(settings.unified).lower()
        console.server(
            "load_model",
            f"initializing, n_slots = {settings.slots}, n_ctx_slot = {shape.slot_context}, kv_unified = '{unified}'",
        )
        for slot in engine.slots:
            console.slot("load_model", slot.number, -1, f"new slot, n_ctx = {shape.slot_context}", verbosity=TRACE)

    def _say_memory(self, header: Header, shape: Shape, memory: Memory) -> None:
        settings = self._settings
        device = memory.get("device", "CPU")
        figures = figures_of(shape, memory, settings)
        sequences = f"{settings.slots}/{1 if settings.unified else settings.slots}"
        half = figures["kv_mib"] / 2
        key, value = settings.cache_type_k, settings.cache_type_v
        if shape.cell_bytes and "kv_mib" not in memory:
            half = shape.cells * shape.key_bytes / _MIB
        rest = figures["kv_mib"] - half
        layers = shape.layers
        mapped = "CPU_Mapped" if device == "CPU" else device
        per_slot = shape.cells // (1 if settings.unified else settings.slots)
        rows = [
            f"llama_model_loader: loaded meta data with {len(header.keys) + len(header.lengths)} key-value pairs and "
            f"{len(header.tensors)} tensors from {settings.model_path} (version GGUF V3 (latest))",
            f"print_info: file size   = {figures['model_mib']:.2f} MiB",
            f"print_info: arch                  = {header.architecture}",
            f"print_info: n_ctx_train           = {shape.train_context}",
            f"load_tensors: offloaded {layers + 1}/{layers + 1} layers to GPU",
            f"load_tensors: {mapped:>12} model buffer size = {figures['model_mib']:8.2f} MiB",
            f"llama_context: n_seq_max             = {settings.slots}",
            f"llama_context: n_ctx                 = {shape.cells}",
            f"llama_context: n_ctx_seq             = {per_slot}",
            f"llama_context: {device:>10}  output buffer size = {figures['output_mib']:8.2f} MiB",
            f"llama_kv_cache: {device:>10} KV buffer size = {figures['kv_mib']:8.2f} MiB",
            f"llama_kv_cache: size = {figures['kv_mib']:7.2f} MiB ({per_slot:6d} cells, {layers:3d} layers, "
            f"{sequences:>4} seqs), K ({key}): {half:7.2f} MiB, V ({value}): {rest:7.2f} MiB",
            f"sched_reserve: {device:>10} compute buffer size = {figures['compute_mib']:8.2f} MiB",
        ]
        for row in rows:
            self._console.line(row, verbosity=TRACE)


def figures_of(shape: Shape, memory: Memory, settings: Settings) -> dict[str, float]:
    """The sizes to report, MiB: what a test wants said, else what the header comes to."""
    return {
        "model_mib": memory.get("model_mib", shape.weight_bytes / _MIB),
        "kv_mib": memory.get("kv_mib", shape.cells * shape.cell_bytes / _MIB),
        "output_mib": memory.get("output_mib", settings.slots * shape.vocabulary * 4 / _MIB),
        "compute_mib": memory.get("compute_mib", 512 * (shape.embedding + shape.cells) * 4 / _MIB),
    }


def say_breakdown(console: Console, figures: dict[str, float]) -> None:
    """The table printed at a clean exit."""
    model, context, compute = figures["model_mib"], figures["kv_mib"], figures["compute_mib"]
    total = model + context + compute
    name = "common_memory_breakdown_print"
    head = "| memory breakdown [MiB] | total   free    self   model   context   compute    unaccounted |"
    row = f"|   - Host               | {total:20.0f} = {model:5.0f} + {context:7.0f} + {compute:7.0f}                |"
    console.line(f"{name}: {head}", verbosity=TRACE)
    console.line(f"{name}: {row}", verbosity=TRACE)


def crash_now(crash: Crash, recorder: Recorder) -> None:
    """Die as told, if this spawn is among those that shall."""
    if recorder.spawn_number > crash.get("first_spawns", recorder.spawn_number):
        return
    text = crash.get("text", [])
    for row in [text] if isinstance(text, str) else text:
        os.write(2, row.encode() + b"\n")
    name = crash.get("signal")
    code = crash.get("exit_code", 1)
    recorder.event("exit", code=code, signal=name)
    if name is None:
        os._exit(code)
    number = signal.Signals[name]
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
