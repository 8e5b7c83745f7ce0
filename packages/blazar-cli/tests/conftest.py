import io
import sys
from pathlib import Path

import pytest

from blazar_cli.testing import User
from blazar_stubs import write_stub_model


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    for name in ("BLAZAR_HOST", "OLLAMA_HOST", "BLAZAR_API_KEY", "BLAZAR_KEYS", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    user = User(tmp_path, write_stub_model)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BLAZAR_DATA_DIR", str(user.data_dir))
    monkeypatch.setenv("BLAZAR_CONFIG", str(user.config_file))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    # Nobody listens there: port 1 needs the administrator.
    user.config_file.write_text("port = 1\n")
    return user
