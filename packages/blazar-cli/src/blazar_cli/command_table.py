"""Every command: its name, where its code is, one line of help, and the panel it is listed in.

The table is static so that ``blazar --help`` imports no command. A test compares each line with the help text of
the command itself, and docs/reference/commands.md with both.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One line of ``blazar --help``.

    Attributes:
        name: As typed.
        module: The module below ``blazar_cli.commands``.
        attribute: The click command in that module.
        help: One line, without a full stop at the end where click would cut it.
        panel: The heading it is listed under.
    """

    name: str
    module: str
    attribute: str
    help: str
    panel: str


SERVE = "Serve"
TALK = "Talk to models"
KEEP = "Models and engines"
SETUP = "Set up"

COMMANDS: tuple[CommandEntry, ...] = (
    CommandEntry("serve", "serve", "serve", "Start the daemon: one address for every model.", SERVE),
    CommandEntry("status", "status", "status", "Show how the daemon does.", SERVE),
    CommandEntry("ps", "ps", "ps", "List the models that are loaded.", SERVE),
    CommandEntry("stop", "stop", "stop", "Unload a model, or stop the daemon with --daemon.", SERVE),
    CommandEntry("logs", "logs", "logs", "Show the daemon's log, or a model's.", SERVE),
    CommandEntry("run", "run", "run", "Ask a model, or chat with it.", TALK),
    CommandEntry("launch", "launch", "launch", "Start a coding agent on a model of this server.", TALK),
    CommandEntry("demo", "demo", "demo", "Fetch a small engine and model and watch them answer.", TALK),
    CommandEntry("pull", "pull", "pull", "Fetch a model by name.", KEEP),
    CommandEntry("list", "models", "list_models", "List the models, newest first.", KEEP),
    CommandEntry("show", "models", "show", "Show what is known of a model.", KEEP),
    CommandEntry("create", "create", "create", "Make a model from another, with defaults of its own.", KEEP),
    CommandEntry("cp", "copying", "copy", "Give a model a second name, at no cost in bytes.", KEEP),
    CommandEntry("rm", "models", "remove", "Forget models; delete the files that Blazar pulled.", KEEP),
    CommandEntry("import", "importing", "import_group", "Take over what other programs keep on this machine.", KEEP),
    CommandEntry("models", "models", "models", "Add, list, show and remove models.", KEEP),
    CommandEntry("engine", "engine", "engine", "Register, list, choose and remove engines.", KEEP),
    CommandEntry("fit", "fit", "fit", "Say whether a model fits into memory, before loading it.", KEEP),
    CommandEntry("explain", "explain", "explain", "Say which engine would serve a model, how, and why.", KEEP),
    CommandEntry("keys", "keys", "keys", "Make, list, remove and rotate API keys; show their usage.", SETUP),
    CommandEntry("config", "config", "config", "Show, check and sample the configuration.", SETUP),
    CommandEntry("migrate", "migrate", "migrate", "Bring the configuration of an earlier version up to date.", SETUP),
    CommandEntry("service", "service", "service", "Start the daemon at login (systemd, launchd).", SETUP),
    CommandEntry("doctor", "doctor", "doctor", "Check engine, models, ports, directories and memory.", SETUP),
    CommandEntry("completion", "completion", "completion", "Print the completion script of your shell.", SETUP),
    CommandEntry("version", "version", "version", "Show the version.", SETUP),
    CommandEntry("login", "accounts", "login", "Refuse: Blazar has no accounts.", SETUP),
    CommandEntry("signin", "accounts", "signin", "Refuse: Blazar has no accounts.", SETUP),
)

PANELS: tuple[str, ...] = (SERVE, TALK, KEEP, SETUP)
HIDDEN: frozenset[str] = frozenset({"login", "signin"})
"""Commands that exist to be refused; they are not advertised."""
