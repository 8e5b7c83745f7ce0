"""Talking to the daemon: its control socket if it is this machine's, else TCP.

Synchronous and small on purpose: a command makes one or two calls, and importing an asynchronous client would take
longer than most of them. Connecting has a short limit of its own, so that a daemon that is down is reported at once;
reading has none where a model may be loading.
"""

import http.client
import json
import socket
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast
from urllib.parse import quote

from blazar_cli.address import Address
from blazar_cli.errors import AnswerBroken, ApiRefused, CliError, DaemonDown, NotBlazar, NotText
from blazar_cli.overriding import override

CONNECT_TIMEOUT_S = 0.9
"""A daemon that is down is reported within a second; a name that resolves to nothing takes what DNS takes."""

TLS_TIMEOUT_S = 5.0
"""The same where both sides have to greet each other first."""

QUICK_TIMEOUT_S = 10.0
"""For calls that the daemon answers from memory."""

JsonObject = dict[str, object]

HEALTH = "/healthz"
CHAT = "/v1/chat/completions"
MODELS = "/v1/models"
PS = "/api/ps"
STATUS = "/api/daemon"
LOGS = "/api/logs"
EXPLAIN = "/api/explain"
STOP = "/api/stop"
REFRESH = "/api/refresh"
SHUTDOWN = "/api/shutdown"


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class DaemonClient:
    """One daemon, as a command sees it.

    Args:
        address: Where it listens on TCP.
        control_socket: The socket of the local data directory, or ``None``. It is tried first unless somebody asked
            for a daemon at a certain address.
        api_key: Sent over TCP; the control socket needs none, its caller is the owner.
        own_certificate: The certificate of the daemon of this configuration, which is trusted as it is. Others are
            checked against this machine's authorities, or those that ``SSL_CERT_FILE`` names.
    """

    def __init__(
        self,
        address: Address,
        *,
        control_socket: Path | None,
        api_key: str | None,
        own_certificate: Path | None = None,
    ) -> None:
        self.address = address
        self._own_certificate = own_certificate
        self.api_key = api_key
        self._control_socket = None if address.names_a_daemon else control_socket

    @property
    def url(self) -> str:
        """The address for people and for SDKs."""
        return self.address.base_url

    @property
    def own_certificate(self) -> Path | None:
        """The certificate that is trusted as it is, if one is configured."""
        return self._own_certificate

    def over_tcp(self, address: Address, *, api_key: str | None) -> "DaemonClient":
        """Return a client of the same daemon as other programs reach it: at its address, with a key if there is one."""
        return DaemonClient(address, control_socket=None, api_key=api_key, own_certificate=self._own_certificate)

    def is_up(self) -> bool:
        """Return whether it answers."""
        try:
            self.get(HEALTH)
        except CliError:
            return False
        return True

    def unload(self, model: str) -> bool:
        """Unload a model after the answers in progress; return whether it was loaded. Waits as long as that takes."""
        return bool(self.post(STOP, {"model": model}, read_timeout_s=None).get("stopped"))

    def refresh(self) -> None:
        """Have it look at the rows and the settings now; what has changed holds when this returns."""
        self.post(REFRESH, {})

    def residents(self) -> list[JsonObject]:
        """Return what is loaded, as ``/api/ps`` lists it. Wakes nothing."""
        listed = self.get(PS).get("models")
        return [child for child in listed if isinstance(child, dict)] if isinstance(listed, list) else []

    def models_on(self, engine: str) -> tuple[str, ...]:
        """Return the models that an engine build serves at this moment."""
        return tuple(str(child.get("model")) for child in self.residents() if child.get("engine") == engine)

    def require_model(self, model: str) -> None:
        """Check that there is such a model.

        Raises:
            ApiRefused: There is none; the text suggests similar names.
        """
        self.get(f"{MODELS}/{path_segment(model)}")

    def get(self, path: str) -> JsonObject:
        """Return the answer of a call that the daemon answers from memory."""
        with self._exchange("GET", path, None, read_timeout_s=QUICK_TIMEOUT_S) as response:
            return self._json(path, response)

    def post(
        self, path: str, body: Mapping[str, object], *, read_timeout_s: float | None = QUICK_TIMEOUT_S
    ) -> JsonObject:
        """Return the answer of a call; without ``read_timeout_s`` it waits as long as the daemon does."""
        with self._exchange("POST", path, body, read_timeout_s=read_timeout_s) as response:
            return self._json(path, response)

    def lines(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Generator[bytes]:
        """Yield the answer's lines as they arrive, without their ends. Waits for ever.

        Closing the iterator closes the connection, which cancels the work behind it.
        """
        with self._exchange(method, path, body, read_timeout_s=None) as response:
            try:
                while line := response.readline():
                    yield line.rstrip(b"\r\n")
            except (OSError, http.client.HTTPException) as error:
                raise AnswerBroken(url=self.url, reason=_reason(error)) from error

    @contextmanager
    def _exchange(
        self, method: str, path: str, body: Mapping[str, object] | None, *, read_timeout_s: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._dial()
        try:
            try:
                # The limit so far was for connecting.
                connection.sock.settimeout(read_timeout_s)
                self._send(connection, method, path, body)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise AnswerBroken(url=self.url, reason=_reason(error)) from error
            if response.status >= 400:
                raise self._refusal(path, response)
            yield response
        finally:
            connection.close()

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Mapping[str, object] | None
    ) -> None:
        headers = {"Accept": "*/*"}
        if self.api_key and not isinstance(connection, _SocketConnection):
            headers["Authorization"] = f"Bearer {self.api_key}"
        data = None
        if body is not None:
            data = _encoded(body)
            headers["Content-Type"] = "application/json"
        prefix = "" if isinstance(connection, _SocketConnection) else self.address.path
        connection.request(method, prefix + path, data, headers)

    def _dial(self) -> http.client.HTTPConnection:
        if self._control_socket is not None:
            local = _SocketConnection(self._control_socket, timeout=CONNECT_TIMEOUT_S)
            try:
                local.connect()
            except OSError:
                # No daemon in this data directory, or one that died and left its socket. Another user's daemon may
                # still listen on the address.
                local.close()
            else:
                return local
        remote = self._remote()
        try:
            remote.connect()
        except OSError as error:
            remote.close()
            local_only = self.address.is_loopback or self.address.is_wildcard
            raise DaemonDown(url=self.url, reason=_reason(error), local=local_only) from error
        return remote

    def _remote(self) -> http.client.HTTPConnection:
        host, port = self.address.dial_host, self.address.port
        if self.address.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_S)
        # Most commands never come here, and it takes as long to import as they take to run.
        import ssl

        trust = ssl.create_default_context()
        if self._own_certificate is not None:
            with suppress(OSError):
                trust.load_verify_locations(self._own_certificate)
        return http.client.HTTPSConnection(host, port, timeout=TLS_TIMEOUT_S, context=trust)

    def _json(self, path: str, response: http.client.HTTPResponse) -> JsonObject:
        try:
            value = json.loads(response.read())
        except (OSError, http.client.HTTPException) as error:
            raise AnswerBroken(url=self.url, reason=_reason(error)) from error
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise NotBlazar(url=self.url, path=path, status=response.status)
        return cast("JsonObject", value)

    def _refusal(self, path: str, response: http.client.HTTPResponse) -> ApiRefused | NotBlazar | AnswerBroken:
        try:
            raw = response.read()
        except (OSError, http.client.HTTPException) as error:
            return AnswerBroken(url=self.url, reason=_reason(error))
        found = read_error(raw)
        if found is None:
            return NotBlazar(url=self.url, path=path, status=response.status)
        text, code = found
        return ApiRefused(text, code=code, http_status=response.status)


def _encoded(body: object) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        # An argument of the command line that was no UTF-8 comes as lone surrogates.
        raise NotText(what="an argument") from error


def read_error(raw: bytes) -> tuple[str, str] | None:
    """Return text and code of an error body, in OpenAI's envelope or Ollama's, or ``None`` if it is neither."""
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return error, _code(value.get("code"))
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return error["message"], _code(error.get("code"))
    return None


def _code(value: object) -> str:
    # On the wire codes have underscores, as OpenAI's do; here they are spelled as the errors spell them.
    return value.replace("_", "-") if isinstance(value, str) else ""


def path_segment(name: str) -> str:
    """Return a model's name as one segment of a path."""
    return quote(name, safe="")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut off"
    verdict = getattr(error, "verify_message", None)
    if verdict:
        return (
            f"its certificate is not trusted ({verdict}); name the authority's file in SSL_CERT_FILE, or reach it "
            "under the name that the certificate is for"
        )
    if type(error).__name__ == "SSLError":
        return "it does not speak https; write the address with http://"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
