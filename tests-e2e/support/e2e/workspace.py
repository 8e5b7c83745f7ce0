"""A small workspace in a repository of its own, for the tests of the programs that read one."""

from dataclasses import dataclass
from pathlib import Path

from e2e.repository import run_ok

CHANGELOG = """\
# Changelog of {name}

## Unreleased

### Added

- First version.
"""


@dataclass(frozen=True, slots=True)
class SmallWorkspace:
    """Three packages in a row (``pkg-top`` needs ``pkg-middle`` needs ``pkg-leaf``) and one that stands alone."""

    root: Path

    def write(self, path: str, text: str) -> None:
        """Write a file, its folders included."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        """Return a file's text."""
        return (self.root / path).read_text(encoding="utf-8")

    def git(self, *arguments: str) -> str:
        """Run git in it, as somebody in particular and with nobody's configuration."""
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")
        return run_ok(
            "git", *identity, *arguments, cwd=self.root, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null"
        )

    def add_package(self, name: str, *requires: str, version: str = "0.1.0") -> None:
        """Add a package that requires others, by ranges where they are given."""
        listed = "".join(f'    "{requirement}",\n' for requirement in requires)
        self.write(
            f"packages/{name}/pyproject.toml",
            f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = [\n{listed}]\n',
        )
        self.write(f"packages/{name}/CHANGELOG.md", CHANGELOG.format(name=name))
        self.write(f"packages/{name}/src/{name.replace('-', '_')}/__init__.py", "")
        self.write(f"packages/{name}/tests/test_{name.rpartition('-')[2]}.py", "")


def make_small_workspace(root: Path) -> SmallWorkspace:
    """Lay the workspace out under ``root`` and commit it on ``main``."""
    small = SmallWorkspace(root)
    small.write("pyproject.toml", '[tool.uv.workspace]\nmembers = ["packages/*"]\n')
    small.add_package("blazar-leaf")
    small.add_package("blazar-middle", "blazar-leaf>=0.1,<0.2", "httpx>=1")
    small.add_package("blazar-top", "blazar-middle>=0.1,<0.2", "blazar-leaf[extra]>=0.1,<0.2")
    small.add_package("blazar-alone")
    small.write("tests-e2e/test_all.py", "")
    small.git("init", "--quiet", "--initial-branch=main")
    small.git("add", "--all")
    small.git("commit", "--quiet", "--message=start")
    return small
