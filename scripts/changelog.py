"""A package's CHANGELOG.md, parsed: for the programs that check it and that move its heading.

The form is Keep a Changelog, narrowed: `# Changelog of NAME`, `## Unreleased`, then `## X.Y.Z - YYYY-MM-DD`
newest first, and under each `### Breaking`, `### Added`, `### Changed`, `### Fixed` with one `- ` item a change.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise

KINDS = ("Breaking", "Added", "Changed", "Fixed")

_RELEASE = re.compile(r"## (\d+)\.(\d+)\.(\d+) - (\d{4}-\d{2}-\d{2})")

Version = tuple[int, int, int]


def parse_version(text: str) -> Version:
    """Return ``1.2.3`` as numbers.

    Raises:
        ValueError: It is not three numbers with dots between them.
    """
    found = re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", text)
    if not found:
        raise ValueError(f"'{text}' is not a version: write three numbers, as in 0.2.0")
    major, minor, patch = (int(number) for number in found.groups())
    return major, minor, patch


def show_version(version: Version) -> str:
    """Return the numbers as ``1.2.3``."""
    return ".".join(str(number) for number in version)


@dataclass(slots=True)
class Section:
    """What one version brings.

    Attributes:
        line: The heading's line number, from 1.
        version: ``None`` for what is not released.
        released: The day, for a released one.
        changes: Items by kind, in the file's order.
    """

    line: int
    version: Version | None
    released: date | None
    changes: dict[str, list[str]] = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether there is no item."""
        return not any(self.changes.values())


class MalformedChangelog(ValueError):
    """A line that the form does not allow."""

    def __init__(self, line: int, text: str) -> None:
        self.line = line
        super().__init__(text)


def parse(text: str, *, package: str) -> list[Section]:
    """Return the sections in the file's order, the unreleased one first.

    Raises:
        MalformedChangelog: Something stands where it should not; the text says what belongs there.
    """
    lines = text.splitlines()
    title = f"# Changelog of {package}"
    if not lines or lines[0] != title:
        raise MalformedChangelog(1, f"the first line must be '{title}'")
    sections: list[Section] = []
    kind: str | None = None
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith("## "):
            sections.append(_section(number, line, first=not sections))
            kind = None
        elif line.startswith("### "):
            kind = _kind(number, line, sections)
        elif line.startswith("- "):
            if kind is None:
                raise MalformedChangelog(number, f"an item stands under one of: {', '.join(KINDS)}")
            sections[-1].changes[kind].append(line[2:].strip())
        elif line.startswith("  ") and kind is not None and sections[-1].changes[kind]:
            sections[-1].changes[kind][-1] += " " + line.strip()
        elif line.strip() and sections:
            raise MalformedChangelog(number, "only headings and '- ' items stand below a version")
    if not sections:
        raise MalformedChangelog(len(lines), "there is no '## Unreleased' heading")
    return sections


def _section(number: int, line: str, *, first: bool) -> Section:
    if first:
        if line != "## Unreleased":
            raise MalformedChangelog(number, "the first version heading must be '## Unreleased'")
        return Section(number, None, None)
    found = _RELEASE.fullmatch(line)
    if not found:
        raise MalformedChangelog(number, f"'{line}' is not a release heading: write '## 0.2.0 - 2026-01-31'")
    major, minor, patch, day = found.groups()
    try:
        return Section(number, (int(major), int(minor), int(patch)), date.fromisoformat(day))
    except ValueError:
        raise MalformedChangelog(number, f"{day} is not a day of the calendar") from None


def _kind(number: int, line: str, sections: list[Section]) -> str:
    kind = line.removeprefix("### ")
    if not sections:
        raise MalformedChangelog(number, "a kind of change stands under a version heading")
    if kind not in KINDS:
        raise MalformedChangelog(number, f"'{kind}' is not one of: {', '.join(KINDS)}")
    if kind in sections[-1].changes:
        raise MalformedChangelog(number, f"'{kind}' stands twice under the same version: join them")
    sections[-1].changes[kind] = []
    return kind


def faults(sections: list[Section], *, project_version: Version, today: date) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of everything that parses and is wrong all the same."""
    for section in sections:
        if section.version is not None and section.is_empty():
            yield section.line, f"{show_version(section.version)} lists no change"
        for kind, items in section.changes.items():
            if not items:
                yield section.line, f"'{kind}' is empty: remove it or say what changed"
            for item in items:
                if not item.endswith("."):
                    yield section.line, f"an item is a sentence and ends with a full stop: '{item}'"
    releases = [
        (section.line, section.version, section.released)
        for section in sections
        if section.version is not None and section.released is not None
    ]
    for (line, newer, newer_day), (_, older, older_day) in pairwise(releases):
        if newer <= older:
            yield line, f"{show_version(newer)} stands above {show_version(older)}: newest first, each once"
        if newer_day < older_day:
            yield line, f"{show_version(newer)} is dated before {show_version(older)}"
    if releases:
        line, newest, day = releases[0]
        if newest != project_version:
            shown = show_version(project_version)
            yield line, f"the newest release is {show_version(newest)}, pyproject.toml says {shown}"
        if day > today:
            yield line, f"{show_version(newest)} is dated {day}, which is still to come"
