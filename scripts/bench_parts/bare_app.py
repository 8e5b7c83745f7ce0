"""A rich-click app with as many commands as asked for and nothing else: ``python bare_app.py COUNT --help``."""

import sys

import rich_click as click


@click.group()
def app() -> None:
    """Do nothing, under many names."""


def add_command(number: int) -> None:
    """Give the app one more command."""

    @app.command(f"command-{number}", help="One line about what it would do.")
    def nothing() -> None:
        pass


for index in range(int(sys.argv.pop(1))):
    add_command(index)

if __name__ == "__main__":
    app()
