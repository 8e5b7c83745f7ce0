import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar_cli.address import Address
from blazar_cli.errors import BindConflict, BindRefused
from blazar_cli.exit_codes import ExitCode
from blazar_cli.serving.listeners import close_all, open_control_socket, open_tcp_sockets


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_port_0_takes_a_free_one_and_every_family_gets_the_same() -> None:
    listeners = open_tcp_sockets(Address(host="localhost", port=0))
    try:
        ports = {listener.getsockname()[1] for listener in listeners}
        assert len(ports) == 1
        with socket.create_connection(("127.0.0.1", ports.pop()), timeout=5):
            pass
    finally:
        close_all(listeners)


def test_a_taken_port_is_told_with_who_has_it_and_ends_in_status_3(taken: int) -> None:
    with pytest.raises(BindConflict) as refused:
        open_tcp_sockets(Address(port=taken))
    assert f"process {os.getpid()} " in str(refused.value)
    assert f"127.0.0.1:{taken}" in str(refused.value)
    assert "blazar serve --port" in str(refused.value)
    assert int(refused.value.exit_code) == 3


@pytest.mark.parametrize(
    ("address", "words"),
    [
        pytest.param(Address(host="192.0.2.1", port=0), "not an address of this machine", id="documentation network"),
        pytest.param(Address(host="no-such-host.invalid", port=0), "is not known here", id="unknown name"),
    ],
)
def test_an_address_that_is_not_ours_is_refused_without_status_3(address: Address, words: str) -> None:
    with pytest.raises(BindRefused, match=words) as refused:
        open_tcp_sockets(address)
    assert refused.value.exit_code is ExitCode.FAILED


def test_a_conflict_leaves_no_socket_of_an_earlier_family_open(taken: int) -> None:
    with pytest.raises(BindConflict):
        open_tcp_sockets(Address(host="localhost", port=taken))
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", taken))


def test_the_control_socket_is_for_its_owner_only_and_replaces_a_dead_ones(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with open_control_socket(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
