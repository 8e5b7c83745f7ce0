"""The help text that the upstream answers ``--help`` with: the stock engine's, as the stub ships it."""

from importlib.resources import files


def engine_help() -> str:
    """Return what llama-server b10434 prints for ``--help``."""
    return (files("blazar_stubs") / "data" / "llama-server-b10434.help.txt").read_text("utf-8")
