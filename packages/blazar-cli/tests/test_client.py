import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blazar_cli.address import Address, AddressSource
from blazar_cli.client import CONNECT_TIMEOUT_S, DaemonClient, path_segment, read_error
from blazar_cli.errors import AnswerBroken, ApiRefused, DaemonDown, NotBlazar
from blazar_cli.exit_codes import ExitCode


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers a few paths, and remembers what it was asked."""

    asked: list[tuple[str, str | None]]

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        type(self).asked.append((self.path, self.headers.get("Authorization")))
        match self.path:
            case "/json" | "/prefix/json":
                self._send(200, b'{"a": 1}')
            case "/refused":
                self._send(404, b'{"error": {"message": "no such thing", "code": "model_not_found"}}')
            case "/ollama":
                self._send(404, b'{"error": "no such thing", "code": "model_not_found"}')
            case "/text":
                self._send(200, b"Ollama is running")
            case "/html":
                self._send(404, b"<html>not found</html>")
            case "/cut":
                self._send(200, b'{"a":', length=100)
            case _:
                self._send(200, b"one\r\ntwo\nthree")

    def _send(self, status: int, body: bytes, *, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)


class UnixServer(http.server.ThreadingHTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "unix", 0

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, _ = self.socket.accept()
        return connection, ("unix", 0)


@contextmanager
def serving(server: http.server.HTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def asked() -> list[tuple[str, str | None]]:
    Answers.asked = []
    return Answers.asked


@pytest.fixture
def tcp(asked: list[tuple[str, str | None]]) -> Iterator[Address]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    with serving(server):
        yield Address(port=server.server_address[1], source=AddressSource.FLAG)


@pytest.fixture
def client(tcp: Address) -> DaemonClient:
    return DaemonClient(tcp, control_socket=None, api_key="secret")


def test_the_key_and_the_prefix_are_sent_over_tcp(tcp: Address, asked: list[tuple[str, str | None]]) -> None:
    address = Address(port=tcp.port, source=AddressSource.FLAG, path="/prefix")
    assert DaemonClient(address, control_socket=None, api_key="secret").get("/json") == {"a": 1}
    assert asked == [("/prefix/json", "Bearer secret")]


@pytest.mark.parametrize("path", ["/refused", "/ollama"])
def test_a_refusal_in_either_envelope_is_the_daemons_own_text(client: DaemonClient, path: str) -> None:
    with pytest.raises(ApiRefused) as refused:
        client.get(path)
    assert str(refused.value) == "no such thing"
    assert refused.value.exit_code is ExitCode.NOT_FOUND


@pytest.mark.parametrize("path", ["/text", "/html"])
def test_another_server_is_told_from_a_daemon(client: DaemonClient, path: str) -> None:
    with pytest.raises(NotBlazar, match="is not a Blazar daemon"):
        client.get(path)


def test_an_answer_that_breaks_off_is_told(client: DaemonClient) -> None:
    with pytest.raises(AnswerBroken, match="cut off"):
        client.get("/cut")


def test_lines_come_without_their_ends(client: DaemonClient) -> None:
    assert list(client.lines("GET", "/lines")) == [b"one", b"two", b"three"]


def test_a_daemon_that_is_down_is_reported_with_the_command_that_starts_it() -> None:
    client = DaemonClient(Address(port=1), control_socket=None, api_key=None)
    with pytest.raises(DaemonDown, match="`blazar serve`"):
        client.get("/json")
    assert client.is_up() is False


def test_a_daemon_elsewhere_that_is_down_names_the_ways_to_correct_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = Address(host="localhost.localdomain.invalid", port=port, source=AddressSource.BLAZAR_HOST)
    with pytest.raises(DaemonDown, match="BLAZAR_HOST"):
        DaemonClient(address, control_socket=None, api_key=None).get("/json")


def test_a_host_that_drops_packets_is_given_up_after_the_short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[object] = []

    def drop(address: object, timeout: object = None, source_address: object = None) -> socket.socket:
        limits.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", drop)
    with pytest.raises(DaemonDown, match="no answer in time"):
        DaemonClient(Address(), control_socket=None, api_key=None).get("/json")
    assert limits == [CONNECT_TIMEOUT_S]
    assert CONNECT_TIMEOUT_S < 1


def test_the_control_socket_comes_first_and_needs_no_key(
    tmp_path: Path, tcp: Address, asked: list[tuple[str, str | None]]
) -> None:
    path = tmp_path / "control.sock"
    with serving(UnixServer(str(path), Answers)):  # type: ignore[arg-type]  # a path is a unix socket's address
        local = DaemonClient(Address(port=1), control_socket=path, api_key="secret")
        assert local.get("/json") == {"a": 1}
        assert asked == [("/json", None)]
        explicit = DaemonClient(tcp, control_socket=path, api_key="secret")
        explicit.get("/json")
        assert asked[-1] == ("/json", "Bearer secret")


def test_a_dead_control_socket_falls_back_to_the_address(tmp_path: Path, tcp: Address) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    address = Address(port=tcp.port)
    assert DaemonClient(address, control_socket=path, api_key=None).get("/json") == {"a": 1}


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        pytest.param({"error": {"message": "m", "code": "queue_full"}}, ("m", "queue-full"), id="OpenAI's"),
        pytest.param({"error": {"message": "m", "code": 400}}, ("m", ""), id="the engine's, with a number"),
        pytest.param({"error": "m"}, ("m", ""), id="Ollama's"),
        pytest.param({"detail": "m"}, None, id="somebody else's"),
        pytest.param(["error"], None, id="a list"),
    ],
)
def test_error_bodies_are_read(raw: object, wanted: tuple[str, str] | None) -> None:
    assert read_error(json.dumps(raw).encode()) == wanted


@pytest.mark.parametrize(
    ("name", "segment"),
    [("org/model:Q4", "org%2Fmodel%3AQ4"), ("a b", "a%20b"), ("50%", "50%25"), ("ü", "%C3%BC"), ("..", "..")],
)
def test_any_name_is_one_segment_of_a_path(name: str, segment: str) -> None:
    assert path_segment(name) == segment
