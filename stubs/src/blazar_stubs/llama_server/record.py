"""Remember what happened, for tests: in memory for the control call, and as lines in a file beside the model.

The file outlives the process and counts spawns. It is kept only beside files that `write_stub_model` wrote or
that have a sidecar, so that a stub started on somebody's real model leaves nothing behind.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from blazar_stubs.llama_server.knobs import Json

_MARK = b"blazar_stub.model"


class Recorder:
    """Writes events, and keeps requests and counters."""

    def __init__(self, model_path: str, *, keep_file: bool) -> None:
        self._descriptor: int | None = None
        self.requests: list[Json] = []
        self.in_flight = 0
        self.tokens_sent = 0
        self.spawn_number = 1
        if keep_file or _is_marked(model_path):
            path = model_path + ".stub.events.jsonl"
            try:
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            except OSError:
                self._descriptor = None

    def event(self, kind: str, **facts: Any) -> None:
        """Append one event; a single write, so lines of two processes never mix."""
        if self._descriptor is not None:
            line = json.dumps({"event": kind, "at": time.time(), "pid": os.getpid(), **facts})
            os.write(self._descriptor, line.encode() + b"\n")

    def spawned(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        """Say that this process exists, and learn how many did before it."""
        self.event("spawn", argv=list(argv), environ=dict(environ))
        if self._descriptor is not None:
            size = os.fstat(self._descriptor).st_size
            self.spawn_number = os.pread(self._descriptor, size, 0).count(b'{"event": "spawn"')

    def received(self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes) -> Json:
        """Note a request; the entry returned is filled in as it goes on."""
        path, _, query = target.partition("?")
        entry: Json = {
            "id": len(self.requests),
            "method": method,
            "path": path,
            "query": query,
            "headers": [list(pair) for pair in headers],
            "body": body.decode("utf-8", "replace"),
            "received_at": time.time(),
            "first_byte_at": None,
            "finished_at": None,
            "client_closed_at": None,
            "status": None,
            "bytes_sent": 0,
            "tokens_sent": 0,
            "tokens_generated": 0,
        }
        self.requests.append(entry)
        self.in_flight += 1
        self.event("request", **{key: entry[key] for key in ("id", "method", "path", "query", "headers", "body")})
        return entry

    def client_closed(self, entry: Json) -> None:
        """Note that the client's side was seen closed before the answer was complete."""
        if entry["client_closed_at"] is None:
            entry["client_closed_at"] = time.time()
            self.event("client_closed", id=entry["id"], tokens_sent=entry["tokens_sent"])

    def finished(self, entry: Json) -> None:
        """Note that nothing more happens for a request."""
        if entry["finished_at"] is None:
            entry["finished_at"] = time.time()
            self.in_flight -= 1
            known = ("id", "path", "status", "bytes_sent", "tokens_sent", "tokens_generated")
            self.event("done", **{key: entry[key] for key in known})

    def report(self) -> Json:
        """Everything, for the control call."""
        return {
            "pid": os.getpid(),
            "spawns": self.spawn_number,
            "in_flight": self.in_flight,
            "tokens_sent": self.tokens_sent,
            "requests": self.requests,
        }


def _is_marked(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - importing pathlib doubles the start-up time
            return _MARK in file.read(4096)
    except OSError:
        return False
