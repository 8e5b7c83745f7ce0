from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import platformdirs.windows
import pytest

from blazar_store.directories import find_directories


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_defaults_are_the_xdg_directories_under_home(tmp_path: Path, platform: str) -> None:
    found = find_directories({"HOME": str(tmp_path)}, platform=platform, cwd=Path("/"))
    assert found.config_dir == tmp_path / ".config" / "blazar"
    assert found.config_file == found.config_dir / "config.toml"
    assert found.data_dir == tmp_path / ".local" / "share" / "blazar"
    assert found.cache_dir == tmp_path / ".cache" / "blazar"
    assert found.fallback is None
    assert list(tmp_path.iterdir()) == []


def test_xdg_variables_move_them(tmp_path: Path) -> None:
    env = {
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "XDG_DATA_HOME": str(tmp_path / "d"),
        "XDG_CACHE_HOME": str(tmp_path / "k"),
    }
    found = find_directories(env, platform="linux", cwd=Path("/"))
    assert (found.config_dir, found.data_dir, found.cache_dir) == tuple(tmp_path / name / "blazar" for name in "cdk")
    assert found.fallback is None


def test_relative_xdg_variables_are_ignored_as_the_specification_says(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_DATA_HOME": "data"}
    assert find_directories(env, platform="linux", cwd=Path("/")).data_dir == tmp_path / ".local/share/blazar"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("/srv/models", "/srv/models", id="absolute"),
        pytest.param("mine", "{cwd}/mine", id="relative to where the command runs"),
        pytest.param("~/mine", "{home}/mine", id="home"),
    ],
)
def test_data_directory_can_be_named(tmp_path: Path, given: str, expected: str) -> None:
    env = {"HOME": str(tmp_path / "home"), "BLAZAR_DATA_DIR": given}
    (tmp_path / "home").mkdir()
    found = find_directories(env, platform="linux", cwd=tmp_path)
    assert found.data_dir == Path(expected.format(cwd=tmp_path, home=tmp_path / "home"))
    assert found.fallback is None


def test_configuration_can_be_named_as_a_file_or_a_directory(tmp_path: Path) -> None:
    def config_file(given: Path) -> Path:
        env = {"HOME": str(tmp_path), "BLAZAR_CONFIG": str(given)}
        return find_directories(env, platform="linux", cwd=Path("/")).config_file

    assert config_file(tmp_path / "my.toml") == tmp_path / "my.toml"
    assert config_file(tmp_path) == tmp_path / "config.toml"


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({}, id="nothing is set"),
        pytest.param({"HOME": ""}, id="empty home"),
        pytest.param({"HOME": "relative"}, id="relative home"),
    ],
)
def test_without_a_home_the_current_directory_stands_in_loudly(tmp_path: Path, env: dict[str, str]) -> None:
    found = find_directories(env, platform="linux", cwd=tmp_path)
    assert found.config_file == tmp_path / "blazar" / "config.toml"
    assert found.data_dir == tmp_path / "blazar"
    assert found.cache_dir == tmp_path / "blazar" / "cache"
    assert found.fallback is not None
    assert found.fallback.startswith("WARNING: ")
    for word in ("configuration", "data", "cache", "HOME", "BLAZAR_DATA_DIR", str(tmp_path)):
        assert word in found.fallback


def test_only_the_missing_place_falls_back(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path / "d"), "XDG_CACHE_HOME": str(tmp_path / "k")}
    found = find_directories(env, platform="linux", cwd=tmp_path)
    assert found.data_dir == tmp_path / "d" / "blazar"
    assert found.fallback is not None
    assert "configuration (" in found.fallback
    assert "data (" not in found.fallback


def test_home_that_is_a_file_falls_back(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    found = find_directories({"HOME": str(tmp_path / "home")}, platform="linux", cwd=tmp_path)
    assert found.data_dir == tmp_path / "blazar"
    assert "is not a directory" in (found.fallback or "")


def test_home_that_cannot_be_created_falls_back(
    public_dir: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    public_dir.chmod(0o555)
    env = {"HOME": str(public_dir / "home")}
    with unprivileged():
        found = find_directories(env, platform="linux", cwd=Path("/work"))
    assert {found.config_dir, found.data_dir} == {Path("/work/blazar")}
    assert "no permission" in (found.fallback or "")


def test_existing_read_only_directory_is_not_replaced(
    public_dir: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    (public_dir / "d" / "blazar").mkdir(parents=True)
    (public_dir / "c").mkdir()
    for path in (public_dir / "d" / "blazar", public_dir / "d", public_dir / "c"):
        path.chmod(0o555)
    env = {
        "XDG_DATA_HOME": str(public_dir / "d"),
        "XDG_CONFIG_HOME": str(public_dir / "c"),
        "XDG_CACHE_HOME": str(public_dir / "d"),
    }
    with unprivileged():
        found = find_directories(env, platform="linux", cwd=Path("/work"))
    assert found.data_dir == public_dir / "d" / "blazar"
    assert found.config_dir == public_dir / "c" / "blazar"
    assert found.fallback is None


def test_named_data_directory_never_falls_back(
    public_dir: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    public_dir.chmod(0o555)
    env = {"HOME": "/tmp", "BLAZAR_DATA_DIR": str(public_dir / "data")}
    with unprivileged():
        found = find_directories(env, platform="linux", cwd=Path("/work"))
    assert found.data_dir == public_dir / "data"
    assert found.fallback is None


def test_windows_uses_the_systems_own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs.windows, "get_win_folder", lambda _name: str(tmp_path))
    found = find_directories({}, platform="win32", cwd=Path("/"))
    assert tmp_path in found.data_dir.parents
    assert tmp_path in found.cache_dir.parents
    assert found.data_dir != found.cache_dir
    assert found.fallback is None
