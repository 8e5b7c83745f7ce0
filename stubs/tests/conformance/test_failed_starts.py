"""llamacpp.md, section 1.3: each way a start fails, with its exit code and the text that tells it apart."""

import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from blazar_stubs import StubModel, write_stub_model
from blazar_stubs.testing import Engine, free_port, launched


class Start(NamedTuple):
    """A start that fails: what to pass, and what is said."""

    argv: list[str | Path]
    telltale: str
    code: int = 1
    is_model_failure: bool = True


def missing(home: Path, tiny: StubModel) -> Start:
    path = home / "missing.gguf"
    text = f"gguf_init_from_file: failed to open GGUF file '{path}' (No such file or directory)"
    return Start(["-m", path], text)


def not_a_gguf(home: Path, tiny: StubModel) -> Start:
    path = home / "text.gguf"
    path.write_text("hello world, this is no model")
    return Start(["-m", path], "gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'")


def empty(home: Path, tiny: StubModel) -> Start:
    path = home / "empty.gguf"
    path.touch()
    return Start(["-m", path], "gguf_init_from_reader: failed to read magic")


def header_cut_short(home: Path, tiny: StubModel) -> Start:
    path = home / "cut.gguf"
    path.write_bytes(tiny.path.read_bytes()[:300])
    return Start(["-m", path], "gguf_init_from_reader: failed to read key-value pairs")


def data_cut_short(home: Path, tiny: StubModel) -> Start:
    path = home / "short.gguf"
    path.write_bytes(tiny.path.read_bytes()[:-60_000])
    text = "data is not within the file bounds, model is corrupted or incomplete"
    return Start(["-m", path], text)


def unknown_architecture(home: Path, tiny: StubModel) -> Start:
    path = write_stub_model(home / "arch.gguf", architecture="zzama").path
    return Start(["-m", path], "error loading model: unknown model architecture: 'zzama'")


def quantised_v_without_flash_attention(home: Path, tiny: StubModel) -> Start:
    argv: list[str | Path] = ["-m", tiny.path, "-c", "256", "-ctv", "q8_0", "-fa", "off"]
    return Start(argv, "quantized V cache requires flash_attn to be enabled")


def unknown_flag(home: Path, tiny: StubModel) -> Start:
    return Start(["-m", tiny.path, "--nope"], "error: invalid argument: --nope", is_model_failure=False)


def flag_with_equals_sign(home: Path, tiny: StubModel) -> Start:
    return Start(["-m", tiny.path, "--ctx-size=5"], "error: invalid argument: --ctx-size=5", is_model_failure=False)


def bad_value(home: Path, tiny: StubModel) -> Start:
    text = 'error while handling argument "-c": stoi\n\nusage:\n-c,    --ctx-size N '
    return Start(["-m", tiny.path, "-c", "many"], text, is_model_failure=False)


def missing_value(home: Path, tiny: StubModel) -> Start:
    text = 'error while handling argument "-fa": expected value for argument\n\nusage:\n-fa,   --flash-attn '
    return Start(["-m", tiny.path, "-fa"], text, is_model_failure=False)


def removed_flag(home: Path, tiny: StubModel) -> Start:
    text = (
        'error while handling argument "--draft": the argument has been removed. '
        "use --spec-draft-n-max or --spec-ngram-mod-n-max\n\nusage:\n--draft, --draft-n, --draft-max N "
    )
    return Start(["-m", tiny.path, "--draft", "3"], text, is_model_failure=False)


def no_slots(home: Path, tiny: StubModel) -> Start:
    text = 'error while handling argument "-np": error: invalid value for n_parallel\n\n\nusage:'
    return Start(["-m", tiny.path, "-np", "0"], text, is_model_failure=False)


def sleep_at_once(home: Path, tiny: StubModel) -> Start:
    text = 'error while handling argument "--sleep-idle-seconds": invalid value: cannot be 0 or less than -1\n\nusage:'
    return Start(["-m", tiny.path, "--sleep-idle-seconds", "0"], text, is_model_failure=False)


def bank_directory_missing(home: Path, tiny: StubModel) -> Start:
    path = home / "nowhere"
    text = f'error while handling argument "--slot-save-path": not a directory: {path}\n\nusage:'
    return Start(["-m", tiny.path, "--slot-save-path", path], text, is_model_failure=False)


def key_file_missing(home: Path, tiny: StubModel) -> Start:
    path = home / "nokeys"
    text = f"error while handling argument \"--api-key-file\": error: failed to open file '{path}'\n\n\nusage:"
    return Start(["-m", tiny.path, "--api-key-file", path], text, is_model_failure=False)


def batch_of_nothing(home: Path, tiny: StubModel) -> Start:
    argv: list[str | Path] = ["-m", tiny.path, "-c", "256", "-b", "0"]
    return Start(argv, "GGML_ASSERT(", code=-signal.SIGABRT, is_model_failure=False)


STARTS = [
    missing,
    not_a_gguf,
    empty,
    header_cut_short,
    data_cut_short,
    unknown_architecture,
    unknown_flag,
    flag_with_equals_sign,
    bad_value,
    missing_value,
    removed_flag,
    no_slots,
    sleep_at_once,
    bank_directory_missing,
    key_file_missing,
    batch_of_nothing,
]


def run_until_told(engine: Engine, told: list[str], *argv: object) -> subprocess.CompletedProcess[str]:
    """Run; again if a text is missing, as the real engine's log thread loses its last lines on a busy machine."""
    ended = engine.run(*argv)
    for _ in range(0 if engine.kind == "stub" else 5):
        if all(text in ended.stderr for text in told):
            break
        ended = engine.run(*argv)
    return ended


@pytest.mark.parametrize("case", STARTS, ids=lambda case: case.__name__.replace("_", "-"))
def test_start_fails_with_its_code_and_text(
    engine: Engine, home: Path, tiny: StubModel, case: Callable[[Path, StubModel], Start]
) -> None:
    start = case(home, tiny)
    told = [start.telltale, *(["load_model: failed to "] if start.is_model_failure else [])]
    ended = run_until_told(engine, told, "--port", free_port(), *start.argv)

    assert ended.returncode == start.code
    assert start.telltale in ended.stderr
    assert ended.stdout == ""
    assert ("load_model: failed to " in ended.stderr) is start.is_model_failure


@pytest.mark.usefixtures("b10434")
def test_quantised_v_cache_needs_flash_attention(engine: Engine, home: Path, tiny: StubModel) -> None:
    # An older build dies by SIGSEGV of it.
    test_start_fails_with_its_code_and_text(engine, home, tiny, quantised_v_without_flash_attention)


def test_model_errors_are_said_twice_unless_fitting_is_off(engine: Engine, home: Path) -> None:
    path = home / "text.gguf"
    path.write_text("hello world, this is no model")
    port = str(free_port())

    fitted = run_until_told(engine, ["failed to load model, '"], "-m", path, "--port", port)
    plain = run_until_told(engine, ["failed to load model, '"], "-m", path, "--port", port, "--fit", "off")

    assert fitted.stderr.count("invalid magic characters") == 2
    assert plain.stderr.count("invalid magic characters") == 1


def test_taken_port_is_refused_before_the_model_is_read(engine: Engine, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = "exiting due to HTTP server error"
        ended = run_until_told(engine, [told], "-m", home / "missing.gguf", "--port", str(port))

    assert ended.returncode == 1
    assert f"couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {port}" in ended.stderr
    assert told in ended.stderr
    assert "missing.gguf" not in ended.stderr


@pytest.mark.parametrize("suffix", [".sock", ".socket"])
def test_socket_path_that_exists_or_has_another_suffix_cannot_be_bound(
    engine: Engine, home: Path, tiny: StubModel, suffix: str
) -> None:
    path = home / f"{engine.kind}{suffix}"
    if suffix == ".sock":
        path.touch()

    told = f"couldn't bind HTTP server socket, hostname: {path}, port: 8080"
    ended = run_until_told(engine, [told], "-m", tiny.path, "--host", path)

    assert ended.returncode == 1
    assert told in ended.stderr


def test_failed_second_start_leaves_the_first_alone(engine: Engine, home: Path, tiny: StubModel) -> None:
    path = home / f"{engine.kind}-two.sock"
    with launched(engine, home / f"{engine.kind}-two.log", "-m", tiny.path, "-c", "256", "--host", path) as first:
        assert engine.run("-m", tiny.path, "--host", path).returncode == 1
        assert first.get("/health") == {"status": "ok"}


def test_flags_are_taken_with_underscores(engine: Engine, home: Path, tiny: StubModel) -> None:
    log = home / f"{engine.kind}-underscores.log"
    with launched(engine, log, "-m", tiny.path, "--ctx_size", "512", "--flash_attn", "on", "--parallel", "2") as server:
        assert [slot["n_ctx"] for slot in server.get("/slots")] == [256] * 2
