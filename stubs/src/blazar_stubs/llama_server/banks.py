"""Slot banks: a slot's tokens and state, saved to a file and restored (llamacpp.md, section 4; llama-context.cpp).

The file has upstream's layout as far as it can be told apart from outside: magic, version, token list, then the
state. A file cut short within the state's last tensor aborts the server, as it does upstream (observed: GGML_ASSERT
in llama-context.cpp); everything else that is wrong with one gives the same 400.
"""

import os
import signal
import struct
import time

from blazar_stubs.llama_server.bodies import read_object, required
from blazar_stubs.llama_server.engine import Slot
from blazar_stubs.llama_server.exchange import Exchange
from blazar_stubs.llama_server.prompts import Refusal, ServerFault
from blazar_stubs.llama_server.server import Server

_MAGIC = b"qsgg"
_VERSION = 2
_CELL_TAG = b"KVCL"
_REFUSED = "Unable to restore slot: No available space in KV cache or invalid slot save file"


class _Unusable(Exception):
    """The file cannot be restored; the text is what the engine logs."""


async def act(server: Server, exchange: Exchange) -> None:
    """Save, restore or erase. Numbers beyond the last slot mean the first (observed)."""
    folder = server.settings.slot_save_path
    if not folder:
        raise Refusal(
            "This server does not support slots action. Start it with `--slot-save-path`",
            status=501,
            kind="not_supported_error",
        )
    engine = server.loaded.engine
    word = exchange.request.path.rpartition("/")[2]
    if not word.lstrip("-").isdigit():
        raise Refusal("Invalid slot ID")
    number = int(word)
    action = exchange.request.query.get("action", "")
    if action not in {"save", "restore", "erase"}:
        raise Refusal("Invalid action")
    name = "" if action == "erase" else _file_name(exchange)
    await engine.touch()
    slot = engine.slots[number] if 0 <= number < len(engine.slots) else engine.slots[0]
    while slot.is_busy:
        # Deferred until the generation ends, and done then even if the caller has given up.
        await slot.idle.wait()
    started_s = time.monotonic()
    path = os.path.join(folder, name)  # noqa: PTH118 - importing pathlib doubles the start-up time
    if action == "erase":
        erased, slot.tokens = len(slot.tokens), []
        await exchange.json(200, {"id_slot": number, "n_erased": erased})
        return
    if action == "save":
        size = _save(server, slot, path)
        spent = {"save_ms": round((time.monotonic() - started_s) * 1000, 3)}
        body = {"id_slot": number, "filename": name, "n_saved": len(slot.tokens), "n_written": size}
        await exchange.json(200, {**body, "timings": spent})
        return
    try:
        size = _restore(server, slot, path)
    except _Unusable as problem:
        slot.tokens = []
        server.console.line(f"state_seq_load_file: {problem}", letter="E")
        server.console.server("send_error", f"task id = {engine.new_task()}, error: {_REFUSED}", letter="E")
        raise Refusal(_REFUSED) from None
    spent = {"restore_ms": round((time.monotonic() - started_s) * 1000, 3)}
    body = {"id_slot": number, "filename": name, "n_restored": len(slot.tokens), "n_read": size}
    await exchange.json(200, {**body, "timings": spent})


def _file_name(exchange: Exchange) -> str:
    name = required(read_object(exchange), "filename", ServerFault)
    if not isinstance(name, str) or not name or "/" in name or "\\" in name or name in {".", ".."}:
        raise Refusal("Invalid filename")
    return name


def _state(server: Server, count: int) -> tuple[bytes, int]:
    """The state's beginning (what makes another cache type unusable) and its whole length in bytes."""
    shape, settings = server.loaded.shape, server.settings
    kind = f"{settings.cache_type_k},{settings.cache_type_v},{shape.layers}".encode()
    body = 8 + 24 * shape.layers + 12 * count + count * shape.cell_bytes if count else 0
    return _CELL_TAG + struct.pack("<I", len(kind)) + kind, 8 + body


def _save(server: Server, slot: Slot, path: str) -> int:
    count = len(slot.tokens)
    start, length = _state(server, count)
    # Upstream's list begins with a sentinel, a version, the count and a one; its tokens are 32 bits wide, ours 64.
    words = struct.pack("<4I", 2**32 - 1, 1, count, 1) + struct.pack(f"<{count}Q", *slot.tokens)
    head = _MAGIC + struct.pack("<II", _VERSION, 4 + count) + words
    with open(path, "wb") as file:  # noqa: PTH123 - importing pathlib doubles the start-up time
        file.write(head + (start if count else b""))
        file.truncate(len(head) + length)
    return len(head) + length


def _restore(server: Server, slot: Slot, path: str) -> int:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - see _save
            data = file.read()
    except OSError:
        raise _Unusable(f"failed to open {path}: No such file or directory") from None
    if data[:4] != _MAGIC or data[4:8] != struct.pack("<I", _VERSION):
        raise _Unusable(f"unknown (magic, version) for sequence state file: {data[:4].hex()}, {data[4:8].hex()}")
    (listed,) = struct.unpack("<I", data[8:12].ljust(4, b"\0"))
    count = max(0, listed - 4)
    state_at = 28 + 8 * count
    if len(data) < state_at:
        raise _Unusable(f"token count in sequence state file exceeds the file size! {listed} > {len(data) // 4}")
    if count > slot.context:
        raise _Unusable(f"failed to find {count} available cells in kv cache")
    start, length = _state(server, count)
    missing = state_at + length - len(data)
    shape = server.loaded.shape
    if count and not data[state_at:].startswith(start):
        raise _Unusable("mismatched key type")
    if count and 0 < missing <= count * shape.value_bytes // shape.layers:
        server.console.raw("llama-context.cpp:3142: GGML_ASSERT(nread <= state_size) failed")
        server.recorder.event("exit", signal="SIGABRT")
        os.kill(os.getpid(), signal.SIGABRT)
    if missing > 0:
        raise _Unusable("failed to restore kv cache")
    slot.tokens = list(struct.unpack(f"<{count}Q", data[28:state_at]))
    # The window's layers hold only the last tokens, so what was restored cannot be continued from.
    slot.is_blind = bool(shape.window) and not server.settings.full_window
    return len(data)
