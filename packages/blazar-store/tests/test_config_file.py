import errno
import os
import resource
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blazar_store.config_file
from blazar_store.config_file import ConfigFile
from blazar_store.errors import ConfigInvalid, ConfigProblem, DiskFull, NotWritable, StorageFailed
from blazar_store.settings import Settings, load_settings

MINE = """\
# My machine
port = 8080  # behind the proxy

[models."org/model:Q4"]
# as much as fits
ctx = "auto"   # really
slots = 2
"""


@pytest.fixture
def config(tmp_path: Path) -> ConfigFile:
    (tmp_path / "config.toml").write_text(MINE)
    return ConfigFile(tmp_path / "config.toml")


def leftovers(config: ConfigFile) -> set[str]:
    return {path.name for path in config.path.parent.iterdir()} - {"config.toml", ".config.toml.lock"}


def test_edit_keeps_comments_and_order(config: ConfigFile) -> None:
    settings = config.set(("models", "org/model:Q4", "slots"), 3)
    assert settings.for_model("org/model:Q4").slots == 3
    assert config.path.read_text() == MINE.replace("slots = 2", "slots = 3")


def test_old_content_is_kept_beside_it(config: ConfigFile) -> None:
    config.set(("port",), 1)
    config.set(("port",), 2)
    assert load_settings(config.backup).port == 1
    assert leftovers(config) == {"config.toml.bak"}


def test_tables_are_made_as_needed(tmp_path: Path) -> None:
    config = ConfigFile(tmp_path / "new" / "config.toml")
    config.set(("models", "a b", "ctx"), 4096)
    config.set(("port",), 1)
    config.set(("models", "c", "extra_args"), ("-x",))
    assert config.path.read_text() == ('port = 1\n\n[models."a b"]\nctx = 4096\n\n[models.c]\nextra_args = ["-x"]\n')
    assert config.path.stat().st_mode & 0o777 == 0o600


def test_removing_a_value_and_a_table(config: ConfigFile) -> None:
    assert config.unset(("port",)).port == Settings().port
    assert config.unset(("models", "org/model:Q4")).models == {}
    assert config.unset(("models", "absent", "ctx")).models == {}
    assert config.unset(("absent",)).models == {}
    assert "# My machine" in config.path.read_text()


def test_edit_that_would_be_invalid_changes_nothing(config: ConfigFile) -> None:
    with pytest.raises(ConfigInvalid, match="must be a whole number"):
        config.set(("port",), "x")
    with pytest.raises(ConfigInvalid, match="nearest valid name is `port`"):
        config.set(("prot",), 1)
    assert config.path.read_text() == MINE
    assert leftovers(config) == set()


def test_file_that_is_not_toml_is_not_touched(config: ConfigFile) -> None:
    config.path.write_text("port = = 1")
    with pytest.raises(ConfigInvalid, match="not valid TOML"):
        config.set(("port",), 1)
    assert config.path.read_text() == "port = = 1"


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 3000 + "]" * 3000], ids=["huge number", "deep arrays"])
def test_file_that_no_reader_takes_is_not_touched(config: ConfigFile, value: str) -> None:
    text = f"port = {value}\n"
    config.path.write_text(text)
    with pytest.raises(ConfigInvalid, match="not valid TOML"):
        config.set(("port",), 1)
    assert config.path.read_text() == text


def test_edit_may_repair_an_invalid_file(config: ConfigFile) -> None:
    config.path.write_text("prot = 1\n")
    assert config.unset(("prot",)) == Settings()


def test_edit_without_effect_writes_nothing(config: ConfigFile) -> None:
    before = config.path.stat()
    config.set(("port",), 8080)
    assert config.path.stat().st_ino == before.st_ino
    assert leftovers(config) == set()


def test_line_ends_and_permissions_stay(config: ConfigFile) -> None:
    config.path.write_bytes(b"port = 1\r\n# end\r\n")
    config.path.chmod(0o640)
    config.set(("port",), 2)
    assert config.path.read_bytes() == b"port = 2\r\n# end\r\n"
    assert config.path.stat().st_mode & 0o777 == 0o640
    assert config.backup.stat().st_mode & 0o777 == 0o640


def test_link_to_the_file_stays_a_link(config: ConfigFile, tmp_path: Path) -> None:
    (tmp_path / "link.toml").symlink_to(config.path)
    ConfigFile(tmp_path / "link.toml").set(("port",), 1)
    assert (tmp_path / "link.toml").is_symlink()
    assert load_settings(config.path).port == 1


def test_what_does_not_read_back_is_rolled_back(config: ConfigFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(path: Path) -> Settings:
        raise ConfigInvalid(path=path, problems=(ConfigProblem("x"),))

    monkeypatch.setattr(blazar_store.config_file, "load_settings", unreadable)
    with pytest.raises(StorageFailed, match="old content is back"):
        config.set(("port",), 1)
    assert config.path.read_text() == MINE
    fresh = ConfigFile(config.path.with_name("fresh.toml"))
    with pytest.raises(StorageFailed):
        fresh.set(("port",), 1)
    assert not fresh.path.exists()


@pytest.mark.parametrize("step", ["fsync", "replace", "mkstemp"])
@pytest.mark.parametrize(
    ("number", "error"),
    [
        pytest.param(errno.ENOSPC, DiskFull, id="full"),
        pytest.param(errno.EDQUOT, DiskFull, id="quota"),
        pytest.param(errno.EROFS, NotWritable, id="read-only"),
        pytest.param(errno.EIO, StorageFailed, id="broken"),
    ],
)
def test_failure_at_any_step_leaves_the_old_file_and_nothing_else(
    config: ConfigFile, monkeypatch: pytest.MonkeyPatch, step: str, number: int, error: type[Exception]
) -> None:
    def fail(*_args: object, **_named: object) -> None:
        raise OSError(number, os.strerror(number))

    target = {"fsync": "os.fsync", "replace": "pathlib.Path.replace", "mkstemp": "tempfile.mkstemp"}[step]
    with monkeypatch.context() as patch:
        patch.setattr(target, fail)
        with pytest.raises(error):
            config.set(("port",), 1)
    assert config.path.read_text() == MINE
    assert leftovers(config) == set()


def test_no_room_for_the_new_file_is_disk_full(config: ConfigFile) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        with pytest.raises(DiskFull):
            config.set(("port",), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert config.path.read_text() == MINE
    assert leftovers(config) == set()


def test_read_only_directory_is_a_typed_error(
    public_dir: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    config = ConfigFile(public_dir / "config.toml")
    config.path.write_text(MINE)
    config.path.chmod(0o644)
    public_dir.chmod(0o555)
    with unprivileged(), pytest.raises(NotWritable, match="BLAZAR_CONFIG"):
        config.set(("port",), 1)
    assert config.path.read_text() == MINE


def test_editors_at_the_same_time_take_turns(config: ConfigFile) -> None:
    def add(number: int) -> None:
        for index in range(5):
            ConfigFile(config.path).set(("models", f"m{number}-{index}", "slots"), 1)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load_settings(config.path).models) == 21
    assert "# as much as fits" in config.path.read_text()


def test_editor_that_never_lets_go_is_named(config: ConfigFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blazar_store.config_file, "_PATIENCE_S", 0.0)
    with config._turn(), pytest.raises(StorageFailed, match="another program edits it"):
        config.set(("port",), 1)
    assert config.path.read_text() == MINE


COMMENTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), max_size=10)
NAMES = st.text(st.sampled_from("ab .:/%-é模"), min_size=1, max_size=6).filter(
    lambda name: name.strip() == name and all(part not in {"", ".", ".."} for part in name.split("/"))
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    comments=st.lists(COMMENTS, min_size=3, max_size=3),
    edits=st.lists(st.tuples(NAMES, st.sampled_from(["slots", "load_timeout_secs"]), st.integers(1, 9)), max_size=5),
)
def test_edits_keep_every_comment_and_say_what_was_set(
    tmp_path: Path, comments: list[str], edits: list[tuple[str, str, int]]
) -> None:
    one, two, three = comments
    path = tmp_path / "config.toml"
    path.write_text(f"#one {one}\nport = 1 #two {two}\n[models.a]\n#three {three}\nslots = 8\n", encoding="utf-8")
    config, expected = ConfigFile(path), {("a", "slots"): 8}
    spelled = {"a": "a"}
    for name, key, value in edits:
        if spelled.setdefault(name.casefold(), name) != name:
            continue
        config.set(("models", name, key), value)
        expected[name, key] = value
    text = path.read_text(encoding="utf-8")
    assert all(f"#{word} {comment}" in text for word, comment in zip(("one", "two", "three"), comments, strict=True))
    found = load_settings(path).models
    assert {
        (name, key): value
        for name, table in found.items()
        for key, value in table.model_dump(exclude_defaults=True).items()
    } == expected
