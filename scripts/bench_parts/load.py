"""Send requests for some seconds and count answers: with wrk where there is one, else with raw asyncio.

Both keep a fixed number of connections busy, one request at a time on each.
"""

import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

from typing_extensions import override

from bench_parts.pinning import pin_to
from bench_parts.workloads import Workload, numbered

_CLOSES = re.compile(rb"\r\nconnection:\s*close", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"
_UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True, slots=True)
class Figures:
    """What one load run measured.

    Attributes:
        per_s: Answers a second.
        p50_ms: Half the answers took at most this long.
        p99_ms: All but one in a hundred.
        failed: Answers with another status than 200, and broken connections.
    """

    per_s: float
    p50_ms: float
    p99_ms: float
    failed: int


def find_wrk() -> str | None:
    """Return wrk's path, or ``None`` (Debian: apt install wrk)."""
    return shutil.which("wrk")


def load_command(wrk: str | None, url: str, workload: Workload, *, clients: int, seconds: float) -> list[str]:
    """Return the command that loads ``url`` and whose output :func:`parse_figures` reads."""
    if wrk is None:
        return [sys.executable, "-m", "bench_parts.load", url + workload.path, str(clients), str(seconds)]
    script = Path(__file__).with_name("post.lua")
    options = ["-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", "--latency", "-s", str(script)]
    return [wrk, *options, url + workload.path]


def run_load(
    url: str, workload: Workload, *, clients: int, seconds: float, core: int, wrk: str | None, key: str = ""
) -> Figures:
    """Load ``url`` from a process on ``core`` and return what it measured.

    Raises:
        subprocess.CalledProcessError: The generator failed.
    """
    done = subprocess.run(
        load_command(wrk, url, workload, clients=clients, seconds=seconds),
        env={
            **os.environ,
            "BENCH_BODY": workload.body.decode(),
            "BENCH_KEY": key,
            "PYTHONPATH": str(Path(__file__).parent.parent),
        },
        preexec_fn=lambda: pin_to(core),
        stdout=subprocess.PIPE,
        text=True,
        timeout=seconds + 60,
        check=True,
    )
    return parse_wrk(done.stdout) if wrk else Figures(**json.loads(done.stdout))


def parse_wrk(text: str) -> Figures:
    """Read wrk's report.

    Raises:
        ValueError: It is not one.
    """
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    quantiles = dict(re.findall(r"^\s+(\d+)%\s+([\d.]+(?:us|ms|s))$", text, re.MULTILINE))
    if not rate or not {"50", "99"} <= set(quantiles):
        raise ValueError(f"not a report of wrk:\n{text}")
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    return Figures(
        per_s=float(rate[1]),
        p50_ms=_milliseconds(quantiles["50"]),
        p99_ms=_milliseconds(quantiles["99"]),
        failed=(int(bad[1]) if bad else 0) + (sum(map(int, errors.groups())) if errors else 0),
    )


def _milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]  # matched by the caller
    return float(number) * _UNITS_MS[unit]


class _Client(asyncio.Protocol):
    """One connection: sends the request, waits for the end of the answer, sends it again until the time is up."""

    def __init__(
        self, request: bytes, until: float, latencies_s: list[float], dial: Callable[["_Client"], Awaitable[object]]
    ) -> None:
        self._request = request
        self._dial = dial
        self._dialling: asyncio.Future[object] | None = None
        self._again = False
        self._until = until
        self._latencies_s = latencies_s
        self._transport: asyncio.WriteTransport | None = None
        self._received = b""
        self._sent_at = 0.0
        self.failed = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports fit by shape only.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        self._received = b""
        self._sent_at = perf_counter()
        self._transport.write(self._request)

    @override
    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._received += data
        if not is_whole(self._received):
            return
        now = perf_counter()
        self._latencies_s.append(now - self._sent_at)
        self.failed += not self._received.startswith(b"HTTP/1.1 200")
        if now >= self._until:
            self._transport.close()
        elif _CLOSES.search(self._received):
            # llama-server lets a connection make a hundred requests.
            self._received = b""
            self._again = True
            self._transport.close()
        else:
            self._send()

    def _dialled(self, dialling: "asyncio.Future[object]") -> None:
        if (dialling.cancelled() or dialling.exception() is not None) and not self.ended.done():
            self.failed += 1
            self.ended.set_result(None)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._again:
            self._again = False
            self._dialling = asyncio.ensure_future(self._dial(self))
            self._dialling.add_done_callback(self._dialled)
            return
        self.failed += perf_counter() < self._until
        if not self.ended.done():
            self.ended.set_result(None)


def _client_of(
    request: bytes, until: float, latencies_s: list[float], host: str, port: int
) -> Callable[[], Awaitable["_Client"]]:
    """Return what connects a client, which connects itself again whenever the server ends the connection."""

    async def dial(client: "_Client") -> None:
        await asyncio.get_running_loop().create_connection(lambda: client, host, port)

    async def connect() -> _Client:
        client = _Client(request, until, latencies_s, dial)
        await dial(client)
        return client

    return connect


def is_whole(answer: bytes) -> bool:
    """Return whether these bytes are one whole answer, headers and body."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    length = re.search(rb"\r\ncontent-length:\s*(\d+)", head, re.IGNORECASE)
    if length:
        return len(body) >= int(length[1])
    # Of the body, and as a chunk of its own: a header may end in a nought too. JSON and events hold no carriage return.
    return body == _LAST_CHUNK or body.endswith(b"\r\n" + _LAST_CHUNK)


async def generate(url: str, body: bytes, *, clients: int, seconds: float, key: str = "") -> Figures:
    """Keep ``clients`` connections busy for ``seconds`` and return what came of it; ``key`` is sent if there is one."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{authorization}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    # Not the loop's own clock: uvloop's stands still for a millisecond at a time.
    latencies_s: list[float] = []
    started = perf_counter()
    requests = [head.encode() + numbered(body, number) for number in range(clients)]
    connected = [await _client_of(request, started + seconds, latencies_s, host, port)() for request in requests]
    await asyncio.gather(*(client.ended for client in connected))
    elapsed_s = perf_counter() - started
    if len(latencies_s) < 2:
        raise ConnectionError(f"{url} answered {len(latencies_s)} requests in {seconds} s")
    cuts = statistics.quantiles(latencies_s, n=100)
    failed = sum(client.failed for client in connected)
    return Figures(len(latencies_s) / elapsed_s, cuts[49] * 1000, cuts[98] * 1000, failed)


if __name__ == "__main__":
    import uvloop  # only the program needs it

    loading = generate(
        sys.argv[1],
        os.environ["BENCH_BODY"].encode(),
        clients=int(sys.argv[2]),
        seconds=float(sys.argv[3]),
        key=os.environ.get("BENCH_KEY", ""),
    )
    measured = uvloop.run(loading)
    print(json.dumps(asdict(measured)))
