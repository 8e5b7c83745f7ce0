"""What a person types at the chat prompt: messages, over one line or several, and commands."""

from dataclasses import dataclass
from enum import StrEnum

FENCE = '"""'


class Verb(StrEnum):
    """The commands of the chat prompt, without the slash."""

    BYE = "bye"
    CLEAR = "clear"
    SET = "set"
    SHOW = "show"
    HELP = "help"


_ALIASES = {"exit": Verb.BYE, "quit": Verb.BYE, "?": Verb.HELP}


@dataclass(frozen=True, slots=True)
class Message:
    """Something to say to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A line that starts with a slash.

    Attributes:
        verb: What to do, or ``None`` when there is no such command.
        word: As typed, for the complaint.
        rest: What follows, stripped.
    """

    verb: Verb | None
    word: str
    rest: str


Typed = Message | Command


class Lines:
    """Puts lines together: a message is a line, or everything between two triple quotes."""

    def __init__(self) -> None:
        self._fenced: list[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a triple quote waits for its partner."""
        return self._fenced is not None

    def feed(self, line: str) -> Typed | None:
        """Take a line; return what is complete with it, or ``None`` if more is needed or nothing was said."""
        if self._fenced is not None:
            return self._continue(line)
        stripped = line.strip()
        if stripped.startswith(FENCE):
            self._fenced = []
            return self._continue(stripped.removeprefix(FENCE), first=True)
        if not stripped:
            return None
        if stripped.startswith("/") and not _looks_like_path(stripped):
            return read_command(stripped)
        return Message(line)

    def drop(self) -> None:
        """Forget a message that was begun."""
        self._fenced = None

    def _continue(self, line: str, *, first: bool = False) -> Message | None:
        fenced = self._fenced if self._fenced is not None else []
        text, fence, _ = line.partition(FENCE)
        if text or not (first or fence):
            fenced.append(text)
        if not fence:
            return None
        self._fenced = None
        message = "\n".join(fenced)
        return Message(message) if message.strip() else None


def read_command(line: str) -> Command:
    """Read a line that starts with a slash."""
    word, _, rest = line.removeprefix("/").partition(" ")
    try:
        verb = _ALIASES.get(word) or Verb(word)
    except ValueError:
        verb = None
    return Command(verb, word, rest.strip())


def _looks_like_path(line: str) -> bool:
    # "/etc/hosts says..." is a message about a file, not a command.
    return "/" in line.split(maxsplit=1)[0][1:]
