"""Pulling through the daemon, or here while it is down; the same words either way."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import click

from blazar_cli.client import MODELS, DaemonClient
from blazar_cli.errors import ApiRefused
from blazar_cli.fetch_progress import fetch_progress
from blazar_cli.local import here
from blazar_cli.own_settings import own_settings
from blazar_cli.parts import FetchProgress
from blazar_supervisor.pulls.pulling import PullPlan
from blazar_supervisor.pulls.short_names import find_known

PULL = "/api/pull"


def pull_through(client: DaemonClient, reference: str) -> str:
    """Have the daemon pull, show how far it is, and return the row's name. The pull goes on if this is interrupted.

    Raises:
        ApiRefused: It was refused, or failed; the text is the daemon's.
    """
    with fetch_progress(reference) as report:
        words = _Words(report)
        name = reference
        try:
            with closing(client.lines("POST", PULL, {"model": reference, "stream": True})) as lines:
                for line in _objects(lines):
                    name = _take(line, words) or name
        except KeyboardInterrupt:
            click.echo(
                f"\nThe daemon goes on with it: `blazar pull --list` shows it, `blazar pull --cancel {reference}` "
                "stops it.",
                err=True,
            )
            raise
    return name


def pull_here(reference: str) -> str:
    """Pull in this process, while the daemon is down, and return the row's name.

    Raises:
        LaneError: It was refused, or failed. What has arrived is kept, as when this is interrupted.
    """
    from blazar_cli.pulling import pull_and_register

    directories, layout = here()
    layout.prepare()
    settings = own_settings(directories.config_file)
    with fetch_progress(reference) as report:
        row = asyncio.run(pull_and_register(layout, lambda: settings, reference, _Words(report)))
    return row.name


def ensure_model(client: DaemonClient, model: str) -> str:
    """Return the row that ``model`` means, pulling it first if it is a name of the hub or the catalogue.

    A repository without a quantisation means the newest row that was pulled from it.
    """
    if "/" not in model and find_known(model) is None:
        return model
    try:
        client.require_model(model)
    except ApiRefused as refusal:
        if refusal.code != "model-not-found":
            raise
    else:
        return model
    return _pulled_before(client, model) or pull_through(client, model)


def _pulled_before(client: DaemonClient, model: str) -> str | None:
    listed = client.get(MODELS).get("data")
    names = [str(one.get("id")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return next((name for name in names if name.lower().startswith(f"{model.lower()}:")), None)


@dataclass(slots=True)
class _Words:
    """Tells people what a pull says of itself, on standard error."""

    report: FetchProgress
    said: set[str] = field(default_factory=set)

    def planned(self, plan: PullPlan) -> None:
        self.say(plan.name or plan.wanted[0].target.name, plan.reason)

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        if total_bytes:
            self.report(done_bytes, total_bytes)

    def say(self, name: str, reason: str) -> None:
        """Say once what is fetched and why."""
        text = f"Pulling {name}: {reason}." if reason else f"Pulling {name}."
        if text not in self.said:
            self.said.add(text)
            click.echo(text, err=True)


def _objects(lines: Iterator[bytes]) -> Iterator[dict[str, object]]:
    for line in lines:
        if line.strip():
            value = json.loads(line)
            if isinstance(value, dict):
                yield value


def _take(line: dict[str, object], words: _Words) -> str | None:
    error = line.get("error")
    if isinstance(error, str):
        raise ApiRefused(error, code=str(line.get("code", "")), http_status=200)
    name = line.get("model")
    total, done = line.get("total"), line.get("completed")
    if isinstance(name, str) and isinstance(line.get("reason"), str):
        words.say(name, str(line["reason"]))
    if isinstance(total, int) and isinstance(done, int):
        words.progress(done, total)
    return name if isinstance(name, str) else None
