"""Every package builds alone, twice to the same bytes, and works alone where it is installed."""

import hashlib
import shutil
import sys
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from e2e.repository import ROOT, find_uv, run_ok

pytestmark = [pytest.mark.build, pytest.mark.xdist_group("distributions"), pytest.mark.timeout(600)]

PACKAGES = tuple(sorted(file.parent.name for file in ROOT.glob("packages/*/pyproject.toml")))
WITH_CODE = tuple(name for name in PACKAGES if name != "blazar")

# Walks a package and imports every module, so that an undeclared dependency shows wherever it is imported.
# `testing` modules are for test suites and may use pytest; `__main__` would run.
IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
package.__all__
names = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    if not {"testing", "__main__"} & set(name.split(".")):
        importlib.import_module(name)
print(*sorted({name.split(".")[0] for name in sys.modules if name.startswith("blazar")}))
"""


def _copy_of_the_workspace(to: Path) -> Path:
    """Lay a copy of the sources elsewhere: another path, other times, no caches and no .git."""
    ignore = shutil.ignore_patterns(".*", "__pycache__", "*.pyc", "dist")
    for part in ("packages", "stubs"):
        shutil.copytree(ROOT / part, to / part, ignore=ignore, copy_function=shutil.copyfile)
    for part in ("pyproject.toml", "uv.lock"):
        shutil.copyfile(ROOT / part, to / part)
    return to


def _build_all(sources: Path, out: Path) -> Path:
    run_ok(find_uv(), "build", "--quiet", "--all-packages", "--python", sys.executable, "--out-dir", out, cwd=sources)
    return out


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders of distributions, each built from a copy of the sources of its own."""
    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(
                _build_all,
                _copy_of_the_workspace(tmp_path_factory.mktemp(f"{turn}-sources")),
                tmp_path_factory.mktemp(f"{turn}-dist"),
            )
            for turn in ("first", "second")
        ]
        first, second = (job.result() for job in jobs)
    return first, second


@pytest.fixture(scope="module")
def wheels(builds: tuple[Path, Path]) -> dict[str, Path]:
    """The wheel of each package."""
    found = {file.name.split("-")[0].replace("_", "-"): file for file in builds[0].glob("*.whl")}
    assert set(found) >= set(PACKAGES)
    return found


def _hashes(folder: Path) -> dict[str, str]:
    files = (file for file in sorted(folder.iterdir()) if file.suffix in {".whl", ".gz"})
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def _scripts(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        return archive.read(names[0]).decode() if names else ""


def _python_of_clean_environment(folder: Path, *requirements: str | Path, constraints: Path) -> Path:
    """Make an environment with the requirements and what they declare, nothing else."""
    run_ok(find_uv(), "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    run_ok(find_uv(), "pip", "install", "--quiet", "--python", python, "--constraint", constraints, *requirements)
    return python


@pytest.fixture(scope="module")
def constraints(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pins each of our names to the wheel just built: an index may know the name for something else."""
    file = tmp_path_factory.mktemp("constraints") / "ours.txt"
    file.write_text("".join(f"{name} @ {wheels[name].as_uri()}\n" for name in PACKAGES), encoding="utf-8")
    return file


def test_building_twice_gives_the_same_bytes(builds: tuple[Path, Path]) -> None:
    first, second = (_hashes(folder) for folder in builds)
    assert first == second
    assert len(first) >= 2 * len(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_holds_its_licence_and_readme(package: str, wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels[package]) as archive:
        licences = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
        assert len(licences) == 1
        assert archive.read(licences[0]) == (ROOT / "LICENSE").read_bytes()
    metadata = _metadata(wheels[package])
    assert metadata["License-Expression"] == "MIT"
    assert (ROOT / "packages" / package / "README.md").read_text(encoding="utf-8") in str(metadata.get_payload())


@pytest.mark.parametrize("package", WITH_CODE)
def test_a_wheel_says_that_it_is_typed(package: str, wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels[package]) as archive:
        assert f"{package.replace('-', '_')}/py.typed" in archive.namelist()


def test_blazar_gguf_requires_nothing(wheels: dict[str, Path]) -> None:
    assert _metadata(wheels["blazar-gguf"]).get_all("Requires-Dist") is None


def test_the_metapackage_is_a_script_entry_and_no_code(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["blazar"]) as archive:
        assert all(".dist-info/" in name for name in archive.namelist())
    assert _scripts(wheels["blazar"]) == _scripts(wheels["blazar-cli"])
    assert "blazar = " in _scripts(wheels["blazar"])


def test_neighbours_are_wanted_by_range(wheels: dict[str, Path]) -> None:
    for wheel in wheels.values():
        for requirement in _metadata(wheel).get_all("Requires-Dist", []):
            if requirement.startswith("blazar"):
                assert ">=" in requirement, requirement
                assert "<" in requirement, requirement


@pytest.mark.parametrize("package", WITH_CODE)
def test_a_package_installed_alone_imports(
    package: str, wheels: dict[str, Path], constraints: Path, tmp_path: Path
) -> None:
    python = _python_of_clean_environment(tmp_path / "env", wheels[package], constraints=constraints)
    imported = run_ok(python, "-I", "-W", "error", "-c", IMPORT_ALL, package.replace("-", "_"), cwd=tmp_path).split()
    assert package.replace("-", "_") in imported
    run_ok(find_uv(), "pip", "check", "--quiet", "--python", python)


@pytest.mark.parametrize("package", ["blazar", "blazar-cli"])
def test_the_command_runs_where_only_this_package_was_asked_for(
    package: str, wheels: dict[str, Path], constraints: Path, tmp_path: Path
) -> None:
    python = _python_of_clean_environment(tmp_path / "env", wheels[package], constraints=constraints)
    shown = run_ok(python.with_name("blazar"), "version", cwd=tmp_path, HOME=str(tmp_path))
    project = tomllib.loads((ROOT / "packages/blazar-cli/pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] in shown
