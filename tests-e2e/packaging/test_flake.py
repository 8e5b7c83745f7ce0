"""The flake agrees with its lock and with the workspace; where Nix is installed it also parses and evaluates.

Evaluation runs against stand-ins for the four inputs (stand_in.nix), since theirs need a network. That shows wrong
names, missing members and misspelt arguments; what the real inputs make of it is built elsewhere.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.repository import ROOT, run_ok

SYSTEMS = ["aarch64-darwin", "aarch64-linux", "x86_64-linux"]
LIBRARIES = {file.parent.name for file in ROOT.glob("packages/*/pyproject.toml")} - {"blazar"}

needs_nix = pytest.mark.skipif(
    shutil.which("nix-instantiate") is None, reason="nix-instantiate is not installed (Debian: nix-bin)"
)


def _declared_inputs() -> dict[str, str]:
    text = (ROOT / "flake.nix").read_text(encoding="utf-8")
    named = re.findall(r'(\S+) = \{\s*url = "(github:[^"]+)"', text)
    return dict(named) | dict(re.findall(r'(\S+)\.url = "(github:[^"]+)"', text))


def test_the_lock_pins_the_inputs_as_they_are_spelled() -> None:
    nodes = json.loads((ROOT / "flake.lock").read_text(encoding="utf-8"))["nodes"]
    declared = _declared_inputs()
    assert set(declared) == set(nodes["root"]["inputs"])
    for name, url in declared.items():
        original = nodes[nodes["root"]["inputs"][name]]["original"]
        branch = f"/{original['ref']}" if "ref" in original else ""
        assert url == f"{original['type']}:{original['owner']}/{original['repo']}{branch}"


@pytest.fixture(scope="module")
def outputs() -> Mapping[str, Any]:
    shown = run_ok(
        *("nix-instantiate", "--eval", "--strict", "--json", "--readonly-mode"),
        *(Path(__file__).with_name("stand_in.nix"), "--arg", "root", ROOT),
    )
    parsed: Mapping[str, Any] = json.loads(shown)
    return parsed


@needs_nix
def test_it_parses() -> None:
    run_ok("nix-instantiate", "--parse", ROOT / "flake.nix")


@needs_nix
@pytest.mark.parametrize("output", ["packages", "apps", "devShells", "checks", "formatter"])
def test_every_system_has_every_output(outputs: Mapping[str, Any], output: str) -> None:
    assert outputs["systems"][output] == SYSTEMS


@needs_nix
def test_every_library_is_a_package_and_the_program_is_the_default(outputs: Mapping[str, Any]) -> None:
    assert set(outputs["packages"]) == LIBRARIES | {"default", "blazar-env"}
    assert outputs["program"] == "blazar-cli"
    assert outputs["apps"]["default"].endswith("/bin/blazar")


@needs_nix
def test_builds_take_wheels(outputs: Mapping[str, Any]) -> None:
    assert outputs["overlays"] == ["build-systems-wheel", "locked-wheel"]


@needs_nix
def test_the_shell_is_editable_and_leaves_uv_nothing_to_sync(outputs: Mapping[str, Any]) -> None:
    shell = outputs["shell"]
    assert shell["overlays"][-1] == "editable-$REPO_ROOT"
    assert shell["env"]["UV_NO_SYNC"] == "1"
    assert shell["env"]["UV_PYTHON_DOWNLOADS"] == "never"
    assert "unset PYTHONPATH" in shell["shellHook"]


@needs_nix
def test_checks_run_something(outputs: Mapping[str, Any]) -> None:
    scripts = outputs["checks"]
    assert "bin/blazar --version" in scripts["blazar-version"]
    assert "pytest" in scripts["blazar-gguf-pytest"]
