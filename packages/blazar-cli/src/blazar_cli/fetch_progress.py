"""Showing how far a download is: a bar on a terminal, a line now and then in a pipe. On standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from blazar_cli.output import human_bytes
from blazar_cli.parts import FetchProgress

_STEP_PERCENT = 10


@contextmanager
def fetch_progress(title: str) -> Iterator[FetchProgress]:
    """Yield what :func:`blazar_cli.parts.ensure_part` reports to; nothing is shown for what is in the cache."""
    if sys.stderr.isatty():
        with _bar(title) as report:
            yield report
    else:
        yield _Lines(title)


class _Lines:
    """One line at the start and one every ten percent."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._next_percent = 0

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        percent = 100 * done_bytes // total_bytes
        if percent >= self._next_percent:
            self._next_percent = percent - percent % _STEP_PERCENT + _STEP_PERCENT
            size = f"{human_bytes(done_bytes)} of {human_bytes(total_bytes)}"
            click.echo(f"fetching {self._title}: {percent} % ({size})", err=True)


@contextmanager
def _bar(title: str) -> Iterator[FetchProgress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("fetching {task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        task = progress.add_task(title, total=None, visible=False)

        def report(done_bytes: int, total_bytes: int) -> None:
            progress.update(task, completed=done_bytes, total=total_bytes, visible=True)

        yield report
