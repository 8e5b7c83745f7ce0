"""The bench: its stand-in engine, its two sources of load, its verdict on a figure, and a whole short run."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench_parts.load import Figures, generate, is_whole, parse_wrk
from bench_parts.measure import FEW, MANY, Series
from bench_parts.report import is_void
from bench_parts.servers import Gateway, free_port, running, wait_until_up
from bench_parts.translated import TRANSLATED
from bench_parts.upstream import Answers
from bench_parts.workloads import WORKLOADS, Workload, numbered
from e2e.repository import ROOT, run, run_ok

UPSTREAM = ROOT / "scripts/bench_parts/upstream.py"
needs_two_cores = pytest.mark.skipif(
    sys.platform != "linux" or (psutil.cpu_count() or 1) < 2, reason="the bench pins two cores; this machine cannot"
)

WRK_REPORT = """\
Running 3s test @ http://127.0.0.1:18101/tokenize
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.10ms  300.00us   9.00ms   90.00%
  Latency Distribution
     50%  950.00us
     75%    2.21ms
     90%    3.00ms
     99%    1.25s
  24046 requests in 3.10s, 3.46MB read
  Socket errors: connect 0, read 3, write 0, timeout 1
  Non-2xx or 3xx responses: 5
Requests/sec:   7756.43
Transfer/sec:      1.12MB
"""


def test_a_report_of_wrk_is_read_in_milliseconds_with_its_failures() -> None:
    figures = parse_wrk(WRK_REPORT)
    assert (figures.per_s, figures.p99_ms, figures.failed) == (7756.43, 1250.0, 9)
    assert figures.p50_ms == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", False, id="a byte is missing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", True, id="all of it"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-queue-ms: 0\r\n\r\n", False, id="a header that ends in nought"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n1\r\na\r\n0\r\n\r\n", True, id="the last chunk"),
    ],
)
def test_the_end_of_an_answer_is_not_mistaken(answer: bytes, whole: bool) -> None:
    assert is_whole(answer) is whole


def test_what_is_not_a_report_of_wrk_is_refused() -> None:
    with pytest.raises(ValueError, match="not a report of wrk"):
        parse_wrk("unable to connect")


def test_a_stream_has_as_many_tokens_as_asked_and_usage_only_when_asked() -> None:
    answers = Answers(alias="m", ctx_tokens=4096, slots=4)
    body = b'{"stream":true,"max_tokens":5}'
    plain = answers.to(b"/v1/chat/completions", body)
    assert plain.count(b'"content":"word') == 5
    assert b"usage" not in plain
    assert plain.endswith(b"0\r\n\r\n")
    asked = answers.to(b"/v1/chat/completions", body[:-1] + b',"stream_options":{"include_usage":true}}')
    assert b'"choices":[],' in asked
    assert b'"completion_tokens":5' in asked


def test_an_unknown_path_is_a_404() -> None:
    assert Answers(alias="m", ctx_tokens=4096, slots=4).to(b"/nothing", b"").startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    ("flag", "stream", "said"),
    [
        pytest.param("--version", "stderr", "version: 10434 (7e4c0a9)", id="version"),
        pytest.param("--help", "stdout", "--ctx-size", id="help"),
        pytest.param("--list-devices", "stdout", "Available devices:", id="devices"),
    ],
)
def test_the_upstream_answers_what_an_engine_is_asked(flag: str, stream: str, said: str) -> None:
    done = run(sys.executable, UPSTREAM, flag, PYTHONPATH=str(ROOT / "scripts"))
    assert done.returncode == 0
    assert said in getattr(done, stream)


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[str]:
    port, log = free_port(), tmp_path / "upstream.log"
    command = [sys.executable, str(UPSTREAM), "--port", str(port), "--alias", "m"]
    with running(command, core=None, log=log, env={"PYTHONPATH": str(ROOT / "scripts")}) as process:
        wait_until_up(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
async def test_the_generator_counts_whole_answers(upstream: str, workload: Workload) -> None:
    figures = await generate(upstream + workload.path, workload.body, clients=3, seconds=0.2)
    assert figures.failed == 0
    assert figures.per_s > 0
    assert 0 < figures.p50_ms <= figures.p99_ms


def test_every_client_asks_something_of_its_own() -> None:
    """Else identical chats would wait for each other, and the engine would be asked once for all."""
    for workload in (*WORKLOADS[1:], *TRANSLATED):
        bodies = {numbered(workload.body, number) for number in range(16)}
        assert len(bodies) == 16
        assert len({len(body) for body in bodies}) == 1


async def test_the_generator_goes_on_when_the_server_ends_a_connection() -> None:
    served = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        for left in (1, 0):
            await reader.readuntil(b"\r\n\r\n{}")
            served += 1
            head = b"Connection: close\r\n" if not left else b""
            writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
        figures = await generate(url, b"{}", clients=2, seconds=0.5, key="k")
    assert served > 4
    assert figures.failed == 0


async def test_the_generator_counts_other_statuses_as_failures(upstream: str) -> None:
    figures = await generate(f"{upstream}/nothing", b"{}", clients=1, seconds=0.1)
    assert figures.failed > 0


def series_of(*, failed: int = 0, share: float = 1.0) -> Series:
    return Series([Figures(per_s=100.0, p50_ms=1.0, p99_ms=2.0, failed=failed)], [share])


@pytest.mark.parametrize(
    ("ours", "bare", "why"),
    [
        pytest.param(series_of(), series_of(), None, id="both busy"),
        pytest.param(series_of(share=0.5), series_of(), "blazar used 50% of its core", id="ours idled"),
        pytest.param(series_of(), series_of(share=0.89), "pass-through used 89% of its core", id="the reference idled"),
        pytest.param(series_of(failed=1), series_of(), "blazar failed 2 requests", id="failures"),
    ],
)
def test_a_figure_is_void_unless_both_were_busy_and_nothing_failed(ours: Series, bare: Series, why: str | None) -> None:
    gateways = [Gateway(name, "", psutil.Process(), 0) for name in ("blazar", "pass-through")]
    found = {
        ("calls", name, clients): series
        for name, series in (("blazar", ours), ("pass-through", bare))
        for clients in (FEW, MANY)
    }
    assert is_void(found, "calls", gateways) == why


@needs_two_cores
@pytest.mark.timeout(300)
def test_a_short_run_measures_both_gateways() -> None:
    options = ("--json", "--rounds", "1", "--seconds", "0.3", "--generator", "asyncio", "--no-router")
    result = json.loads(run_ok(sys.executable, ROOT / "scripts/bench", *options))
    assert set(result["workloads"]) == {workload.name for workload in WORKLOADS}
    for sides in result["workloads"].values():
        assert sides["ratio"] > 0
        for gateway in ("blazar", "pass-through"):
            assert sides[gateway]["clients_16"]["failed"] == 0
    assert set(result["translated"]) == {workload.name for workload in TRANSLATED}
    for figures in result["translated"].values():
        assert figures["ratio"] > 0
        assert figures["failed"] == 0
    assert result["guarded"], "keys and quotas are on unless they are switched off"
    assert result["memory_mib"]["blazar"]["idle"] > 0
    assert set(result["startup_ms"]) == {"blazar version", "blazar --help"}
