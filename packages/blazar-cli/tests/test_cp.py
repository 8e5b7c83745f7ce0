"""A second name by hard links: no bytes, and either can go."""

import os
from pathlib import Path

import pytest

from blazar_cli.testing import User, typed_gguf
from blazar_gguf import Typed, ValueType, shard_name
from blazar_gguf.copying import copy_with_metadata
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.types import ModelRow
from blazar_stubs import write_stub_model


def row(user: User, name: str) -> ModelRow:
    with Store(Layout(user.data_dir)) as store:
        return store.get_model(name)


def test_a_second_name_costs_no_bytes_and_outlives_the_first(user: User) -> None:
    path = user.add_model("m")
    user.ok("create", "m", "--from", "m")
    assert "no bytes were copied" in user.ok("cp", "m", "org/second:q4")
    first, second = row(user, "m"), row(user, "org/second:q4")
    assert second.path != first.path
    assert second.path.samefile(first.path)
    assert path.stat().st_nlink == 2
    assert (second.digest, second.overlay, second.pulled) == (first.digest, first.overlay, True)
    assert second.path.is_relative_to(user.data_dir / "models" / "aliases")
    user.ok("rm", "m", "--weights")
    assert not path.exists()
    assert second.path.stat().st_nlink == 1
    user.ok("rm", "org/second:q4")
    assert not second.path.exists()
    assert list((user.data_dir / "models").rglob("*.gguf")) == []


def test_removing_the_second_name_leaves_the_first_alone(user: User) -> None:
    path = user.add_model("m")
    user.ok("cp", "m", "n")
    user.ok("rm", "n")
    assert path.exists()
    assert [known["name"] for known in user.json("list")] == ["m"]
    # And the name can be given again.
    user.ok("cp", "m", "n")
    assert row(user, "n").path.samefile(path)


def test_projectors_are_linked_as_well(user: User) -> None:
    path = write_stub_model(user.root / "eye.gguf").path
    projector = typed_gguf(user.root / "mmproj-eye.gguf", "mmproj")
    user.ok("models", "add", path, "--mmproj", projector, "--name", "eye")
    user.ok("cp", "eye", "eye2")
    second = row(user, "eye2")
    assert second.mmproj_path is not None
    assert second.mmproj_path.samefile(projector)


def test_where_links_are_impossible_the_files_are_shared_and_that_is_said(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = user.add_model("m")

    def refuse(self: Path, target: Path) -> None:
        raise OSError(18, os.strerror(18), str(self), None, str(target))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    ended = user.blazar("cp", "m", "n")
    assert ended.status == 0
    assert "could not be linked (invalid cross-device link)" in ended.err
    assert row(user, "n").path == path
    # Neither owns the weights, so neither takes them along.
    user.ok("rm", "n")
    assert path.exists()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        pytest.param(("nam", "x"), 6, "Did you mean 'name'?", id="no source"),
        pytest.param(("name", "Name"), 1, "differs only in spelling", id="taken"),
        pytest.param(("name", "name:latest"), 1, "in ':latest' from the existing 'name'", id="taken by clients"),
        pytest.param(("name", "a#1"), 2, "reserved for replicas", id="reserved"),
        pytest.param(("name", "../x"), 2, "'.' or '..'", id="a path"),
    ],
)
def test_what_cannot_be_copied_is_refused(user: User, arguments: tuple[str, str], status: int, words: str) -> None:
    user.add_model("name")
    ended = user.blazar("cp", *arguments)
    assert ended.status == status
    assert words in ended.err


def test_files_that_are_gone_cannot_get_a_second_name(user: User) -> None:
    user.add_model("m").unlink()
    ended = user.blazar("cp", "m", "n")
    assert ended.status == 6
    assert "is gone" in ended.err


def test_a_split_set_keeps_its_part_numbers(user: User) -> None:
    parts = [user.root / shard_name("big", number, 2) for number in (1, 2)]
    for number, part in enumerate(parts):
        plain = write_stub_model(user.root / "plain.gguf").path
        numbers = {"split.no": Typed(number, ValueType.U16), "split.count": Typed(2, ValueType.U16)}
        copy_with_metadata(plain, part, numbers)
    # By force: each part holds the same tensors here, which no engine would take.
    user.ok("models", "add", parts[0], "--name", "big", "--force")
    user.ok("cp", "big", "huge")
    second = row(user, "huge")
    assert [path.name for path in second.shards] == [part.name for part in parts]
    assert all(path.samefile(part) for path, part in zip(second.shards, parts, strict=True))
    user.ok("rm", "big", "--weights")
    assert all(path.exists() for path in second.shards)


def test_a_scan_does_not_take_a_second_name_for_another_model(user: User) -> None:
    user.add_model("m")
    user.ok("cp", "m", "n")
    assert user.json("models", "scan", user.data_dir)["added"] == []
    assert user.json("models", "scan", user.root)["added"] == []


ALIASED = '[models."m"]\naliases = ["gpt-4o"]\n'


def test_show_and_logs_know_an_alias_without_a_daemon(user: User) -> None:
    user.add_model("m")
    user.config_file.write_text(ALIASED)
    assert user.json("models", "show", "gpt-4o")["name"] == "m"
    log = Layout(user.data_dir).child_log("m")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("of the model\n")
    assert user.ok("logs", "gpt-4o") == "of the model\n"


def test_an_alias_is_no_name_for_a_new_row(user: User) -> None:
    path = user.add_model("m")
    user.config_file.write_text(ALIASED)
    for arguments in (
        ("cp", "m", "gpt-4o"),
        ("create", "GPT-4o", "--from", "m"),
        ("models", "add", str(path), "--name", "gpt-4o"),
    ):
        refused = user.blazar(*arguments)
        assert refused.status != 0
        assert "'gpt-4o' is an alias of 'm'" in refused.err
    assert [known["name"] for known in user.json("list")] == ["m"]
    user.config_file.write_text("")
    user.ok("cp", "m", "gpt-4o")
    # What is there already can be made anew, whatever the settings say since.
    user.ok("create", "other", "--from", "m")
    user.config_file.write_text('[models."m"]\naliases = ["other"]\n')
    user.ok("create", "other", "--from", "m")


def test_settings_that_cannot_be_used_do_not_keep_anybody_from_looking(user: User) -> None:
    user.add_model("m")
    user.config_file.write_text("slot = 3\n")
    shown = user.blazar("models", "show", "m")
    assert shown.status == 0
    assert "left out of account" in shown.err
