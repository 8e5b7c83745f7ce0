"""Failures of the network in words, whatever library they come from."""

import errno
import os
from socket import EAI_NONAME, gaierror
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientConnectorDNSError, ClientConnectorError, ClientPayloadError

from blazar_supervisor.pulls.network_words import reason_of

KEY: Any = SimpleNamespace(host="hub.example", port=443, is_ssl=True, ssl=True)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(TimeoutError(), "the server went silent", id="silence"),
        pytest.param(
            ConnectionResetError(errno.ECONNRESET, "[Errno 104] oops"), "connection reset by peer", id="reset"
        ),
        pytest.param(gaierror(EAI_NONAME, "Name or service not known"), "the name is not known", id="no name"),
        pytest.param(
            ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)")),
            "hub.example: connection refused",
            id="refused",
        ),
        pytest.param(
            ClientConnectorDNSError(KEY, gaierror(EAI_NONAME, "Name or service not known")),
            "hub.example: the name is not known",
            id="no name of a host",
        ),
        pytest.param(RuntimeError("[Errno -2] Name or service not known"), "the name is not known", id="as text"),
        pytest.param(RuntimeError("[Errno 5] Input/output error.\nmore"), "Input/output error", id="first line"),
        pytest.param(ClientPayloadError(), "ClientPayloadError", id="nothing said"),
        pytest.param(OSError("odd"), "odd", id="without a number"),
    ],
)
def test_reasons(error: Exception, words: str) -> None:
    assert reason_of(error) == words
    assert "Errno" not in reason_of(error)


def test_the_words_are_those_of_the_system() -> None:
    assert os.strerror(errno.ENETUNREACH)[1:] in reason_of(OSError(errno.ENETUNREACH, "x"))
