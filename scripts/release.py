#!/usr/bin/env python3
"""Make a release of one package ready: move its changelog's heading and set its version.

What was under "Unreleased" becomes the new version's section; pyproject.toml gets the version; neighbours whose
range does not admit it get the range of its series. Nothing is committed or published: the commands for that are
printed.
"""

import argparse
import re
import sys
from datetime import UTC, date, datetime
from pathlib import Path

from changelog import MalformedChangelog, Section, Version, parse, parse_version, show_version
from workspace import ROOT, Member, read_members


class ReleaseRefused(Exception):
    """The release would be wrong; the text says why and what to do."""


def least_next(current: Version, unreleased: Section) -> Version:
    """Return the smallest version that these changes allow, by semantic versioning.

    Before 1.0.0 the second number counts breaking changes and additions alike.
    """
    major, minor, patch = current
    if unreleased.changes.get("Breaking") and major:
        return major + 1, 0, 0
    if unreleased.changes.get("Breaking") or unreleased.changes.get("Added"):
        return major, minor + 1, 0
    return major, minor, patch + 1


def check_version(wanted: Version, member: Member, sections: list[Section]) -> None:
    """Refuse a version that is taken, too small for the changes, or without changes.

    Raises:
        ReleaseRefused: It is one of those.
    """
    unreleased, *released = sections
    if unreleased.is_empty():
        raise ReleaseRefused(
            f"nothing stands under 'Unreleased' in {member.folder}/CHANGELOG.md: "
            "write there, in one sentence each, what its users get, then release."
        )
    current = parse_version(member.version)
    if not released:
        if wanted < current:
            raise ReleaseRefused(
                f"{show_version(wanted)} is older than {member.version}, the version in pyproject.toml."
            )
        return
    least = least_next(current, unreleased)
    if wanted < least:
        kinds = ", ".join(unreleased.changes)
        raise ReleaseRefused(
            f"{show_version(wanted)} is too small: after {member.version}, changes under {kinds} "
            f"make it {show_version(least)} or later."
        )


def moved_heading(text: str, version: Version, day: date) -> str:
    """Return the changelog with a new, empty "Unreleased" above what is now this version's section."""
    return text.replace("## Unreleased\n", f"## Unreleased\n\n## {show_version(version)} - {day.isoformat()}\n", 1)


def with_version(pyproject: str, version: Version) -> str:
    """Return the pyproject.toml with this version."""
    return re.sub(r'(?m)^version = "[^"]*"$', f'version = "{show_version(version)}"', pyproject, count=1)


def with_range(pyproject: str, package: str, version: Version) -> str:
    """Return a neighbour's pyproject.toml with a range for ``package`` that admits ``version``.

    A range that admits it already stays as it is.
    """
    series = re.compile(rf'"{re.escape(package)}(\[[a-z,]+\])?>=([0-9.]+),<([0-9.]+)"')

    def widened(found: re.Match[str]) -> str:
        extra, low, high = found[1] or "", _padded(found[2]), _padded(found[3])
        if low <= version < high:
            return found[0]
        major, minor, _ = version
        lowest, next_series = (
            (f"{major}.{minor}", f"{major}.{minor + 1}") if major == 0 else (f"{major}", f"{major + 1}")
        )
        return f'"{package}{extra}>={lowest},<{next_series}"'

    return series.sub(widened, pyproject)


def _padded(text: str) -> Version:
    numbers = [int(number) for number in text.split(".")]
    major, minor, patch = [*numbers, 0, 0][:3]
    return major, minor, patch


def release(root: Path, package: str, version_text: str, day: date) -> list[Path]:
    """Write the release's edits and return the files changed, relative to ``root``.

    Raises:
        ReleaseRefused: No such package, or the version will not do; nothing was written.
    """
    members = read_members(root)
    member = members.get(package)
    if member is None or not member.published:
        known = ", ".join(name for name, other in members.items() if other.published)
        raise ReleaseRefused(f"there is no package '{package}' to release; there are: {known}.")
    changelog = root / member.folder / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    try:
        version = parse_version(version_text)
        sections = parse(text, package=package)
    except MalformedChangelog as fault:
        raise ReleaseRefused(f"{member.folder}/CHANGELOG.md:{fault.line}: {fault}") from fault
    except ValueError as fault:
        raise ReleaseRefused(f"{fault}.") from fault
    check_version(version, member, sections)

    edits = {changelog: moved_heading(text, version, day)}
    for other in members.values():
        pyproject = root / other.folder / "pyproject.toml"
        before = pyproject.read_text(encoding="utf-8")
        after = with_version(before, version) if other is member else with_range(before, package, version)
        if after != before:
            edits[pyproject] = after
    for path, after in edits.items():
        path.write_text(after, encoding="utf-8")
    return [path.relative_to(root) for path in edits]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/release.py", description=__doc__)
    parser.add_argument("package", metavar="PACKAGE", help="blazar-gguf, say")
    parser.add_argument("version", metavar="VERSION", help="0.2.0, say")
    parser.add_argument("--date", type=date.fromisoformat, default=None, help="the day (default: today, UTC)")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    given = parser.parse_args()
    day: date = given.date or datetime.now(tz=UTC).date()
    try:
        files = release(given.root, given.package, given.version, day)
    except ReleaseRefused as refusal:
        print(f"release.py: {refusal}", file=sys.stderr)
        return 1
    area = given.package.removeprefix("blazar-")
    print(f"{given.package} {given.version} is ready. Next:")
    print("  uv lock")
    print(f"  git commit -m '{area}: release {given.version}' -- uv.lock {' '.join(map(str, files))}")
    print(f"  git tag {given.package}-v{given.version}")
    print(f"  uv build --package {given.package}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
