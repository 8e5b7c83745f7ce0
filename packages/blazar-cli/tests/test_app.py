import importlib.metadata
import subprocess
import sys

import pytest

from blazar_cli import VERSION
from blazar_cli.app import build_app, load_command
from blazar_cli.command_table import COMMANDS, HIDDEN, PANELS, CommandEntry
from blazar_cli.testing import User


def test_the_version_is_the_distributions() -> None:
    assert importlib.metadata.version("blazar-cli") == VERSION


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_table_says_what_the_command_itself_says(entry: CommandEntry) -> None:
    command = load_command(entry)
    assert command.name == entry.name
    assert (command.help or "").splitlines()[0] == entry.help
    assert entry.panel in PANELS


def modules_after(*arguments: str) -> set[str]:
    """Return the modules that are loaded once a command has run, in a process of its own."""
    code = (
        "import sys; sys.argv = ['blazar', *sys.argv[1:]]\n"
        "from blazar_cli.main import main\n"
        "main(); print('MODULES', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=100, check=True
    )
    return set(done.stdout.rpartition("MODULES ")[2].split())


SLOW = {"aiohttp", "asyncio", "openai", "prompt_toolkit", "psutil", "pydantic", "sqlite3", "sqlite_utils", "uvloop"}


def test_version_imports_nothing_of_the_command_line() -> None:
    assert not modules_after("version") & (SLOW | {"click", "rich", "rich_click", "importlib.metadata"})


def test_help_imports_no_command() -> None:
    loaded = modules_after("--help")
    assert not loaded & (SLOW | {"typing_extensions", "http.client"})
    assert not {name for name in loaded if name.startswith("blazar_") and not name.startswith("blazar_cli")}
    assert not {name for name in loaded if name.startswith("blazar_cli.commands.")}


def test_a_command_that_asks_the_daemon_imports_neither_database_nor_server(user: User) -> None:
    code = (
        "from blazar_cli.app import run_command_line; import sys; s = run_command_line(['ps'])\nprint(s, *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    status, *loaded = done.stdout.split()
    assert status == "5"
    assert not set(loaded) & SLOW


def test_help_lists_every_command_that_is_not_there_to_be_refused(user: User) -> None:
    shown = user.ok("--help")
    for entry in COMMANDS:
        assert (entry.help[:30] in shown) is (entry.name not in HIDDEN)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_explains_itself(entry: CommandEntry, user: User) -> None:
    assert user.blazar(entry.name, "--help").status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        pytest.param(("nope",), 2, "No such command", id="unknown command"),
        pytest.param(("serve", "--port", "70000"), 2, "70000", id="impossible port"),
        pytest.param(("stop",), 2, "blazar stop MODEL", id="nothing to stop"),
        pytest.param(("ps", "--host", "ftp://x"), 2, "cannot be used", id="impossible address"),
        pytest.param(("run", "m"), 2, "nothing to ask", id="empty standard input"),
        pytest.param(("login", "--anything"), 10, "no accounts", id="no accounts"),
        pytest.param(("ps",), 5, "blazar serve", id="daemon down"),
        pytest.param(("status", "--host", "127.0.0.1:1"), 5, "blazar serve", id="daemon down at an address"),
    ],
)
def test_what_does_not_work_says_why_in_a_status_and_a_text(
    arguments: tuple[str, ...], status: int, words: str, user: User
) -> None:
    ended = user.blazar(*arguments)
    assert ended.status == status
    assert words in ended.err
    assert "Traceback" not in ended.err


def test_a_command_that_people_know_from_ollama_is_answered_with_ours(user: User) -> None:
    assert user.ok("list", "--json") == user.ok("models", "list", "--json") == "[]\n"
    for theirs, ours in (("ls", "blazar list"), ("delete", "blazar rm"), ("copy", "blazar cp")):
        ended = user.blazar(theirs)
        assert ended.status == 2
        assert ours in ended.err


def test_the_root_has_a_name() -> None:
    assert build_app().name == "blazar"
