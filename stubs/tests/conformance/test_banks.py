"""llamacpp.md, section 4: slot banks."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blazar_stubs import StubModel
from blazar_stubs.testing import Engine, Launched, launched, wait_until

SAVED = "the quick brown fox jumps over the lazy dog"
UNUSABLE = re.compile("Unable to restore slot[:,] [Nn]o available space in KV cache or invalid slot save file")
"""The one text for whatever is wrong with a bank; older builds have a comma in it."""


@pytest.fixture(scope="module")
def bank(engine: Engine, home: Path) -> Path:
    path = home / f"{engine.kind}-bank"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def server(engine: Engine, home: Path, tiny: StubModel, bank: Path) -> Iterator[Launched]:
    tiny.script(token_delay_s=0.001)
    argv = ["-m", tiny.path, "-c", "4096", "-np", "1", "--slot-save-path", bank]
    with launched(engine, home / f"{engine.kind}.log", *argv) as running:
        yield running


def act(server: Launched, action: str, name: str, slot: int | str = 0) -> Any:
    return server.post(f"/slots/{slot}?action={action}", {"filename": name})


def fill(server: Launched) -> int:
    """Put a prompt into the slot and return the number of tokens it holds then."""
    server.post("/completion", {"prompt": SAVED, "n_predict": 1, "cache_prompt": False})
    count: int = server.get("/slots")[0]["n_prompt_tokens"]
    return count


def test_save_says_what_it_wrote(server: Launched, bank: Path) -> None:
    count = fill(server)
    reply = act(server, "save", "a.bin").json()
    spent = reply.pop("timings")
    size = (bank / "a.bin").stat().st_size
    assert reply == {"id_slot": 0, "filename": "a.bin", "n_saved": count, "n_written": size}
    assert list(spent) == ["save_ms"]


def test_file_begins_with_magic_and_version(server: Launched, bank: Path) -> None:
    fill(server)
    act(server, "save", "magic.bin")
    assert (bank / "magic.bin").read_bytes()[:8] == b"qsgg\x02\0\0\0"


def test_restore_brings_the_tokens_back_for_the_next_prompt(server: Launched, bank: Path) -> None:
    count = fill(server)
    act(server, "save", "back.bin")
    act(server, "erase", "")
    reply = act(server, "restore", "back.bin").json()
    spent = reply.pop("timings")
    size = (bank / "back.bin").stat().st_size
    assert reply == {"id_slot": 0, "filename": "back.bin", "n_restored": count, "n_read": size}
    assert list(spent) == ["restore_ms"]
    timings = server.post("/completion", {"prompt": SAVED, "n_predict": 1}).json()["timings"]
    assert timings["cache_n"] == count - 1


def test_erase_says_how_much_it_forgot(server: Launched) -> None:
    count = fill(server)
    assert act(server, "erase", "").json() == {"id_slot": 0, "n_erased": count}
    assert act(server, "erase", "").json() == {"id_slot": 0, "n_erased": 0}


@pytest.mark.usefixtures("b10434")
def test_empty_slot_saves_a_file_without_tokens(server: Launched) -> None:
    act(server, "erase", "")
    reply = act(server, "save", "empty.bin").json()
    assert (reply["n_saved"], reply["n_written"]) == (0, 36)
    assert act(server, "restore", "empty.bin").json()["n_restored"] == 0


@pytest.mark.parametrize("name", ["../x", "sub/x", ""], ids=["parent", "folder", "empty"])
def test_name_with_a_directory_is_refused(server: Launched, name: str) -> None:
    reply = act(server, "save", name)
    assert (reply.status, reply.json()["error"]["message"]) == (400, "Invalid filename")


def test_name_with_a_blank_is_fine(server: Launched, bank: Path) -> None:
    assert act(server, "save", "a b.bin").status == 200
    assert (bank / "a b.bin").exists()


def test_missing_name_is_a_server_error(server: Launched) -> None:
    reply = server.post("/slots/0?action=save", {})
    message = "[json.exception.out_of_range.403] key 'filename' not found"
    assert (reply.status, reply.json()["error"]["message"]) == (500, message)


@pytest.mark.parametrize(
    ("slot", "action", "message"),
    [
        pytest.param("x", "save", "Invalid slot ID", id="word-for-slot"),
        pytest.param("0", "zap", "Invalid action", id="unknown-action"),
        pytest.param("0", "", "Invalid action", id="no-action"),
    ],
)
def test_wrong_slot_or_action_is_refused(server: Launched, slot: str, action: str, message: str) -> None:
    reply = act(server, action, "a", slot)
    assert (reply.status, reply.json()["error"]["message"]) == (400, message)


def test_slot_beyond_the_last_is_accepted_and_means_the_first(server: Launched) -> None:
    count = fill(server)
    reply = act(server, "save", "nine.bin", 9).json()
    assert (reply["id_slot"], reply["n_saved"]) == (9, count)


def test_busy_slot_is_saved_when_its_generation_ends(server: Launched) -> None:
    body = {"prompt": SAVED, "n_predict": 600, "ignore_eos": True, "stream": True}
    with server.dialog() as dialog:
        dialog.send("POST", "/completion", body)
        dialog.head()
        dialog.chunk()
        saved = act(server, "save", "busy.bin").json()["n_saved"]
        rest = b"".join(dialog.chunks())
    assert b'"stop":true' in rest
    assert saved > 600


def test_save_happens_even_if_the_caller_gives_up(server: Launched, bank: Path) -> None:
    body = {"prompt": SAVED, "n_predict": 300, "ignore_eos": True, "stream": True}
    with server.dialog() as dialog:
        dialog.send("POST", "/completion", body)
        dialog.head()
        dialog.chunk()
        with server.dialog() as impatient:
            impatient.send("POST", "/slots/0?action=save", {"filename": "late.bin"})
            time.sleep(0.05)
        list(dialog.chunks())
    wait_until((bank / "late.bin").exists, "the bank is written")


DAMAGES = {
    "missing": None,
    "empty": lambda data: data[:0],
    "garbage": lambda data: b"x" * len(data),
    "cut-in-the-head": lambda data: data[:6],
    "cut-in-the-tokens": lambda data: data[:60],
    "cut-in-the-state": lambda data: data[: len(data) // 2],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_refused_and_the_server_stays_well(server: Launched, bank: Path, damage: str) -> None:
    fill(server)
    act(server, "save", "good.bin")
    change = DAMAGES[damage]
    if change is not None:
        (bank / f"{damage}.bin").write_bytes(change((bank / "good.bin").read_bytes()))
    reply = act(server, "restore", f"{damage}.bin")
    assert reply.status == 400
    assert UNUSABLE.fullmatch(reply.json()["error"]["message"])
    assert act(server, "restore", "good.bin").status == 200


def test_file_cut_within_its_last_tensor_aborts_the_server(
    engine: Engine, home: Path, tiny: StubModel, bank: Path
) -> None:
    argv = ["-m", tiny.path, "-c", "512", "-np", "1", "--slot-save-path", bank]
    with launched(engine, home / f"{engine.kind}-abort.log", *argv) as server:
        fill(server)
        act(server, "save", "whole.bin")
        (bank / "short.bin").write_bytes((bank / "whole.bin").read_bytes()[:-100])
        with server.dialog() as dialog:
            dialog.send("POST", "/slots/0?action=restore", {"filename": "short.bin"})
            assert dialog.is_closed(within_s=60)
        assert server.exit_code() == -signal.SIGABRT
        assert "GGML_ASSERT(nread <= state_size) failed" in server.stderr


@pytest.mark.parametrize(
    ("argv", "accepted"),
    [
        pytest.param(["-c", "256"], True, id="smaller-window-that-fits"),
        pytest.param(["-c", "4096"], True, id="same-window"),
        pytest.param(["-c", "512", "-ctk", "f32"], False, id="other-cache-type"),
    ],
)
def test_restoring_into_another_shape(
    engine: Engine, home: Path, tiny: StubModel, server: Launched, bank: Path, argv: list[str], accepted: bool
) -> None:
    fill(server)
    act(server, "save", "shape.bin")
    command = ["-m", tiny.path, "-np", "1", "--slot-save-path", bank, *argv]
    with launched(engine, home / f"{engine.kind}-other.log", *command) as other:
        reply = act(other, "restore", "shape.bin")
        assert (reply.status == 200) is accepted
        assert other.get("/health") == {"status": "ok"}


def test_more_tokens_than_cells_are_refused(
    engine: Engine, home: Path, tiny: StubModel, server: Launched, bank: Path
) -> None:
    server.post("/completion", {"prompt": [5] * 300, "n_predict": 1})
    act(server, "save", "long.bin")
    command = ["-m", tiny.path, "-np", "1", "-c", "256", "--slot-save-path", bank]
    with launched(engine, home / f"{engine.kind}-small.log", *command) as small:
        reply = act(small, "restore", "long.bin")
        assert reply.status == 400
        assert UNUSABLE.fullmatch(reply.json()["error"]["message"])
