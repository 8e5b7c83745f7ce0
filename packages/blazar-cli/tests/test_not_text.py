import socket
import subprocess
import sys

import pytest

from blazar_cli.address import Address
from blazar_cli.client import CHAT, DaemonClient
from blazar_cli.errors import NotText
from blazar_cli.testing import User


@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_standard_input_that_is_not_text_is_refused_in_words(
    user: User, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    command = [sys.executable, "-m", "blazar_cli.main", "run", "tiny"]
    done = subprocess.run(command, input=b"a\xff", capture_output=True, timeout=100, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().startswith("standard input is not UTF-8 text")


def test_an_argument_that_is_not_text_is_never_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        client = DaemonClient(Address(port=nobody.getsockname()[1]), control_socket=None, api_key=None)
        with pytest.raises(NotText, match="an argument is not UTF-8 text"):
            list(client.lines("POST", CHAT, {"model": "a\udcff"}))
