"""Start a server, stub or real, and speak plain HTTP/1.1 to it; for tests that look at single bytes.

Everything is synchronous, waits for facts and fails after a deadline that a loaded machine keeps.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

DEADLINE_S = 60.0

Address = tuple[str, int] | str
"""Host and port, or the path of a UNIX socket."""


def wait_until(condition: Callable[[], Any], what: str, *, deadline_s: float = DEADLINE_S) -> None:
    """Wait until `condition` is true.

    Raises:
        TimeoutError: It was not in time.
    """
    due_s = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > due_s:
            raise TimeoutError(f"{what}: not within {deadline_s} s")
        time.sleep(0.01)


class Reply(NamedTuple):
    """An answer, with its headers in order and its body in the pieces it came in."""

    status: int
    headers: list[tuple[str, str]]
    pieces: list[bytes]

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces)

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def frames(self) -> list[str]:
        """The events of an event stream, without the blank lines between them."""
        return [frame for frame in self.body.decode().split("\n\n") if frame]

    @property
    def data(self) -> list[Any]:
        """What the events carry: decoded JSON, or the text ``[DONE]``; comments are left out."""
        rows = [line[6:] for frame in self.frames for line in frame.split("\n") if line.startswith("data: ")]
        return [row if row == "[DONE]" else json.loads(row) for row in rows]


class Incomplete(Exception):
    """The connection ended before the answer did.

    Attributes:
        received: What came before.
    """

    def __init__(self, received: bytes) -> None:
        super().__init__(f"connection ended after {len(received)} bytes")
        self.received = received


class Dialog:
    """One connection."""

    def __init__(self, address: Address, *, timeout_s: float = DEADLINE_S) -> None:
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout_s)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, timeout=timeout_s)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close by FIN."""
        self.socket.close()

    def reset(self) -> None:
        """Close by RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.socket.close()

    def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, raw: bytes = b""
    ) -> None:
        """Send a request; `body` is encoded as JSON, `raw` goes as it is."""
        payload = raw if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: engine"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if payload or method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(payload)}"]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + payload)

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise Incomplete(self._buffer)
        self._buffer += data

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def head(self) -> Reply:
        """Read a status line and headers; the reply has no body yet."""
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        pairs = [line.partition(":") for line in lines[1:]]
        return Reply(int(lines[0].split()[1]), [(name, value.strip()) for name, _, value in pairs], [])

    def chunk(self) -> bytes:
        """Read one piece of a chunked body; empty at the end."""
        size = int(self._until(b"\r\n"), 16)
        return self._exactly(size + 2)[:-2]

    def chunks(self) -> Iterator[bytes]:
        """Read pieces to the end."""
        while piece := self.chunk():
            yield piece

    def reply(self) -> Reply:
        """Read a whole answer."""
        reply = self.head()
        if (reply.header("Transfer-Encoding") or "") == "chunked":
            reply.pieces.extend(self.chunks())
        else:
            reply.pieces.append(self._exactly(int(reply.header("Content-Length") or 0)))
        return reply

    def is_closed(self, *, within_s: float) -> bool:
        """Whether the other side closes within that time."""
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


class Engine(NamedTuple):
    """A binary to start.

    Attributes:
        kind: ``stub`` or ``real``.
        executable: The program.
        environ: Variables to add.
        argv: Arguments before all others.
    """

    kind: str
    executable: Path
    environ: Mapping[str, str]
    argv: tuple[str, ...] = ()

    def run(self, *argv: object, timeout_s: float = DEADLINE_S) -> subprocess.CompletedProcess[str]:
        """Run to the end, as for probes and failing starts."""
        command = [str(self.executable), *self.argv, *map(str, argv)]
        environ = {**os.environ, **self.environ}
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environ, check=False)


class Launched:
    """A running server."""

    def __init__(self, engine: Engine, argv: Sequence[object], log: Path) -> None:
        self.engine = engine
        self.log = log
        command = [str(engine.executable), *engine.argv, *map(str, argv)]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=stderr, env={**os.environ, **engine.environ}
            )

    @property
    def stderr(self) -> str:
        """What it has said so far."""
        return self.log.read_text("utf-8", "replace")

    @property
    def address(self) -> Address:
        """Where it listens, as it says."""
        line = next(line for line in self.stderr.splitlines() if "listening on " in line)
        where = line.rpartition("listening on ")[2].strip()
        if where.startswith("unix://"):
            return where.removeprefix("unix://")
        host, _, port = where.removeprefix("http://").rpartition(":")
        return (host, int(port))

    def until_ready(self) -> Self:
        """Wait until it says that it listens with the model loaded.

        Raises:
            AssertionError: It ended instead.
        """
        wait_until(lambda: "listening on " in self.stderr or self.process.poll() is not None, "server is ready")
        assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.stderr[-2000:]}"
        return self

    def dialog(self) -> Dialog:
        """A new connection."""
        return Dialog(self.address)

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, raw: bytes = b""
    ) -> Reply:
        """One request on a connection of its own."""
        with self.dialog() as dialog:
            dialog.send(method, path, body, headers, raw=raw)
            return dialog.reply()

    def get(self, path: str) -> Any:
        """GET and decode."""
        return self.request("GET", path).json()

    def post(self, path: str, body: Any) -> Reply:
        """POST JSON."""
        return self.request("POST", path, body)

    def metrics(self) -> dict[str, float]:
        """The counters, by name."""
        rows = self.request("GET", "/metrics").body.decode().splitlines()
        return {name: float(value) for name, value in (row.split() for row in rows if not row.startswith("#"))}

    @property
    def busy(self) -> list[int]:
        """The numbers of the slots at work."""
        return [slot["id"] for slot in self.get("/slots") if slot["is_processing"]]

    def exit_code(self, *, deadline_s: float = DEADLINE_S) -> int:
        """Wait for the end; negative for a signal."""
        return self.process.wait(deadline_s)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it whatever it does, and reap it."""
        self.process.kill()
        self.process.wait()


@contextmanager
def launched(engine: Engine, log: Path, *argv: object, ready: bool = True) -> Iterator[Launched]:
    """Start a server and kill it in the end; without an address it gets an ephemeral port."""
    addressed = any(word in {"--port", "--host"} for word in argv)
    server = Launched(engine, [*argv] if addressed else [*argv, "--port", "0"], log)
    try:
        yield server.until_ready() if ready else server
    finally:
        server.kill()


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
