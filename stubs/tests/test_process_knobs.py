"""What knobs do to a process: starting, dying, lying about itself."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from blazar_stubs import StubModel, Variant, install_stub, write_stub_model
from blazar_stubs.llama_server.flags import parse_help
from blazar_stubs.testing import Dialog, Engine, free_port, launched, wait_until

CHAT = "/v1/chat/completions"
HI = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


@pytest.fixture
def model(tmp_path: Path) -> StubModel:
    return write_stub_model(tmp_path / "m.gguf")


def stub_with(directory: Path, variant: Variant = Variant.B10434, **knobs: Any) -> Engine:
    return Engine("stub", install_stub(directory, variant=variant, knobs=knobs), {})


def test_slow_start_refuses_then_says_503_then_serves(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(bind_delay_s=0.3, load_delay_s=0.5)
    port = free_port()
    seen: list[int] = []
    with launched(stub_engine, tmp_path / "log", "-m", model.path, "--port", str(port), ready=False):

        def is_ready() -> bool:
            try:
                with Dialog(("127.0.0.1", port)) as dialog:
                    dialog.send("GET", "/health")
                    seen.append(dialog.reply().status)
            except ConnectionRefusedError:
                seen.append(0)
            return seen[-1] == 200

        wait_until(is_ready, "it serves")
    assert sorted(set(seen), key=seen.index) == [0, 503, 200]


def test_never_ready_until_told(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(never_ready=True, load_lines=["AMX is not ready to be used!"])
    with launched(stub_engine, tmp_path / "log", "-m", model.path, "--port", str(free_port()), ready=False) as server:
        wait_until(lambda: "AMX is not ready to be used!" in server.stderr, "it loads")
        assert "listening on" not in server.stderr
        model.script(never_ready=False)
        server.until_ready()


@pytest.mark.parametrize(
    ("crash", "code"),
    [
        pytest.param({"text": "ggml_cuda: out of memory", "exit_code": 3}, 3, id="code"),
        pytest.param({"text": ["one", "two"], "signal": "SIGILL"}, -signal.SIGILL, id="signal"),
        pytest.param({"text": "early", "before_bind": True}, 1, id="before-bind"),
        pytest.param({"text": "late", "after_s": 0.2}, 1, id="after-a-while"),
    ],
)
def test_crash_at_load(stub_engine: Engine, model: StubModel, crash: dict[str, Any], code: int) -> None:
    model.script(crash=crash)
    ended = stub_engine.run("-m", model.path, "--port", str(free_port()))
    assert ended.returncode == code
    text = crash["text"]
    assert ("\n".join(text) if isinstance(text, list) else text) in ended.stderr
    assert model.events("exit")[-1]["code"] == crash.get("exit_code", 1)


def test_only_the_first_spawns_crash(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(crash={"first_spawns": 2})
    assert [stub_engine.run("-m", model.path, "--port", "0").returncode for _ in range(2)] == [1, 1]
    with launched(stub_engine, tmp_path / "log", "-m", model.path) as server:
        assert server.get("/health") == {"status": "ok"}
    assert model.spawns == 3


def test_sigterm_can_be_ignored(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(ignore_sigterm=True)
    with launched(stub_engine, tmp_path / "log", "-m", model.path) as server:
        server.terminate()
        server.process.send_signal(signal.SIGINT)
        assert server.get("/health") == {"status": "ok"}
        server.process.kill()
        assert server.exit_code() == -signal.SIGKILL


def test_exit_code_of_a_clean_stop(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(term_exit_code=5)
    with launched(stub_engine, tmp_path / "log", "-m", model.path) as server:
        server.terminate()
        assert server.exit_code() == 5


def test_healthy_but_never_answering(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(generation="never")
    with launched(stub_engine, tmp_path / "log", "-m", model.path, "-np", "2") as server, server.dialog() as dialog:
        dialog.send("POST", CHAT, HI)
        wait_until(lambda: server.busy, "a slot is taken")
        assert server.get("/health") == {"status": "ok"}
        assert not dialog.is_closed(within_s=0.5)
        dialog.close()
        wait_until(lambda: not server.busy, "the slot is free")
        model.script()
        assert server.post(CHAT, HI).status == 200


@pytest.mark.parametrize("health", ["error", "hang"])
def test_unhealthy(stub_engine: Engine, model: StubModel, tmp_path: Path, health: str) -> None:
    with launched(stub_engine, tmp_path / "log", "-m", model.path) as server:
        server.post("/__stub__/script", {"process": {"health": health}})
        with server.dialog() as dialog:
            dialog.send("GET", "/health")
            if health == "error":
                assert dialog.reply().status == 500
            else:
                assert not dialog.is_closed(within_s=0.5)
        server.request("DELETE", "/__stub__/script")
        assert server.get("/health") == {"status": "ok"}


def test_scripted_failure_to_wake(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(wake={"fail": True})
    argv = ["-m", model.path, "--sleep-idle-seconds", "1"]
    with launched(stub_engine, tmp_path / "log", *argv) as server:
        wait_until(lambda: server.get("/props")["is_sleeping"], "it sleeps")
        with server.dialog() as dialog:
            dialog.send("POST", CHAT, HI)
            assert dialog.is_closed(within_s=60)
        assert server.exit_code() == -signal.SIGABRT
        assert "error loading model: " in server.stderr


def test_requests_during_a_wake_wait_for_it(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(wake={"delay_s": 0.5})
    with launched(stub_engine, tmp_path / "log", "-m", model.path, "--sleep-idle-seconds", "1") as server:
        wait_until(lambda: server.get("/props")["is_sleeping"], "it sleeps")
        dialogs = [server.dialog() for _ in range(3)]
        for dialog in dialogs:
            dialog.send("POST", CHAT, HI)
        assert server.get("/health") == {"status": "ok"}
        assert [dialog.reply().status for dialog in dialogs] == [200] * 3
        for dialog in dialogs:
            dialog.close()
        assert server.stderr.count("server is exiting sleeping state") == 1


def test_memory_is_reported_and_held(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    memory = {"device": "CUDA0", "model_mib": 14336, "kv_mib": 512, "compute_mib": 300.5, "hold_mib": 64}
    model.script(memory=memory, token_delay_s=0.05)
    with launched(stub_engine, tmp_path / "log", "-m", model.path, "-lv", "4", "--sleep-idle-seconds", "1") as server:
        for row in (
            "load_tensors:        CUDA0 model buffer size = 14336.00 MiB",
            "llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB",
            "sched_reserve:      CUDA0 compute buffer size =   300.50 MiB",
        ):
            assert row in server.stderr
        process = psutil.Process(server.process.pid)
        with server.dialog() as dialog:
            # At work it does not sleep.
            dialog.send("POST", CHAT, {**HI, "stream": True, "max_tokens": 3000, "ignore_eos": True})
            dialog.head()
            resident = process.memory_info().rss
        assert resident > 64 << 20
        wait_until(lambda: process.memory_info().rss < resident - (60 << 20), "sleep gives the memory back")
        assert server.get("/props")["is_sleeping"]


def test_pace_of_tokens_and_prompts(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(token_delay_s=0.05, prefill_s_per_token=0.02)
    with launched(stub_engine, tmp_path / "log", "-m", model.path) as server:
        timings = server.post("/completion", {"prompt": [300] * 10, "n_predict": 5}).json()["timings"]
        assert timings["prompt_ms"] >= 200
        assert timings["predicted_ms"] >= 200


def test_keep_alive_can_be_shortened(stub_engine: Engine, model: StubModel, tmp_path: Path) -> None:
    model.script(keep_alive_s=0.1, keep_alive_requests=2)
    with launched(stub_engine, tmp_path / "log", "-m", model.path) as server, server.dialog() as dialog:
        dialog.send("GET", "/health")
        assert dialog.reply().header("Connection") is None
        assert dialog.is_closed(within_s=4)


def test_events_can_be_switched_off(stub_engine: Engine, tmp_path: Path) -> None:
    plain = tmp_path / "plain.gguf"
    plain.write_bytes(
        write_stub_model(tmp_path / "m.gguf").path.read_bytes().replace(b"blazar_stub.model", b"somebody_el.model")
    )
    with launched(stub_engine, tmp_path / "log", "-m", plain):
        assert not StubModel(plain).events_path.exists()


def test_environment_variable_reaches_a_stub(stub_engine: Engine, model: StubModel) -> None:
    engine = stub_engine._replace(environ={"BLAZAR_STUB": json.dumps({"crash": {"exit_code": 12}})})
    assert engine.run("-m", model.path, "--port", "0").returncode == 12


@pytest.mark.parametrize("knobs", [{"laod_delay_s": 1}, {"crash": {"code": 1}}, {"requests": [{"txt": "x"}]}])
def test_unknown_knob_ends_the_process_with_the_known_ones(
    stub_engine: Engine, model: StubModel, knobs: dict[str, Any]
) -> None:
    model.script(**knobs)
    ended = stub_engine.run("-m", model.path, "--port", "0")
    assert ended.returncode == 64
    assert "no knob is called" in ended.stderr


# probes ----------------------------------------------------------------------------------------------------------


def test_help_with_underscores_has_as_many_flags_and_they_work(tmp_path: Path, model: StubModel) -> None:
    engine = stub_with(tmp_path / "engine", Variant.UNDERSCORE)
    flags = parse_help(engine.run("--help").stdout)
    assert (len(flags), sum(len(flag.spellings) for flag in flags)) == (248, 405)
    assert not [
        spelling for flag in flags for spelling in flag.spellings if "-" in spelling[2:] and spelling[:2] == "--"
    ]
    with launched(engine, tmp_path / "log", "-m", model.path, "--ctx_size", "512") as server:
        assert server.get("/slots")[0]["n_ctx"] == 512


def test_missing_flags_are_refused(tmp_path: Path, model: StubModel) -> None:
    engine = stub_with(tmp_path / "engine", help_without=["--kv-unified", "--sleep-idle-seconds"])
    text = engine.run("--help").stdout
    assert "-no-kvu" not in text
    assert len(parse_help(text)) == 246
    assert engine.run("-m", model.path, "-kvu").stderr == "error: invalid argument: -kvu\n"


@pytest.mark.parametrize(
    ("variant", "devices", "version"),
    [
        (Variant.B10434, ["  (none)"], "version: 0.1.0-dev (build 1, commit 7e4c0a9)"),
        (Variant.CLASSIC, [], "version: 9760 (6ee0f6579)"),
        (Variant.ONE_GPU, ["  CUDA0: NVIDIA GeForce RTX 4090 (24080 MiB, 23700 MiB free)"], "ggml_cuda_init: "),
        (Variant.SEVERAL_GPUS, ["  CUDA0", "  CUDA1", "  Vulkan0"], "ggml_cuda_init: "),
        (Variant.ZERO_MEMORY, ["  BLAS: Accelerate (0 MiB, 0 MiB free)", "  MTL0"], "version: 0.1.0-dev"),
    ],
)
def test_variants_of_builds(tmp_path: Path, variant: Variant, devices: list[str], version: str) -> None:
    engine = stub_with(tmp_path, variant)
    rows = engine.run("--list-devices").stdout.splitlines()
    assert rows[0] == "Available devices:"
    assert len(rows) == 1 + len(devices)
    assert all(row.startswith(start) for row, start in zip(rows[1:], devices, strict=True))
    assert engine.run("--version").stderr.startswith(version)


def test_probe_can_be_slow_and_fail(tmp_path: Path) -> None:
    engine = stub_with(tmp_path, probe_delay_s=0.3, probe_exit_code=4)
    started_s = time.monotonic()
    assert engine.run("--help").returncode == 4
    assert time.monotonic() - started_s >= 0.3


def test_model_without_m_becomes_a_router(stub_engine: Engine, tmp_path: Path) -> None:
    port = free_port()
    with launched(stub_engine, tmp_path / "log", "--port", str(port), ready=False):

        def role() -> Any:
            try:
                with Dialog(("127.0.0.1", port)) as dialog:
                    dialog.send("GET", "/props")
                    return dialog.reply().json().get("role")
            except ConnectionRefusedError:
                return None

        wait_until(role, "it serves")
        assert role() == "router"
