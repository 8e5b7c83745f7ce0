"""Which certificate the daemon serves with, and which scheme an address means."""

from pathlib import Path

import pytest

from blazar_cli.address import resolve_address
from blazar_cli.errors import TlsIncomplete, TlsUnusable
from blazar_cli.serving.tls import Tls, TlsFiles, choose_tls


@pytest.mark.parametrize(
    ("flags", "settings", "files"),
    [
        pytest.param((None, None), (None, None), None, id="neither"),
        pytest.param(("/a", "/b"), (None, None), ("/a", "/b"), id="flags"),
        pytest.param((None, None), ("/a", "/b"), ("/a", "/b"), id="settings"),
        pytest.param(("/a", "/b"), ("/c", "/d"), ("/a", "/b"), id="flags before settings"),
    ],
)
def test_flags_go_before_settings(
    flags: tuple[str | None, str | None], settings: tuple[str | None, str | None], files: tuple[str, str] | None
) -> None:
    chosen = choose_tls(cert_flag=flags[0], key_flag=flags[1], cert_setting=settings[0], key_setting=settings[1])
    assert chosen == (None if files is None else TlsFiles(Path(files[0]), Path(files[1])))


@pytest.mark.parametrize(("cert", "key"), [("/a", None), (None, "/b")])
def test_a_flag_alone_is_refused_also_beside_whole_settings(cert: str | None, key: str | None) -> None:
    with pytest.raises(TlsIncomplete, match="https needs the certificate and its key"):
        choose_tls(cert_flag=cert, key_flag=key, cert_setting="/c", key_setting="/d")


def test_files_that_are_not_there_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TlsUnusable, match=r"cert\.pem .* no such file"):
        Tls(TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem"))


@pytest.mark.parametrize(
    ("flag", "environ", "url"),
    [
        pytest.param(None, {}, "https://127.0.0.1:11435", id="the default"),
        pytest.param("127.0.0.1:8000", {}, "https://127.0.0.1:8000", id="this machine without a scheme"),
        pytest.param("0.0.0.0", {}, "https://127.0.0.1:11435", id="every interface"),
        pytest.param("http://127.0.0.1:8000", {}, "http://127.0.0.1:8000", id="a scheme holds"),
        pytest.param("models.example", {}, "http://models.example:11435", id="another machine"),
        pytest.param(None, {"BLAZAR_HOST": "localhost"}, "https://localhost:11435", id="BLAZAR_HOST"),
        pytest.param(None, {"OLLAMA_HOST": "http://localhost"}, "http://localhost", id="OLLAMA_HOST with a scheme"),
    ],
)
def test_where_the_daemon_speaks_https_its_address_means_https(
    flag: str | None, environ: dict[str, str], url: str
) -> None:
    assert resolve_address(flag=flag, environ=environ, config_tls=True).base_url == url


def test_a_configured_host_means_https_too() -> None:
    address = resolve_address(environ={}, config_host="box.example", config_port=443, config_tls=True)
    assert address.base_url == "https://box.example"
