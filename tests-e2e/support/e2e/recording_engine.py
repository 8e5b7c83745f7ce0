"""A real engine behind a proxy that writes down every byte the engine answers.

What the engine sent can then be compared with what the client got. :func:`install_recording_engine` writes a
launcher that passes for the engine: probes go straight through, and a server runs on another port while the proxy
listens on the one that was asked for.
"""

import asyncio
import http.client
import io
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

from e2e.http import Answer

_PROBES = {"--version", "--help", "--list-devices"}


def install_recording_engine(folder: Path, engine: Path) -> tuple[Path, Path]:
    """Write the launcher into ``folder``; return its path and the folder that recordings go to."""
    records = folder / "records"
    records.mkdir(parents=True)
    launcher = folder / "llama-server"
    support = Path(__file__).resolve().parents[1]
    launcher.write_text(
        f'#!/bin/sh\nPYTHONPATH="{support}" exec "{sys.executable}" -m e2e.recording_engine '
        f'"{engine}" "{records}" "$@"\n',
        encoding="utf-8",
    )
    launcher.chmod(0o755)
    return launcher, records


def recorded_answers(records: Path) -> list[Answer]:
    """Return every whole answer that the engine gave, oldest connection first."""
    answers: list[Answer] = []
    for file in sorted(records.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        stream = _KeptOpen(file.read_bytes())
        while stream.tell() < len(stream.getvalue()):
            response = http.client.HTTPResponse(cast("socket.socket", _Source(stream)))
            with suppress(http.client.HTTPException):
                response.begin()
                headers = tuple((name.lower(), value) for name, value in response.getheaders())
                answers.append(Answer(response.status, headers, response.read()))
                continue
            break
    return answers


class _KeptOpen(io.BytesIO):
    """A response closes its file when it is read; the next answer on the connection follows in the same one."""

    def close(self) -> None:
        """Stay open."""


class _Source:
    """What a response reads from."""

    def __init__(self, stream: io.BytesIO) -> None:
        self._stream = stream

    def makefile(self, _mode: str) -> io.BytesIO:
        """Return the one stream there is."""
        return self._stream


class _Proxy:
    def __init__(self, port: int, records: Path) -> None:
        self._port = port
        self._records = records
        self._connections = 0

    async def serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Relay one connection, writing down what comes back."""
        self._connections += 1
        record = self._records / f"{os.getpid()}-{self._connections:04}.bin"
        try:
            engine, forth = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            back.close()  # not listening yet: the caller is to see that too
            return
        with record.open("wb", buffering=0) as file:
            await asyncio.gather(_pump(client, forth, None), _pump(engine, back, file))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, record: io.RawIOBase | None) -> None:
    with suppress(ConnectionError):
        while data := await source.read(1 << 16):
            if record is not None:
                record.write(data)
            sink.write(data)
            await sink.drain()
    sink.close()


async def _serve(engine: str, records: Path, arguments: list[str]) -> int:
    at = arguments.index("--port") + 1
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        hidden: int = probe.getsockname()[1]
    asked, arguments[at] = int(arguments[at]), str(hidden)
    server = await asyncio.start_server(_Proxy(hidden, records).serve, "127.0.0.1", asked)
    process = await asyncio.create_subprocess_exec(engine, *arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, process.send_signal, number)
    status = await process.wait()
    server.close()
    return status


def main() -> int:
    engine, records, *arguments = sys.argv[1:]
    if _PROBES & set(arguments):
        os.execv(engine, [engine, *arguments])
    return asyncio.run(_serve(engine, Path(records), arguments))


if __name__ == "__main__":
    sys.exit(main())
