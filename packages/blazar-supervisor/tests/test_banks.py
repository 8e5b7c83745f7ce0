"""What engines had read of conversations: what is kept of it, for whom, and for how long."""

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blazar_gguf import read_metadata_file
from blazar_gguf.testing import write_tiny_model
from blazar_supervisor.engines.adapter import SlotState
from blazar_supervisor.engines.profile import Profile
from blazar_supervisor.residency.banking import SAVE_S, Banking
from blazar_supervisor.residency.banks import BankShelf, Mark, mark_of, part_name
from blazar_supervisor.residency.shapes import can_continue
from blazar_supervisor.testing import SteppedLoop, make_profile
from blazar_supervisor.testing.stage import Scene, Stage, play_on

MARK = Mark(4096, "as it was")


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def shelf_in(root: Path, *, cap_bytes: int = 1 << 30) -> BankShelf:
    return BankShelf(root / "banks", cap_bytes=lambda: cap_bytes)


def write_part(shelf: BankShelf, key: str, mark: Mark, slot: int, content: bytes = b"state") -> None:
    (shelf.prepare(key) / part_name(mark, slot)).write_bytes(content)


def names(shelf: BankShelf, key: str = "m") -> list[str]:
    return sorted(path.name for path in shelf.folder(key).iterdir()) if shelf.folder(key).is_dir() else []


def test_what_was_put_is_opened_under_the_same_mark_and_private(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path)
    write_part(shelf, "org/m#2", MARK, 0)
    write_part(shelf, "org/m#2", MARK, 3, b"another")
    assert shelf.put("org/m#2", MARK, [(0, 10), (3, 20)]) == 2
    assert [(one.slot, one.tokens) for one in shelf.open("org/m#2", MARK)] == [(0, 10), (3, 20)]
    assert names(shelf, "org/m#2") == ["_auto-4096-0.bin", "_auto-4096-3.bin", "_auto-4096.json"]
    assert stat.S_IMODE(shelf.folder("org/m#2").stat().st_mode) == 0o700


def test_a_bank_is_never_opened_for_another_context_nor_under_another_fingerprint(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path)
    write_part(shelf, "m", MARK, 0)
    shelf.put("m", MARK, [(0, 10)])
    assert shelf.open("m", Mark(8192, MARK.fingerprint)) == ()
    assert names(shelf), "the bank of the other context stays for that context"
    assert shelf.open("m", Mark(4096, "other weights")) == ()
    assert names(shelf) == [], "it can never be opened again"


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-1]), id="cut short"),
        pytest.param(lambda path: path.write_bytes(b"stale"), id="other bytes of the same length"),
        pytest.param(lambda path: path.unlink(), id="gone"),
    ],
)
def test_a_damaged_file_is_not_handed_to_an_engine_and_the_whole_ones_are(tmp_path: Path, harm: object) -> None:
    assert callable(harm)
    shelf = shelf_in(tmp_path)
    for slot in (0, 1):
        write_part(shelf, "m", MARK, slot)
    shelf.put("m", MARK, [(0, 10), (1, 20)])
    harm(shelf.folder("m") / "_auto-4096-0.bin")
    assert [one.slot for one in shelf.open("m", MARK)] == [1]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="another type"),
        pytest.param('{"version": 2, "fingerprint": "as it was", "slots": []}', id="a later version"),
        pytest.param('{"version": 1, "fingerprint": "as it was", "slots": [{"slot": 0}]}', id="fields missing"),
    ],
)
def test_a_manifest_that_cannot_be_read_costs_the_bank_and_nothing_else(tmp_path: Path, text: str) -> None:
    shelf = shelf_in(tmp_path)
    write_part(shelf, "m", MARK, 0)
    shelf.put("m", MARK, [(0, 10)])
    (shelf.folder("m") / "_auto-4096.json").write_text(text)
    assert shelf.open("m", MARK) == ()
    assert names(shelf) == []


def test_a_manifest_names_no_file_outside_its_bank(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path)
    write_part(shelf, "m", MARK, 0)
    shelf.put("m", MARK, [(0, 10)])
    manifest = shelf.folder("m") / "_auto-4096.json"
    told = json.loads(manifest.read_text())
    told["slots"][0]["file"] = "../../secret"
    manifest.write_text(json.dumps(told))
    assert shelf.open("m", MARK) == ()


def test_what_is_larger_than_512_mib_is_dropped(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path)
    for slot, size in ((0, 512 << 20), (1, (512 << 20) + 1)):
        write_part(shelf, "m", MARK, slot)
        # A hole: nothing is written to the disk.
        os.truncate(shelf.folder("m") / part_name(MARK, slot), size)
    shelf.put("m", MARK, [(1, 9)])
    assert names(shelf) == []
    write_part(shelf, "m", MARK, 2)
    shelf.put("m", MARK, [(2, 9)])
    assert names(shelf) == ["_auto-4096-2.bin", "_auto-4096.json"]


def test_a_slot_without_tokens_and_one_that_was_not_written_whole_are_not_kept(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path)
    write_part(shelf, "m", MARK, 0)
    write_part(shelf, "m", MARK, 1)
    assert shelf.put("m", MARK, [(0, 0)]) == 0
    assert names(shelf) == []


def test_slots_that_nobody_used_since_keep_what_was_saved_of_them(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path)
    write_part(shelf, "m", MARK, 0, b"first")
    write_part(shelf, "m", MARK, 1, b"second")
    shelf.put("m", MARK, [(0, 10), (1, 20)])
    kept = [one for one in shelf.open("m", MARK) if one.slot == 1]
    write_part(shelf, "m", MARK, 0, b"newer")
    shelf.put("m", MARK, [(0, 30)], kept=kept)
    assert sorted((one.slot, one.tokens) for one in shelf.open("m", MARK)) == [(0, 30), (1, 20)]


def test_the_oldest_banks_go_when_all_together_exceed_the_cap(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path, cap_bytes=2500)
    for age, key in enumerate(("a", "b", "c")):
        write_part(shelf, key, MARK, 0, bytes(1000))
        shelf.put(key, MARK, [(0, 10)])
        os.utime(shelf.folder(key) / "_auto-4096.json", (1000 + age, 1000 + age))
    shelf.keep_under_cap()
    assert [names(shelf, key) != [] for key in ("a", "b", "c")] == [False, True, True]


def test_banks_of_models_that_are_gone_are_swept_away_and_so_is_what_was_half_written(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path)
    for key in ("there", "there#2", "there@embed", "gone", "x" * 200):
        write_part(shelf, key, MARK, 0)
        shelf.put(key, MARK, [(0, 10)])
    write_part(shelf, "there", MARK, 1)
    shelf.sweep(lambda name: True if name == "there" else None)
    assert sorted(path.name for path in (tmp_path / "banks").iterdir()) == ["there", "there%232", "there%40embed"]
    assert names(shelf, "there") == ["_auto-4096-0.bin", "_auto-4096.json"]


def test_the_banks_of_a_removed_model_go_with_it_and_no_others(tmp_path: Path) -> None:
    shelf = shelf_in(tmp_path)
    for key in ("m", "m#2", "m@vision", "mm", "x" * 200):
        write_part(shelf, key, MARK, 0)
    shelf.discard("m")
    shelf.discard("x" * 200)
    assert [path.name for path in (tmp_path / "banks").iterdir()] == ["mm"]


def profile_of(root: Path, *, args: tuple[str, ...] = (), engine: str = "b1") -> Profile:
    for name in ("llama-server", "m.gguf"):
        if not (root / name).exists():
            (root / name).write_bytes(b"x")
    plain = make_profile("m", engine=engine)
    return replace(
        plain, args=(*plain.args, *args), program=root / "llama-server", weights=(root / "m.gguf",), banks=True
    )


def test_the_mark_is_that_of_everything_that_shapes_a_slot_and_of_nothing_else(tmp_path: Path) -> None:
    plain = mark_of(profile_of(tmp_path))
    assert plain == mark_of(profile_of(tmp_path))
    one, other = (mark_of(profile_of(tmp_path, args=("--cache-ram", size))) for size in ("100", "200"))
    assert one == other, "the prompt cache's size differs from start to start"
    assert plain != mark_of(profile_of(tmp_path, args=("-ctk", "q8_0")))
    assert plain != mark_of(profile_of(tmp_path, engine="b2"))
    (tmp_path / "m.gguf").write_bytes(b"other weights")
    assert plain != mark_of(profile_of(tmp_path))


def test_only_a_cache_that_can_be_continued_is_saved(tmp_path: Path) -> None:
    whole = read_metadata_file(write_tiny_model(tmp_path / "a.gguf"))
    assert can_continue(whole, ())
    slides = read_metadata_file(write_tiny_model(tmp_path / "b.gguf", "gemma3", layers=6))
    assert not can_continue(slides, ())
    assert can_continue(slides, ("--swa_full",))


# The way from one life to the next


def banked(stage: Stage, root: Path) -> Banking:
    banking = Banking(shelf_in(root))
    for name in ("m", "a", "b"):
        stage.planner.profiles[name] = replace(
            stage.planner.profiles.get(name) or make_profile(name),
            program=Path("/bin/sh"),
            weights=(),
            banks=True,
        )
    stage.bank_with(banking)
    return banking


USED = (SlotState(0, False, True, 7), SlotState(1, False, False, -1), SlotState(2, True, True, 9))


async def life(stage: Stage, model: str, root: Path) -> None:
    """Load a model, have it used, and let its engine write what it is told to."""
    asked = stage.ask(model)
    await stage.until(asked.done)
    asked.result().release()
    child = stage.launcher.children[-1]
    child.slot_states = USED
    child.slot_tokens = {0: 135}
    write_part(shelf_in(root), model, mark_of(stage.planner.profiles[model]), 0)


def test_idle_slots_are_saved_on_eviction_and_given_back_at_the_next_load(scene: Scene, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        banked(stage, tmp_path)
        await life(stage, "m", tmp_path)
        await stage.pass_time(1800.0)
        await stage.until(lambda: stage.state() is None)
        first = stage.launcher.children[0]
        assert first.saved == [(0, "_auto-4096-0.part")], "slot 1 was never used, slot 2 is busy"
        assert first.exited.is_set()
        lease = stage.ask()
        await stage.until(lease.done)
        assert stage.launcher.children[1].restored == [(0, "_auto-4096-0.bin")]
        lease.result().release()

    scene(story)


def test_a_stop_and_a_model_that_is_not_to_stay_are_not_saved(scene: Scene, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        banked(stage, tmp_path)
        await life(stage, "m", tmp_path)
        assert await stage.dispatcher.unload("m")
        await life(stage, "m", tmp_path)
        stage.dispatcher.keep("m", 0)
        await stage.until(lambda: stage.state() is None)
        assert [child.saved for child in stage.launcher.children] == [[], []]

    scene(story)


def test_a_sleeper_is_not_woken_to_be_saved(scene: Scene, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        banked(stage, tmp_path)
        await life(stage, "m", tmp_path)
        stage.launcher.children[0].fall_asleep()
        await stage.pass_time(1800.0)
        await stage.until(lambda: stage.state() is None)
        assert stage.launcher.children[0].saved == []
        assert stage.launcher.children[0].wakes == 0

    scene(story)


def test_a_save_that_takes_too_long_holds_an_eviction_up_for_two_seconds(scene: Scene, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        banked(stage, tmp_path)
        await life(stage, "m", tmp_path)
        child = stage.launcher.children[0]
        child.slot_tokens = {}
        await stage.pass_time(1800.0)
        await stage.until(lambda: bool(child.saved))
        await stage.pass_time(SAVE_S - 0.1)
        assert not child.exited.is_set()
        await stage.pass_time(0.2)
        await stage.until(lambda: stage.state() is None)
        assert child.exited.is_set()
        assert names(shelf_in(tmp_path)) == []

    scene(story)


def test_a_child_that_dies_of_what_it_is_given_back_comes_up_without(scene: Scene, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        banked(stage, tmp_path)
        await life(stage, "m", tmp_path)
        await stage.pass_time(1800.0)
        await stage.until(lambda: stage.state() is None)
        stage.launcher.dies_of_banks = True
        lease = stage.ask()
        await stage.until(lease.done)
        lease.result().release()
        assert [child.restored for child in stage.launcher.children[1:]] == [[(0, "_auto-4096-0.bin")], []]
        assert names(shelf_in(tmp_path)) == []

    scene(story)


def test_what_killed_a_child_is_not_tried_again_although_its_files_cannot_be_removed(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(stage: Stage) -> None:
        banked(stage, tmp_path)
        await life(stage, "m", tmp_path)
        await stage.pass_time(1800.0)
        await stage.until(lambda: stage.state() is None)
        monkeypatch.setattr(BankShelf, "drop", lambda *_: None)
        stage.launcher.dies_of_banks = True
        lease = stage.ask()
        await stage.until(lease.done)
        lease.result().release()
        assert [len(child.restored) for child in stage.launcher.children[1:]] == [1, 0]
        assert names(shelf_in(tmp_path)) != []

    scene(story)


async def test_a_kind_without_banks_is_asked_nothing(tmp_path: Path) -> None:
    banking = Banking(shelf_in(tmp_path))
    profile = replace(make_profile("m"), banks=False)
    assert await asyncio.wait_for(banking.save("m", profile, _NeverAsked()), 5) is None


class _NeverAsked:
    """A child whose kind has no banks: nobody asks it anything."""

    exited = asyncio.Event()

    async def asks_sleeping(self) -> bool | None:
        raise AssertionError

    async def slots(self) -> tuple[SlotState, ...] | None:
        raise AssertionError

    async def save_slot(self, slot: int, file: str, *, timeout_s: float) -> int | None:
        raise AssertionError

    async def restore_slot(self, slot: int, file: str, *, timeout_s: float) -> bool | None:
        raise AssertionError
