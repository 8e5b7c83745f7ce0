"""The root of the command line: a click group that imports a command's code only when it runs."""

import importlib
import sys
from collections.abc import Sequence

import click
from rich_click import RichCommand, RichCommandPanel, RichGroup

from blazar_cli import VERSION
from blazar_cli.command_table import COMMANDS, HIDDEN, PANELS, CommandEntry
from blazar_cli.exit_codes import ExitCode, exit_for
from blazar_cli.overriding import override

_ENTRIES = {entry.name: entry for entry in COMMANDS}

_KNOWN_ELSEWHERE = {
    "ls": "list",
    "copy": "cp",
    "delete": "rm",
    "add": "models add",
    "start": "serve",
    "chat": "run",
    "engines": "engine list",
    "model": "models",
}
"""What people type who know another program of this kind, and what it is here."""


def load_command(entry: CommandEntry) -> click.Command:
    """Import the code of one command."""
    module = importlib.import_module(f"blazar_cli.commands.{entry.module}")
    command = getattr(module, entry.attribute)
    if not isinstance(command, click.Command):
        raise TypeError(f"{entry.module}.{entry.attribute} is not a click command")
    return command


class LazyGroup(RichGroup):
    """``blazar``: lists its commands from a static table and turns refusals into exit statuses."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the base class's signature
        return [entry.name for entry in COMMANDS]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        # For listings and shell completion of names; the real command is loaded when it is resolved to run.
        entry = _ENTRIES.get(cmd_name)
        if entry is None:
            return None
        return RichCommand(name=entry.name, short_help=entry.help, help=entry.help, hidden=entry.name in HIDDEN)

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in _KNOWN_ELSEWHERE:
            ctx.fail(f"there is no command '{args[0]}'; that is `blazar {_KNOWN_ELSEWHERE[args[0]]}`.")
        name, stand_in, rest = super().resolve_command(ctx, args)
        if name is None or stand_in is None:
            return name, stand_in, rest
        return name, load_command(_ENTRIES[name]), rest

    @override
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except _refusals() as error:
            click.echo(str(error), err=True)
            ctx.exit(_status_of(error))
        except KeyboardInterrupt:
            click.echo("", err=True)
            ctx.exit(ExitCode.INTERRUPTED)


def _refusals() -> tuple[type[Exception], ...]:
    # Asked only when something was raised: a command that did not import the store cannot raise its errors.
    names = (
        ("blazar_cli.errors", "CliError"),
        ("blazar_routing.errors", "LaneError"),
        ("blazar_store.errors", "StoreError"),
    )
    return tuple(getattr(sys.modules[module], name) for module, name in names if module in sys.modules)


def _status_of(error: Exception) -> int:
    status = getattr(error, "exit_code", None)
    return int(status) if status is not None else exit_for(str(getattr(error, "code", "")))


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:  # click's
    if value:
        click.echo(f"blazar {VERSION}")
        ctx.exit()


def _listed(panel: str) -> list[str]:
    return [entry.name for entry in COMMANDS if entry.panel == panel and entry.name not in HIDDEN]


def build_app() -> LazyGroup:
    """Return the root command, ready to be run."""
    names_by_panel = {panel: _listed(panel) for panel in PANELS}
    return LazyGroup(
        name="blazar",
        help="Serve many local models behind one address.",
        epilog="First steps: `blazar demo`. Then `blazar engine add-local PATH`, `blazar models add PATH`, "
        "`blazar serve`.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        panels=[RichCommandPanel(panel, commands=names) for panel, names in names_by_panel.items()],
        params=[
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_version,
                help="Show the version.",
            )
        ],
    )


def run_command_line(arguments: Sequence[str]) -> int:
    """Run ``blazar ARGUMENTS`` and return its exit status."""
    try:
        build_app().main(args=list(arguments), prog_name="blazar")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.OK
