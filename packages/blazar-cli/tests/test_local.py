"""The daemon that a command of this machine talks to, and where it listens."""

import sys
from pathlib import Path

import pytest

from blazar_cli.local import find_address
from blazar_store.directories import find_directories
from blazar_store.settings import load_settings


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_the_configured_address_is_what_the_settings_say_also_behind_a_byte_order_mark(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BLAZAR_HOST", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config.toml"
    file.write_text('host = "::1"\nport = 18080\n', encoding=encoding)
    places = {"BLAZAR_CONFIG": str(file), "BLAZAR_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)}
    address = find_address(find_directories(places, platform=sys.platform, cwd=tmp_path))
    settings = load_settings(file)
    assert (address.host, address.port) == (settings.host, settings.port) == ("::1", 18080)


def test_a_file_that_no_reader_takes_still_lets_ask_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLAZAR_HOST", "box:1")
    file = tmp_path / "config.toml"
    file.write_text(f"port = {'[' * 3000}{']' * 3000}\n")
    places = {"BLAZAR_CONFIG": str(file), "BLAZAR_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)}
    address = find_address(find_directories(places, platform=sys.platform, cwd=tmp_path))
    assert address.base_url == "http://box:1"
