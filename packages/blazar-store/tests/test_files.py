import errno
import os
from pathlib import Path

import pytest

from blazar_store.errors import DiskFull, NotWritable, StorageFailed, StoreError
from blazar_store.files import from_os_error, make_directory, write_whole


@pytest.mark.parametrize(
    ("number", "error"),
    [
        pytest.param(errno.ENOSPC, DiskFull, id="no space"),
        pytest.param(errno.EDQUOT, DiskFull, id="quota"),
        pytest.param(errno.EFBIG, DiskFull, id="file size limit"),
        pytest.param(errno.EACCES, NotWritable, id="permission"),
        pytest.param(errno.EPERM, NotWritable, id="not allowed"),
        pytest.param(errno.EROFS, NotWritable, id="read-only"),
        pytest.param(errno.EIO, StorageFailed, id="broken disk"),
    ],
)
def test_what_the_system_says_becomes_what_to_do(number: int, error: type[StoreError]) -> None:
    assert type(from_os_error(OSError(number, os.strerror(number)), Path("/x"))) is error


def test_file_is_replaced_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"one")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    write_whole(path, b"two")
    write_whole(path, b"three", mode=None)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"three", 0o644)
    write_whole(path, b"four", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_reader_that_has_the_old_file_open_keeps_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    with path.open("rb") as reader:
        write_whole(path, b"new content")
        assert reader.read() == b"old"


def test_broken_off_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_handle: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "file"
    write_whole(path, b"old")
    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_directories_are_made_with_their_parents_and_left_alone_when_there(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b", mode=0o700)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    (tmp_path / "a" / "b").chmod(0o755)
    make_directory(tmp_path / "a" / "b", mode=0o700)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o755
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed):
        make_directory(tmp_path / "file" / "b")
