"""``blazar launch``: a coding agent on a model of this server."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import rich_click as click

from blazar_cli.agents.plans import AGENTS, Agent, Plan, Target
from blazar_cli.agents.target import Model, choose_model, doubts, find_key, find_model, find_public_address, load
from blazar_cli.client import DaemonClient
from blazar_cli.commands.options import complete_model, host_option
from blazar_cli.errors import AgentMissing, AgentModelUnclear
from blazar_cli.local import connect, here
from blazar_cli.pull_client import ensure_model
from blazar_store.files import make_directory, write_whole


@click.command()
@click.argument("agent", type=click.Choice(list(AGENTS)))
@click.option(
    "--model",
    "-m",
    metavar="MODEL",
    shell_complete=complete_model,
    help="The model. Default: the only one that suits, or the one that is loaded.",
)
@click.option("--print", "only_print", is_flag=True, help="Show the variables, files and command instead.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@host_option
def launch(*, agent: str, model: str | None, only_print: bool, arguments: tuple[str, ...], host: str | None) -> None:
    """Start a coding agent on a model of this server.

    The agent must be installed. It is told by variables, or by a file in Blazar's own directory; your own files stay
    as they are. What follows `--` goes to the agent: `blazar launch claude -- -p "what is this?"`. A model that is
    not here is pulled first if it is owner/repository[:QUANT] or a short name.
    """
    chosen = AGENTS[agent]
    program = shutil.which(chosen.command)
    if program is None and not only_print:
        raise AgentMissing(title=chosen.title, command=chosen.command, install=chosen.install, agent=agent)
    client = connect(host)
    directories, layout = here()
    found = find_model(client, ensure_model(client, model)) if model is not None else choose_model(client, chosen)
    if "completion" not in found.capabilities:
        raise AgentModelUnclear(f"'{found.name}' makes embeddings and cannot answer; choose another with --model.")
    address = find_public_address(client)
    key = find_key(client, address, found.name, directories.config_file)
    if not only_print:
        found = _loaded(client, found)
    for doubt in doubts(chosen, found):
        click.echo(f"Warning: {doubt}", err=True)
    target = Target(
        base_url=address.base_url,
        model=found.name,
        ctx_tokens=found.ctx_tokens,
        api_key=key,
        directory=layout.agent_dir(agent),
        certificate=client.own_certificate if address.scheme == "https" else None,
    )
    plan = chosen.plan(target)
    if only_print:
        click.echo(_as_shell(chosen, plan, arguments))
        return
    assert program is not None
    _write(plan, target.directory)
    click.echo(f"Starting {chosen.title} on {found.name} at {address.base_url}.", err=True)
    _become(program, [chosen.command, *plan.arguments, *arguments], _environment(os.environ, plan))


def _loaded(client: DaemonClient, model: Model) -> Model:
    if model.loaded:
        return model
    click.echo(f"Loading {model.name}…", err=True)
    return load(client, model)


def _as_shell(agent: Agent, plan: Plan, arguments: tuple[str, ...]) -> str:
    """Return a plan as lines for a shell."""
    lines = []
    for path, text in plan.files.items():
        quoted = shlex.quote(str(path))
        lines += [f"mkdir -p {shlex.quote(str(path.parent))}", f"cat > {quoted} <<'END'", text.rstrip("\n"), "END"]
    lines += [f"unset {name}" for name in plan.unset]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in plan.environment.items()]
    lines.append(shlex.join([agent.command, *plan.arguments, *arguments]))
    return "\n".join(lines)


def _write(plan: Plan, directory: Path) -> None:
    if not plan.files:
        return
    make_directory(directory, mode=0o700)
    for path, text in plan.files.items():
        write_whole(path, text.encode(), mode=0o600)


def _environment(own: Mapping[str, str], plan: Plan) -> dict[str, str]:
    kept = {name: value for name, value in own.items() if name not in plan.unset}
    return {**kept, **plan.environment}


def _become(program: str, arguments: list[str], environment: Mapping[str, str]) -> None:
    """Replace this process by the agent's, so that the terminal, signals and the exit status are its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(program, arguments, environment)
