"""A llama-server that answers at once: what is measured in front of it is the gateway's own cost.

It takes llama-server's command line as far as a supervisor uses it (``--version``, ``--help``, ``--list-devices``,
``--host``, ``--port``, ``--alias``, …) and answers every request from bytes prepared beforehand, in one write.
A chat answers with as many tokens as ``max_tokens`` says, one event each when it streams.

Run as a program: ``python upstream.py [--pin CORE] LLAMA-SERVER-ARGUMENTS``.
"""

import asyncio
import functools
import json
import re
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from typing_extensions import override

VERSION = "version: 10434 (7e4c0a9)\nbuilt for the bench of Blazar\n"
DEVICES = "Available devices:\n  (none)\n"

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_MAX_TOKENS = re.compile(rb'"max_(?:completion_)?tokens"\s*:\s*(\d+)')
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_WANTS_USAGE = re.compile(rb'"include_usage"\s*:\s*true')
_PROMPT_TOKENS = 60


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _timings(tokens: int) -> dict[str, float]:
    return {"prompt_n": _PROMPT_TOKENS, "prompt_ms": 1.0, "predicted_n": tokens, "predicted_ms": 1.0}


def _usage(tokens: int) -> dict[str, int]:
    return {
        "completion_tokens": tokens,
        "prompt_tokens": _PROMPT_TOKENS,
        "total_tokens": _PROMPT_TOKENS + tokens,
    }


def _plain(body: bytes, *, status: str = "200 OK", kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Answers:
    """Every answer, as the bytes that go onto the wire."""

    def __init__(self, alias: str, ctx_tokens: int, slots: int) -> None:
        self._head: dict[str, object] = {
            "created": 1,
            "id": "chatcmpl-1",
            "model": alias,
            "system_fingerprint": "b10434-7e4c0a9",
        }
        props = {
            "is_sleeping": False,
            "default_generation_settings": {"n_ctx": ctx_tokens},
            "total_slots": slots,
            "chat_template": "",
            "model_alias": alias,
        }
        self._fixed = {
            b"/health": _plain(b'{"status":"ok"}'),
            b"/v1/models": _plain(_dump({"object": "list", "data": [{"id": alias, "object": "model"}]})),
            b"/props": _plain(_dump(props)),
            b"/slots": _plain(
                _dump([{"id": slot, "n_ctx": ctx_tokens, "is_processing": False} for slot in range(slots)])
            ),
            b"/metrics": _plain(b"llamacpp:requests_processing 0\n", kind="text/plain"),
            b"/tokenize": _plain(b'{"tokens":[9259,1902,314]}'),
            b"/detokenize": _plain(b'{"content":"hello there"}'),
        }
        self._missing = _plain(b'{"error":{"code":404,"message":"File Not Found"}}', status="404 Not Found")
        # Bench requests differ in few ways; each is put together once.
        self.plain_chat = functools.cache(self._plain_chat)
        self.streamed_chat = functools.cache(self._streamed_chat)

    def to(self, path: bytes, body: bytes) -> bytes:
        """Return the whole answer to one request."""
        fixed = self._fixed.get(path)
        if fixed is not None:
            return fixed
        if not path.endswith((b"/chat/completions", b"/completions")):
            return self._missing
        found = _MAX_TOKENS.search(body)
        tokens = int(found[1]) if found else 20
        if _STREAM.search(body):
            return self.streamed_chat(tokens, usage=_WANTS_USAGE.search(body) is not None)
        return self.plain_chat(tokens)

    def _plain_chat(self, tokens: int) -> bytes:
        message = {"role": "assistant", "content": "word " * tokens}
        return _plain(
            _dump(
                {
                    "choices": [{"finish_reason": "stop", "index": 0, "message": message}],
                    **self._head,
                    "object": "chat.completion",
                    "usage": _usage(tokens),
                    "timings": _timings(tokens),
                }
            )
        )

    def _streamed_chat(self, tokens: int, *, usage: bool) -> bytes:
        events = [self._event([_choice({"role": "assistant", "content": None})])]
        events += [self._event([_choice({"content": f"word{index} "})]) for index in range(tokens)]
        events.append(self._event([_choice({}, finish="stop")], timings=_timings(tokens)))
        if usage:
            events.append(self._event([], usage=_usage(tokens), timings=_timings(tokens)))
        events.append(b"data: [DONE]\n\n")
        # A chunk an event, as llama-server writes them; together, since only the gateway shall be the slow one.
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head + chunks + b"0\r\n\r\n"

    def _event(self, choices: list[object], **more: object) -> bytes:
        return (
            b"data: " + _dump({"choices": choices, **self._head, "object": "chat.completion.chunk", **more}) + b"\n\n"
        )


def _choice(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    return {"finish_reason": finish, "index": 0, "delta": delta}


class Connection(asyncio.Protocol):
    """One keep-alive connection: requests with a Content-Length in, prepared bytes out."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._buffer = b""
        self._transport: asyncio.WriteTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports fit by shape only.
        self._transport = cast("asyncio.WriteTransport", transport)

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
            path = head.split(b" ", 2)[1].partition(b"?")[0]
            self._transport.write(self._answers.to(path, body))


def value_of(arguments: Sequence[str], *names: str, default: str) -> str:
    """Return what stands behind the first of some flags in a command line."""
    for name, value in pairwise(arguments):
        if name in names:
            return value
    return default


async def serve(arguments: Sequence[str]) -> None:
    """Listen where the command line says until SIGTERM or SIGINT."""
    host = value_of(arguments, "--host", default="127.0.0.1")
    answers = Answers(
        alias=value_of(arguments, "-a", "--alias", default="m"),
        ctx_tokens=int(value_of(arguments, "-c", "--ctx-size", default="4096")),
        slots=int(value_of(arguments, "-np", "--parallel", default="4")),
    )
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    port = int(value_of(arguments, "--port", default="8080"))
    server = await loop.create_server(lambda: Connection(answers), host, port, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    # Load reports read these two lines; the second says that the model is up.
    print("0.00.001.000 I load_tensors:   CPU_Mapped model buffer size =     1.00 MiB", file=sys.stderr)
    print(f"0.00.002.000 I srv  llama_server: listening on http://{host}:{port}", file=sys.stderr, flush=True)
    await stopped.wait()
    server.close()


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--pin"]:
        # Not inherited from the daemon that starts it, which is pinned to another core.
        from bench_parts.pinning import pin_to  # only where it is asked for

        pin_to(int(arguments[1]))
        arguments = arguments[2:]
    if "--version" in arguments:
        print(VERSION, end="", file=sys.stderr)
    elif "--help" in arguments:
        from bench_parts.engine_help import engine_help  # a child that serves does not wait for it

        print(engine_help())
    elif "--list-devices" in arguments:
        print(DEVICES, end="")
    else:
        import uvloop  # the questions above are answered without it

        uvloop.run(serve(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
