import os
from pathlib import Path

import pytest

from blazar_store.errors import ConfigInvalid
from blazar_store.settings import Reload, Settings, SettingsWatch, changed, file_stamp


def put(path: Path, text: str, *, age_s: int) -> None:
    """Write the file as if it had been saved ``age_s`` seconds after an arbitrary moment long ago."""
    path.write_text(text)
    os.utime(path, (1_700_000_000 + age_s, 1_700_000_000 + age_s))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    put(path, "port = 1\n", age_s=0)
    return path


def test_no_edit_is_no_news(path: Path) -> None:
    watch = SettingsWatch(path)
    assert watch.poll() is None
    assert watch.settings.port == 1


def test_invalid_file_at_the_start_is_refused(path: Path) -> None:
    put(path, "prot = 1\n", age_s=0)
    with pytest.raises(ConfigInvalid):
        SettingsWatch(path)


def test_edit_is_reported_once_with_what_changed_and_what_needs_a_restart(path: Path) -> None:
    watch = SettingsWatch(path)
    put(path, "port = 2\nidle_timeout_secs = 5\n", age_s=1)
    news = watch.poll()
    assert isinstance(news, Reload)
    assert news.settings is watch.settings
    assert news.changed == ("port", "idle_timeout_secs")
    assert news.needs_restart == ("port",)
    assert watch.poll() is None


def test_edit_of_a_comment_is_no_news(path: Path) -> None:
    watch = SettingsWatch(path)
    put(path, "# mine\nport = 1\n", age_s=1)
    assert watch.poll() is None


@pytest.mark.parametrize(
    "value", ["'x'", "9" * 5000, "[" * 3000 + "]" * 3000, "'\\u0000'"], ids=["text", "huge", "deep", "null character"]
)
def test_invalid_edit_keeps_what_holds_and_is_reported_once(path: Path, value: str) -> None:
    watch = SettingsWatch(path)
    put(path, f"port = {value}\n", age_s=1)
    error = watch.poll()
    assert isinstance(error, ConfigInvalid)
    assert watch.settings.port == 1
    assert watch.error is error
    assert watch.poll() is None
    assert watch.error is error


def test_repair_is_reported_even_when_nothing_differs(path: Path) -> None:
    watch = SettingsWatch(path)
    put(path, "port = 'x'\n", age_s=1)
    watch.poll()
    put(path, "port = 1\n", age_s=2)
    news = watch.poll()
    assert isinstance(news, Reload)
    assert news.changed == ()
    assert watch.error is None


def test_second_edit_within_one_tick_of_the_clock_is_seen(path: Path) -> None:
    watch = SettingsWatch(path)
    path.write_text("port = 2\n")
    assert isinstance(watch.poll(), Reload)
    stamp = path.stat()
    path.write_text("port = 3\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    news = watch.poll()
    assert isinstance(news, Reload)
    assert news.settings.port == 3


@pytest.mark.parametrize("how", ["empty", "gone"])
def test_file_that_is_empty_or_gone_for_a_moment_is_not_believed(path: Path, how: str) -> None:
    watch = SettingsWatch(path)
    if how == "empty":
        put(path, "", age_s=1)
    else:
        path.unlink()
    assert watch.poll() is None
    assert watch.settings.port == 1
    put(path, "port = 4\n", age_s=2)
    assert isinstance(watch.poll(), Reload)
    assert watch.settings.port == 4


@pytest.mark.parametrize("how", ["empty", "gone"])
def test_file_that_stays_empty_or_gone_means_the_defaults(path: Path, how: str) -> None:
    watch = SettingsWatch(path)
    if how == "empty":
        put(path, "", age_s=1)
    else:
        path.unlink()
    watch.poll()
    news = watch.poll()
    assert isinstance(news, Reload)
    assert news.settings == Settings()
    assert watch.poll() is None


def test_file_that_appears_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    watch = SettingsWatch(path)
    assert watch.poll() is None
    put(path, "port = 2\n", age_s=0)
    assert isinstance(watch.poll(), Reload)


def test_force_reports_whatever_there_is(path: Path) -> None:
    watch = SettingsWatch(path)
    assert isinstance(watch.poll(force=True), Reload)
    put(path, "x = 1\n", age_s=1)
    assert isinstance(watch.poll(force=True), ConfigInvalid)
    assert isinstance(watch.poll(force=True), ConfigInvalid)


def test_stamp_tells_edits_appearing_and_vanishing(path: Path) -> None:
    seen = file_stamp(path)
    assert not changed(path, seen)
    put(path, "port = 22\n", age_s=0)
    assert changed(path, seen)
    path.unlink()
    assert changed(path, seen)
    assert not changed(path, None)
