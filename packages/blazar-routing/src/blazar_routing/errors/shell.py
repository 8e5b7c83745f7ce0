"""Names in commands that people paste into a shell."""

import shlex


def in_shell(name: str) -> str:
    """Return a name as one word of a POSIX shell: as it is, unless a shell would make something else of it.

    A leading dash is a flag to whatever command gets it, so such a name is said to be none.
    """
    word = shlex.quote(name)
    return f"-- {word}" if name.startswith("-") else word


def in_toml(name: str) -> str:
    """Return a name as a quoted key of TOML."""
    escaped = "".join(_ESCAPES.get(char, char) for char in name)
    return f'"{escaped}"'


_ESCAPES = {'"': '\\"', "\\": "\\\\"}
