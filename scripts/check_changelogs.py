#!/usr/bin/env python3
"""Check every published package's CHANGELOG.md: headings, versions, dates, and that each item is a sentence."""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from changelog import MalformedChangelog, faults, parse, parse_version
from workspace import ROOT, Member, read_members


def faults_of(member: Member, root: Path) -> Iterator[str]:
    """Yield ``path:line: fault`` for each fault of the member's changelog."""
    path = member.folder / "CHANGELOG.md"
    try:
        text = (root / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        yield f"{path}: missing; every published package has one"
        return
    try:
        sections = parse(text, package=member.name)
    except MalformedChangelog as fault:
        yield f"{path}:{fault.line}: {fault}"
        return
    today = datetime.now(tz=UTC).date()
    for line, fault_text in faults(sections, project_version=parse_version(member.version), today=today):
        yield f"{path}:{line}: {fault_text}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/check_changelogs.py", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    root: Path = parser.parse_args().root
    found = [fault for member in read_members(root).values() if member.published for fault in faults_of(member, root)]
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
