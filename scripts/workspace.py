"""The workspace's members and how they depend on each other, read from their pyproject.toml files.

For the programs beside it; standard library only, so that they run before anything is installed.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IMPORT = re.compile(r"^\s*(?:from|import)\s+(blazar_\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Member:
    """One package of the workspace.

    Attributes:
        name: The distribution's name, ``blazar-gguf``.
        folder: Relative to the root, ``packages/blazar-gguf``.
        version: As in its pyproject.toml.
        requires: Names of the members that it needs when installed.
        published: Whether it is built for an index; stubs are not.
    """

    name: str
    folder: Path
    version: str
    requires: frozenset[str]
    published: bool

    @property
    def module(self) -> str:
        """The import name, ``blazar_gguf``."""
        return self.name.replace("-", "_")


def read_members(root: Path = ROOT) -> dict[str, Member]:
    """Return the members by name, in the order of their folders.

    Raises:
        FileNotFoundError: ``root`` holds no pyproject.toml.
    """
    workspace = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    patterns: list[str] = workspace["tool"]["uv"]["workspace"]["members"]
    folders = sorted({file.parent for pattern in patterns for file in root.glob(f"{pattern}/pyproject.toml")})
    projects = {
        folder: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"] for folder in folders
    }
    names = {str(project["name"]) for project in projects.values()}
    return {
        str(project["name"]): Member(
            name=str(project["name"]),
            folder=folder.relative_to(root),
            version=str(project["version"]),
            requires=frozenset(_required_names(project)) & names,
            published="Private :: Do Not Upload" not in project.get("classifiers", []),
        )
        for folder, project in projects.items()
    }


def _required_names(project: Mapping[str, object]) -> Iterator[str]:
    extras = project.get("optional-dependencies", {})
    assert isinstance(extras, Mapping)
    for requirements in (project.get("dependencies", []), *extras.values()):
        assert isinstance(requirements, list)
        for requirement in requirements:
            if found := _REQUIREMENT_NAME.match(requirement):
                yield found[0].lower()


def members_used_by_tests(member: Member, members: Mapping[str, Member], root: Path = ROOT) -> set[str]:
    """Return the members whose code the member's tests import, itself left out."""
    by_module = {other.module: other.name for other in members.values()}
    found = {
        by_module[module]
        for file in (root / member.folder / "tests").rglob("*.py")
        for module in _IMPORT.findall(file.read_text(encoding="utf-8"))
        if module in by_module
    }
    return found - {member.name}
