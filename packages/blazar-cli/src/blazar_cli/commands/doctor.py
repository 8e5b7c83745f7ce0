"""``blazar doctor``: is everything in order, and if not, what to do."""

import sys
from collections.abc import Iterator
from dataclasses import asdict

import rich_click as click

from blazar_cli.commands.options import json_option
from blazar_cli.doctor.finding import Finding, Verdict
from blazar_cli.doctor.machine import check_daemon, check_memory, check_platform, check_tools
from blazar_cli.doctor.places import check_config, check_directories, check_store
from blazar_cli.doctor.rows import check_engines, check_models
from blazar_cli.exit_codes import ExitCode
from blazar_cli.local import find_address, here
from blazar_cli.output import show_json

_MARKS = {Verdict.OK: ("ok  ", "green"), Verdict.WARN: ("warn", "yellow"), Verdict.BAD: ("BAD ", "red")}


@click.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, *, as_json: bool) -> None:
    """Check engine, models, ports, directories and memory.

    Each line is a verdict, and below it what to do. The exit status is 1 if anything is bad.
    """
    findings = []
    for finding in _examine():
        findings.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        show_json([asdict(finding) for finding in findings])
    if any(finding.verdict is Verdict.BAD for finding in findings):
        ctx.exit(ExitCode.FAILED)


def _examine() -> Iterator[Finding]:
    directories, layout = here()
    yield check_platform(sys.platform)
    yield from check_directories(directories, layout)
    yield check_config(directories)
    database, rows = check_store(layout)
    yield database
    yield from check_engines(rows.engines if rows is not None else ())
    yield from check_models(rows.models if rows is not None else ())
    yield from check_daemon(layout, find_address(directories))
    yield from check_memory(rows.models if rows is not None else ())
    yield check_tools()


def _show(finding: Finding) -> None:
    mark, colour = _MARKS[finding.verdict]
    click.echo(f"{click.style(mark, fg=colour)}  {finding.what}: {finding.found}")
    for line in finding.advice.splitlines():
        click.echo(f"      {line}")
