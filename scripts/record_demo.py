#!/usr/bin/env python3
"""Run the demo for real and draw its terminal as docs/demo.svg, the picture in the README."""

import argparse
import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from workspace import ROOT

WIDTH = 104


def run_demo(arguments: list[str]) -> str:
    """Return what ``scripts/demo`` prints.

    Raises:
        SystemExit: It failed; what it said is the text.
    """
    done = subprocess.run(
        [str(ROOT / "scripts/demo"), *arguments],
        env={**os.environ, "COLUMNS": str(WIDTH)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"record_demo: scripts/demo exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def draw(command: str, output: str) -> str:
    """Return the SVG of a terminal that shows a command and its output."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.assemble(("$ ", "green"), (command, "bold")))
    # The home directory is nobody's business.
    shown = output.replace(str(Path.home()), "~").rstrip()
    for line in shown.splitlines():
        console.print(Text(line, style="bold cyan" if line.startswith(">>>") else ""), soft_wrap=False)
    # Rich names a web font; a picture in a README fetches nothing.
    return re.sub(r',\s*url\("https?:[^)]*\) format\("\w+"\)', "", console.export_svg(title=command))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/record_demo.py", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/demo.svg", help="where to (default docs/demo.svg)")
    parser.add_argument("arguments", nargs="*", help="arguments for scripts/demo, after --")
    given = parser.parse_args()
    command = " ".join(["scripts/demo", *given.arguments])
    svg = draw(command, run_demo(given.arguments))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(svg, encoding="utf-8")
    print(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
