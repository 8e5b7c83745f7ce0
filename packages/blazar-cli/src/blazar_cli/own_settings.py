"""The settings that hold for this user: the file's, then those of Ollama's variables, then the defaults."""

import os
from pathlib import Path

import click

from blazar_cli.ollama_env import as_settings, read_ollama_defaults
from blazar_store.errors import ConfigInvalid
from blazar_store.settings import Settings
from blazar_store.settings_files import load_settings


def own_settings(config_file: Path) -> Settings:
    """Return the settings of a command that works on this machine without the daemon.

    Raises:
        ConfigInvalid: The file or a variable cannot be used.
    """
    return load_settings(config_file, below=as_settings(read_ollama_defaults(os.environ)))


def settings_to_show_by(config_file: Path) -> Settings:
    """Return the settings for a command that only looks things up, and goes on without them.

    Where they cannot be used, standard error says so and why, and the defaults stand in.
    """
    try:
        return own_settings(config_file)
    except ConfigInvalid as error:
        click.echo(f"The settings are left out of account here: {error}", err=True)
        return Settings()
