"""The table of what a repository offers this machine, before anything is fetched."""

import asyncio
import shlex

import click

from blazar_cli.local import here
from blazar_cli.output import Column, human_bytes, show_json, show_table
from blazar_cli.own_settings import own_settings
from blazar_cli.pulling import open_puller
from blazar_routing.errors import PullRefused
from blazar_supervisor.pulls.choosing import Choice
from blazar_supervisor.pulls.pulling import Shelf, resolve_reference
from blazar_supervisor.pulls.reference import HubReference

_COLUMNS = (
    Column("VARIANT"),
    Column("SIZE", right=True),
    Column("FITS"),
    Column("CONTEXT", right=True),
    Column("WHY"),
)


def show_repository_fit(text: str, *, as_json: bool) -> None:
    """Write the variants of a repository with their verdicts, and which one a pull would take.

    Raises:
        PullRefused, PullNotFound, PullFailed: It cannot be looked at.
    """
    reference, _ = resolve_reference(text)
    if not isinstance(reference, HubReference):
        raise PullRefused("the table is for repositories: `blazar fit owner/repository`. For a file, pull it first.")
    shelf, choice = asyncio.run(_look(reference))
    if as_json:
        show_json(_as_plain(shelf, choice))
        return
    cells = [
        (
            one.variant.label,
            human_bytes(one.variant.size),
            str(one.fits) if one.variant.complete else "parts missing",
            f"{one.ctx_tokens}" if one.ctx_tokens else "-",
            one.detail.splitlines()[0] if one.detail else "",
        )
        for one in shelf.judged
    ]
    show_table(_COLUMNS, cells, empty="The repository offers nothing that could be served.")
    if choice.judged is not None:
        click.echo(f"`blazar pull {shlex.quote(text)}` takes {choice.judged.variant.label}: {choice.reason}.")
    else:
        click.echo(f"`blazar pull {shlex.quote(text)}` takes nothing: {choice.reason}.")


async def _look(reference: HubReference) -> tuple[Shelf, Choice]:
    directories, layout = here()
    async with open_puller(layout, own_settings(directories.config_file)) as puller:
        shelf = await puller.look(reference)
        return shelf, puller.choose(shelf)


def _as_plain(shelf: Shelf, choice: Choice) -> dict[str, object]:
    return {
        "repository": shelf.listing.repository,
        "commit": shelf.listing.commit,
        "takes": None if choice.judged is None else choice.judged.variant.label,
        "reason": choice.reason,
        "variants": [
            {
                "variant": one.variant.label,
                "kind": str(one.variant.kind),
                "size_bytes": one.variant.size,
                "files": [file.path for file in one.variant.files],
                "complete": one.variant.complete,
                "fits": str(one.fits),
                "ctx_tokens": one.ctx_tokens,
                "detail": one.detail,
            }
            for one in shelf.judged
        ],
        "projectors": [file.path for file in shelf.offer.projectors],
    }
