"""https: certificate and key come together, renewed files hold without a cut, and commands find their way."""

import contextlib
import http.client
import json
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.certificates import write_pair
from e2e.daemon import ANY_PORT, Daemon, running_daemon
from e2e.home import Home
from e2e.http import chat_body
from e2e.served import add_stub_model
from e2e.waiting import eventually


@pytest.fixture
def pair(home: Home) -> tuple[Path, Path]:
    return write_pair(home.root)


@contextlib.contextmanager
def serving_https(home: Home, cert: Path, key: Path) -> Iterator[tuple[Daemon, ssl.SSLContext]]:
    """Run the daemon with a certificate; also return what trusts it."""
    trust = ssl.create_default_context(cafile=str(cert))
    with running_daemon(home, (*ANY_PORT, "--tls-cert", str(cert), "--tls-key", str(key)), trust=trust) as daemon:
        yield daemon, trust


def shown_certificate(port: int) -> bytes:
    """Return the certificate that a new connection is greeted with."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain, anybody.wrap_socket(plain) as secure:
        shown = secure.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def body_of(prompt: str, **script: object) -> bytes:
    return json.dumps(chat_body("m", f"{prompt} [[stub: {json.dumps(script)}]]", stream=True)).encode()


@pytest.mark.promise("tls:serve")
def test_an_official_looking_client_speaks_https(stub_home: Home, pair: tuple[Path, Path]) -> None:
    add_stub_model(stub_home, "m")
    with serving_https(stub_home, *pair) as (daemon, _):
        assert daemon.url.startswith("https://127.0.0.1:")
        answer = daemon.client.chat("m", "hello")
        assert answer.json()["choices"][0]["message"]["content"] == "You said: hello"
        assert daemon.client.chat("m", "hi", stream=True).status == 200
        # Plain http on that port is no request, and takes nobody with it.
        plain = http.client.HTTPConnection("127.0.0.1", daemon.client.port, timeout=60)
        plain.request("GET", "/healthz")
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            plain.getresponse()
        plain.close()
        assert daemon.client.get("/healthz").status == 200
        assert "Traceback" not in daemon.said()


@pytest.mark.promise("tls:serve")
def test_commands_reach_a_daemon_that_speaks_https(stub_home: Home, pair: tuple[Path, Path]) -> None:
    add_stub_model(stub_home, "m")
    cert, key = pair
    stub_home.configure(f'tls_cert = "{cert}"\ntls_key = "{key}"\n')
    trust = ssl.create_default_context(cafile=str(cert))
    with running_daemon(stub_home, trust=trust) as daemon:
        port = daemon.client.port
        # By the control socket, by an address without a scheme, and by a whole URL.
        assert stub_home.json("status")["address"] == daemon.url
        for address in (f"127.0.0.1:{port}", f"https://localhost:{port}"):
            done = stub_home.blazar("run", "m", "hello", env={"BLAZAR_HOST": address})
            assert (done.returncode, done.stdout.strip()) == (0, "You said: hello"), done.stderr
        # Another user's command knows the authority only if told.
        other = stub_home.root / "other"
        other.mkdir()
        elsewhere = {"BLAZAR_HOST": f"https://localhost:{port}", "XDG_CONFIG_HOME": str(other)}
        refused = stub_home.blazar("run", "m", "hello", env=elsewhere)
        assert refused.returncode != 0
        assert "its certificate is not trusted" in refused.stderr
        assert "SSL_CERT_FILE" in refused.stderr
        told = stub_home.blazar("run", "m", "hello", env={**elsewhere, "SSL_CERT_FILE": str(cert)})
        assert (told.returncode, told.stdout.strip()) == (0, "You said: hello"), told.stderr


@pytest.mark.promise("tls:both")
@pytest.mark.parametrize("given", ["cert", "key"])
def test_one_without_the_other_is_refused(home: Home, pair: tuple[Path, Path], given: str) -> None:
    file = dict(zip(("cert", "key"), pair, strict=True))[given]
    missing = "key" if given == "cert" else "cert"
    flag = home.blazar("serve", *ANY_PORT, f"--tls-{given}", file)
    assert flag.returncode == 2
    assert f"`--tls-{given}` was given without `--tls-{missing}`" in flag.stderr
    home.configure(f'tls_{given} = "{file}"\n')
    setting = home.blazar("serve", *ANY_PORT)
    assert setting.returncode == 9
    assert f"`tls_{given}` is set and `tls_{missing}` is not" in setting.stderr


@pytest.mark.promise("tls:both")
def test_files_that_cannot_be_used_are_refused_before_anything_is_served(home: Home, pair: tuple[Path, Path]) -> None:
    cert, key = pair
    other = home.root / "other"
    other.mkdir()
    _, wrong_key = write_pair(other, renewed=True)
    nonsense = home.root / "nonsense.pem"
    nonsense.write_text("nonsense")
    for files, reason in (
        ((cert, wrong_key), "the key is not that of the certificate"),
        ((cert, home.root / "missing.pem"), "no such file"),
        ((nonsense, key), "one of them is not PEM"),
    ):
        done = home.blazar("serve", *ANY_PORT, "--tls-cert", files[0], "--tls-key", files[1])
        assert done.returncode == 9
        assert reason in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.promise("tls:renew")
def test_renewed_files_hold_without_dropping_a_connection(stub_home: Home, pair: tuple[Path, Path]) -> None:
    add_stub_model(stub_home, "m")
    cert, key = pair
    with serving_https(stub_home, cert, key) as (daemon, trust):
        port = daemon.client.port
        before = shown_certificate(port)
        kept = http.client.HTTPSConnection("localhost", port, timeout=120, context=trust)
        kept.request("POST", "/v1/chat/completions", body_of("go on", n_tokens=3, hang_after_tokens=1))
        stream = kept.getresponse()
        assert stream.read1(65536)
        # Half of a renewal changes nothing.
        new = stub_home.root / "new"
        new.mkdir()
        write_pair(new, renewed=True)
        shutil.copy(new / "cert.pem", cert)
        eventually(lambda: "the renewed certificate is not used" in daemon.log(), what="the half renewal is reported")
        assert shown_certificate(port) == before
        shutil.copy(new / "key.pem", key)
        eventually(lambda: shown_certificate(port) != before, what="new connections see the new certificate")
        # The stream that began before is still there, and its connection still writes.
        assert kept.sock is not None
        kept.close()


@pytest.mark.promise("tls:drain")
def test_a_stopping_daemon_lets_answers_over_https_finish(stub_home: Home, pair: tuple[Path, Path]) -> None:
    model = add_stub_model(stub_home, "m")
    with serving_https(stub_home, *pair) as (daemon, _), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            daemon.client.post, "/v1/chat/completions", json.loads(body_of("x", n_tokens=20, token_delay_s=0.05))
        )
        model.wait_for(lambda events: any(event["event"] == "request" for event in events))
        daemon.signal(signal.SIGTERM)
        answer = asked.result()
        assert answer.status == 200
        assert answer.body.endswith(b"data: [DONE]\n\n")
        assert daemon.wait() == 0
