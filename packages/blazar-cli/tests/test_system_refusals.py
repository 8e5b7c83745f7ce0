import errno
import subprocess
import sys
from pathlib import Path

import pytest

from blazar_cli.system_refusals import describe_refusal
from blazar_cli.testing import User

BLAZAR = (sys.executable, "-m", "blazar_cli.main")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), "no space left on device. Make room", id="full"),
        pytest.param(PermissionError(errno.EACCES, "Permission denied", "/x"), "at '/x': permission", id="permission"),
        pytest.param(OSError(errno.EROFS, "Read-only file system", b"/x"), "at '/x': read-only", id="name-in-bytes"),
        pytest.param(OSError(errno.EIO, "Input/output error"), "`blazar doctor`", id="anything-else"),
        pytest.param(OSError("odd"), "the system refused: odd.", id="without-a-number"),
    ],
)
def test_a_refusal_says_what_where_and_what_next(error: OSError, expected: str) -> None:
    assert expected in describe_refusal(error)


@pytest.mark.parametrize("command", [("models", "add"), ("fit",), ("engine", "add-local")], ids=lambda words: words[0])
def test_a_path_too_long_for_any_file_is_no_traceback(user: User, command: tuple[str, ...]) -> None:
    done = subprocess.run([*BLAZAR, *command, "n" * 300], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("the system refused at ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "command",
    [("version",), ("--help",), ("config", "schema"), ("models", "list", "--json")],
    ids=lambda words: words[0],
)
def test_a_full_disk_under_the_output_is_said_in_one_line(user: User, command: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [*BLAZAR, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=100, check=False
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("the system refused: no space left on device.")


def test_a_reader_that_left_is_told_nothing(user: User) -> None:
    process = subprocess.Popen([*BLAZAR, "config", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as complaints:
        assert complaints.read() == ""
    assert process.wait(100) == 1
