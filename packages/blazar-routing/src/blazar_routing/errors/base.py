"""The root of every refusal that can reach a client."""

from typing import ClassVar


class LaneError(Exception):
    """One situation in which Blazar refuses or fails, and what to do about it.

    A subclass is one situation. Its ``code`` is stable and kebab-case; the gateway maps it to an HTTP
    status and the command line to an exit status, each in one table. ``str(error)`` is the text people
    see: what happened, why, and what to type next. It is byte-identical in the CLI and in every API
    body, so rewording one is a breaking change.

    Attributes:
        code: The situation's stable name.
        retry_after_s: Seconds after which asking again makes sense, or ``None``.
    """

    code: ClassVar[str] = "lane-error"
    retry_after_s: int | None = None


def quoted_list(names: tuple[str, ...]) -> str:
    """Return ``names`` as ``'a', 'b' or 'c'``."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def indented_tail(lines: tuple[str, ...]) -> str:
    """Return an engine's last log lines as an indented block, or an empty string.

    The block starts with a line break, so that it can be appended to a sentence.
    """
    if not lines:
        return ""
    return "\nThe engine's last lines:\n" + "\n".join(f"  {line}" for line in lines)
