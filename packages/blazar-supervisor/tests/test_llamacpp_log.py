"""What llama-server prints, read."""

import pytest

from blazar_supervisor.engines.failure import Cause
from blazar_supervisor.engines.figures import MemoryFigures
from blazar_supervisor.engines.llamacpp.failures import classify_failure, telling_lines
from blazar_supervisor.engines.llamacpp.loglines import LlamaLog, split_prefix

MIB = 1 << 20
LOAD = """\
0.00.007.310 I srv    load_model: loading model '/m.gguf'
0.00.107.310 I load_tensors:   CPU_Mapped model buffer size =   235.16 MiB
0.00.207.310 I load_tensors:        CUDA0 model buffer size =   100.00 MiB
0.00.307.310 I llama_kv_cache:        CPU KV buffer size =    12.00 MiB
0.00.307.311 I llama_kv_cache:        CPU KV buffer size =    30.00 MiB
0.00.307.312 I llama_kv_cache: size =   12.00 MiB (  4096 cells,   3 layers,  4/1 seqs), K (f16):    6.00 MiB, V (f16):    6.00 MiB
0.00.407.310 I llama_context:        CPU  output buffer size =     4.00 MiB
0.00.507.310 I sched_reserve:        CPU compute buffer size =    24.00 MiB
0.00.507.311 I sched_reserve:        CPU compute buffer size =    20.00 MiB
0.00.607.310 I srv  llama_server: model loaded
0.00.607.311 I srv  llama_server: listening on http://127.0.0.1:19100
"""


def read(text: str) -> LlamaLog:
    log = LlamaLog()
    for line in text.splitlines():
        log.line(line)
    return log


def test_buffers_are_summed_by_device_and_the_largest_compute_buffer_stands() -> None:
    host = round((235.16 + 12 + 30 + 4 + 24) * MIB)
    assert read(LOAD).figures() == MemoryFigures(host, 100 * MIB, round(235.16 * MIB))


def test_a_second_load_counts_anew() -> None:
    assert read(LOAD + LOAD).figures() == read(LOAD).figures()
    assert read(LOAD + LOAD).loads == 2


def test_the_pass_that_fits_parameters_counts_for_nothing() -> None:
    first, *rest = LOAD.splitlines(keepends=True)
    fitted = first + "".join(rest[:4]) + "I common_fit_params: fitting params to free memory took 0.4 seconds\n"
    assert read(fitted + "".join(rest)).figures() == read(LOAD).figures()


@pytest.mark.parametrize("wording", ["listening on http://127.0.0.1:1", "server is listening on http://127.0.0.1:1"])
def test_both_wordings_of_listening_are_understood(wording: str) -> None:
    assert read(f"0.00.000.001 I srv  llama_server: {wording}").listening == "http://127.0.0.1:1"


def test_sleep_and_wake_are_followed() -> None:
    log = read(LOAD)
    log.line("1.00.000.000 I que    start_loop: entering sleeping state")
    assert log.sleeping
    assert log.figures().total_bytes == 0
    log.line("2.00.000.000 I srv  handle_sleep: server is exiting sleeping state")
    assert (log.sleeping, log.wake_failed) == (False, True)
    for line in LOAD.splitlines():
        log.line(line)
    assert (log.sleeping, log.wake_failed) == (False, False)


def test_progress_dots_are_counted_while_their_line_is_unfinished() -> None:
    log = read("0.00.007.310 I srv    load_model: loading model '/m.gguf'")
    assert log.fraction() is None
    log.partial("." * 40)
    assert log.fraction() == pytest.approx(0.4)
    log.partial("..x")
    assert log.fraction() == pytest.approx(0.4)


def test_a_prefix_is_split_and_a_bare_line_kept() -> None:
    assert split_prefix("12.59.999.001 W srv  stop: cancel") == ("W", "srv  stop: cancel")
    assert split_prefix("AMX is not ready to be used!") == ("", "AMX is not ready to be used!")


@pytest.mark.parametrize(
    ("text", "returncode", "cause", "says"),
    [
        pytest.param(
            "0.00.018.288 E gguf_init_from_file: failed to open GGUF file '/n.gguf' (No such file or directory)",
            1, Cause.FILE_MISSING, "the file is gone: /n.gguf", id="missing",
        ),
        pytest.param(
            "E gguf_init_from_file: failed to open GGUF file '/n.gguf' (Permission denied)",
            1, Cause.FILE_UNREADABLE, "cannot be opened (Permission denied)", id="permission",
        ),
        pytest.param(
            "E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'",
            1, Cause.FILE_UNREADABLE, "starts with 'hell'", id="not-gguf",
        ),
        pytest.param(
            "E gguf_init_from_reader: failed to read magic", 1, Cause.FILE_UNREADABLE, "empty", id="empty"
        ),
        pytest.param(
            "E gguf_init_from_reader: failed to read key-value pairs",
            1, Cause.FILE_UNREADABLE, "header is cut short", id="header-cut",
        ),
        pytest.param(
            "E x: tensor 'token_embd.weight' data is not within the file bounds, model is corrupted or incomplete",
            1, Cause.FILE_UNREADABLE, "tensor 'token_embd.weight' lies beyond its end", id="data-cut",
        ),
        pytest.param(
            "E error loading model: unknown model architecture: 'nova'",
            1, Cause.UNKNOWN_ARCHITECTURE, "'nova'", id="architecture",
        ),
        pytest.param(
            "E gguf_init: tensor 'a' has invalid ggml type 99. should be in [0, 42)",
            1, Cause.UNKNOWN_ARCHITECTURE, "tensor type 99", id="tensor-type",
        ),
        pytest.param(
            "E llama_init: quantized V cache requires flash_attn to be enabled",
            1, Cause.ARGUMENT, "flash attention", id="v-cache",
        ),
        pytest.param(
            "E start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 1",
            1, Cause.BIND, "taken by another program", id="bind",
        ),
        pytest.param("error: invalid argument: --nope", 1, Cause.ARGUMENT, "argument --nope", id="unknown-flag"),
        pytest.param(
            'error while handling argument "-c": stoi', 1, Cause.ARGUMENT, "argument -c: stoi", id="bad-value"
        ),
        pytest.param(
            'error while handling argument "--draft": the argument has been removed. use --spec-draft-n-max',
            1, Cause.ARGUMENT, "has been removed", id="removed-flag",
        ),
        pytest.param("GGML_ASSERT(n_outputs >= 1) failed", -6, Cause.ABORTED, "GGML_ASSERT(n_outputs", id="assert"),
        pytest.param(
            "E ggml_cuda: cudaMalloc failed: out of memory", 1, Cause.OUT_OF_MEMORY, "out of memory", id="gpu-memory"
        ),
        pytest.param(
            "llama-server: error while loading shared libraries: libgomp.so.1: cannot open shared object file",
            127, Cause.LIBRARY, "libgomp.so.1", id="library",
        ),
        pytest.param("AMX is not ready to be used!", -4, Cause.PROCESSOR, "this machine lacks", id="illegal-instruction"),
        pytest.param("", -9, Cause.KILLED, "memory ran out", id="killed"),
        pytest.param("", -11, Cause.ABORTED, "segmentation fault", id="segfault"),
        pytest.param("", -7, Cause.FILE_UNREADABLE, "bus error", id="bus-error"),
        pytest.param("E something new", 1, Cause.OTHER, "exit status 1", id="unknown"),
    ],
)  # fmt: skip
def test_a_failed_start_is_told_by_its_text(text: str, returncode: int, cause: Cause, says: str) -> None:
    failure = classify_failure([text], returncode)
    assert failure.cause is cause
    assert says in failure.reason
    assert failure.advice


def test_a_missing_library_names_its_package() -> None:
    line = "error while loading shared libraries: libgomp.so.1: cannot open shared object file"
    assert "libgomp1" in classify_failure([line], 127).advice


def test_after_a_sleep_only_the_new_load_is_read() -> None:
    before = ["E x: unknown model architecture: 'old'", "I que: entering sleeping state"]
    assert classify_failure(
        [*before, "E gguf: failed to open GGUF file '/m' (No such file or directory)"], -6
    ).cause is (Cause.FILE_MISSING)


def test_what_is_quoted_are_the_last_complaints_once_and_without_time_stamps() -> None:
    lines = [f"0.00.000.{number:03} I fine" for number in range(30)]
    lines += ["0.00.001.000 E failed to load model", "0.00.001.001 E failed to load model", "a bare line", "...."]
    assert telling_lines(lines) == ("failed to load model", "a bare line")
    assert telling_lines(["0.00.000.000 I only this"]) == ("only this",)
