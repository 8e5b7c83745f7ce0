"""``blazar login`` and ``blazar signin``: refused, by design."""

import rich_click as click

from blazar_cli.errors import NoAccounts

_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


@click.command(context_settings=_ANYTHING)
def login() -> None:
    """Refuse: Blazar has no accounts."""
    raise NoAccounts


@click.command(context_settings=_ANYTHING)
def signin() -> None:
    """Refuse: Blazar has no accounts."""
    raise NoAccounts
