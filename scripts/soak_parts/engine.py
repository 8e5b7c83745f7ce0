"""An engine for the soak: fast, misbehaving on request, and exact about every token that it sent.

The first words of a prompt say what becomes of it: ``ok 7`` answers with seven tokens, ``hold 3`` sends three and then
nothing until its client leaves, ``break 2`` sends two and an error frame, ``fail`` answers 500. Every token's frame
has the same length. ``GET /totals`` says what was sent; that is what the daemon's own accounts are compared with.

Run as a program: ``python engine.py --tell DIRECTORY LLAMA-SERVER-ARGUMENTS``; its port is written into the directory.
"""

import asyncio
import json
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from typing_extensions import override

from bench_parts.engine_help import engine_help
from bench_parts.upstream import DEVICES, VERSION, value_of

PROMPT_TOKENS = 11
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_ORDER = re.compile(rb"(ok|hold|break|fail) (\d+)")
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_HEAD = {"created": 1, "id": "chatcmpl-1", "model": "m", "system_fingerprint": "b10434-7e4c0a9"}


@dataclass
class Totals:
    """What was sent since the start.

    Attributes:
        prompt_tokens: As reported in usage; of answers that broke off nobody reports any.
        completion_tokens: One for each frame with text.
        requests: Generations and embeddings that came.
        failed: The part of them that was answered with an error, or broken off.
        left: The part of them whose client went away.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    requests: int = 0
    failed: int = 0
    left: int = 0


def _plain(body: bytes, *, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _chunk(value: object) -> bytes:
    event = b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


def _choice(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    return {
        "choices": [{"finish_reason": finish, "index": 0, "delta": delta}],
        **_HEAD,
        "object": "chat.completion.chunk",
    }


_OPENING = _chunk(_choice({"role": "assistant", "content": None}))
_TOKEN = _chunk(_choice({"content": "word "}))
_BROKEN = _chunk({"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}})
_END = b"0\r\n\r\n"
_FIXED = {
    b"/health": _plain(b'{"status":"ok"}'),
    b"/tokenize": _plain(b'{"tokens":[9259,1902,314]}'),
    b"/metrics": _plain(b"llamacpp:requests_processing 0\n"),
}
_FAILURE = _plain(
    b'{"error":{"code":500,"message":"the engine is beside itself","type":"server_error"}}',
    status="500 Internal Server Error",
)
_VECTOR = _plain(
    json.dumps(
        {"object": "list", "data": [{"embedding": [0.6, 0.8], "index": 0}], "usage": {"prompt_tokens": PROMPT_TOKENS}}
    ).encode()
)


def _finish(tokens: int) -> bytes:
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens}
    last = {**_choice({}), "choices": [], "usage": usage}
    done = b"data: [DONE]\n\n"
    return _chunk(_choice({}, "stop")) + _chunk(last) + b"%x\r\n%s\r\n" % (len(done), done)


class Connection(asyncio.Protocol):
    """One keep-alive connection of the daemon's."""

    def __init__(self, totals: Totals, props: bytes) -> None:
        self._totals = totals
        self._props = props
        self._buffer = b""
        self._holds = False
        self._transport: asyncio.WriteTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports fit by shape only.
        self._transport = cast("asyncio.WriteTransport", transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._totals.left += self._holds

    @override
    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            found = _LENGTH.search(head)
            stop = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < stop:
                return
            body, self._buffer = self._buffer[end + 4 : stop], self._buffer[stop:]
            self._transport.write(self._answer(head.split(b" ", 2)[1], body))

    def _answer(self, path: bytes, body: bytes) -> bytes:
        if path == b"/totals":
            return _plain(json.dumps(asdict(self._totals)).encode())
        if path in {b"/props", b"/slots", b"/v1/models"}:
            return self._props
        if path in _FIXED:
            return _FIXED[path]
        totals = self._totals
        totals.requests += 1
        if path == b"/v1/embeddings":
            totals.prompt_tokens += PROMPT_TOKENS
            return _VECTOR
        found = _ORDER.search(body)
        what, tokens = (found[1], int(found[2])) if found else (b"ok", 1)
        if what == b"fail":
            totals.failed += 1
            return _FAILURE
        totals.completion_tokens += tokens
        sent = _STREAM_HEAD + _OPENING + _TOKEN * tokens
        match what:
            case b"hold":
                self._holds = True
                return sent
            case b"break":
                totals.failed += 1
                return sent + _BROKEN + _END
            case _:
                totals.prompt_tokens += PROMPT_TOKENS
                return sent + _finish(tokens) + _END


async def serve(arguments: Sequence[str], tell: Path) -> None:
    """Listen where the command line says until SIGTERM or SIGINT."""
    host = value_of(arguments, "--host", default="127.0.0.1")
    ctx = int(value_of(arguments, "-c", "--ctx-size", default="4096"))
    props = {"is_sleeping": False, "default_generation_settings": {"n_ctx": ctx}, "total_slots": 4, "chat_template": ""}
    totals = Totals()
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    answer = _plain(json.dumps(props).encode())
    port = int(value_of(arguments, "--port", default="0"))
    server = await loop.create_server(lambda: Connection(totals, answer), host, port, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    (tell / f"{value_of(arguments, '-a', '--alias', default='m')}.port").write_text(str(port), encoding="utf-8")
    print("0.00.001.000 I load_tensors:   CPU_Mapped model buffer size =     1.00 MiB", file=sys.stderr)
    print(f"0.00.002.000 I srv  llama_server: listening on http://{host}:{port}", file=sys.stderr, flush=True)
    await stopped.wait()
    server.close()


def main() -> int:
    """Answer a supervisor's questions, or serve."""
    tell, arguments = Path(sys.argv[2]), sys.argv[3:]
    if "--version" in arguments:
        print(VERSION, end="", file=sys.stderr)
    elif "--help" in arguments:
        print(engine_help())
    elif "--list-devices" in arguments:
        print(DEVICES, end="")
    else:
        import uvloop  # the questions above are answered without it

        uvloop.run(serve(arguments, tell))
    return 0


if __name__ == "__main__":
    sys.exit(main())
