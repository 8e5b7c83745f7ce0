"""How listings are written: tables on a terminal, aligned plain text in a pipe, JSON when asked."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a listing.

    Attributes:
        title: Upper-case, as in ``ps``.
        right: Whether its cells are numbers, aligned at their last digit.
    """

    title: str
    right: bool = False


def show_json(value: object) -> None:
    """Write a value as indented JSON; keys keep their order."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, empty: str) -> None:
    """Write a listing.

    Args:
        columns: The headings.
        rows: One cell a column.
        empty: What to say, on standard error, when there is no row: what that means and what to type next.
    """
    listed = [tuple(row) for row in rows]
    if not listed:
        click.echo(empty, err=True)
    elif sys.stdout.isatty():
        _show_rich(columns, listed)
    else:
        click.echo("\n".join(plain_table(columns, listed)))


def plain_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose columns are padded with spaces, two between them."""
    titles = [column.title for column in columns]
    widths = [max(len(line[at]) for line in (titles, *rows)) for at in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(cells, widths, columns, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [line(titles), *(line(row) for row in rows)]


def _show_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console  # 100 ms that a pipe need not wait for
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        # Text, not str: a model's name may look like markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Write name and value pairs, one a line, values aligned."""
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        first, *rest = value.splitlines() or [""]
        click.echo(f"{name.ljust(width)}  {first}".rstrip())
        for line in rest:
            click.echo(f"{' ' * width}  {line}".rstrip())


def human_bytes(size: int) -> str:
    """Return a size for people: ``93.8 MiB``, ``4.7 GiB``."""
    if size >= GIB:
        return f"{size / GIB:.1f} GiB"
    return f"{size / MIB:.1f} MiB"


def human_count(number: int | None) -> str:
    """Return a parameter count for people: ``134.5M``, ``7.2B``, or ``-`` when unknown."""
    if number is None:
        return "-"
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def human_seconds(seconds: float | None) -> str:
    """Return a span for people: ``29m 30s``, ``2h 5m``, or ``forever`` for ``None``."""
    if seconds is None:
        return "forever"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600}h"
