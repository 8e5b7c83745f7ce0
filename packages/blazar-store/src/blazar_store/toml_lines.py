"""On which line of a TOML file each key stands; the parsers in the standard library and tomlkit do not say."""

import re
import tomllib

KeyPath = tuple[str | int, ...]

_KEY_PART = re.compile(r"""[ \t]*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*(\.)?""")
_VALUE_PIECE = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[\[\]{}\n]|[^"'\#\[\]{}\n]+''',
    re.DOTALL,
)


def locate_keys(text: str) -> dict[KeyPath, int]:
    """Return the line, counted from 1, of every key and table header of a document.

    Keys are paths from the top, with the index of the element for arrays of tables. Keys inside inline tables
    are not listed; the key that holds the table is.

    Args:
        text: A valid TOML document; what is returned for another one is of no use, but returned.
    """
    lines: dict[KeyPath, int] = {}
    arrays: dict[KeyPath, int] = {}
    table: KeyPath = ()
    position, line = 0, 1
    while position < len(text):
        start = _skip_blank(text, position)
        line += text.count("\n", position, start)
        position = start
        if position >= len(text):
            break
        if text[position] == "#":
            position = _line_end(text, position)
        elif text[position] == "[":
            double = text.startswith("[[", position)
            names, position = _key(text, position + (2 if double else 1))
            table = _table_path(names, arrays, double=double)
            lines.setdefault(table, line)
            for length in range(1, len(table)):
                lines.setdefault(table[:length], line)
            position = _line_end(text, position)
        else:
            names, position = _key(text, position)
            for length in range(1, len(names) + 1):
                lines.setdefault(table + names[:length], line)
            end = _value_end(text, position)
            line += text.count("\n", position, end)
            position = end
    return lines


def line_of(path: KeyPath, lines: dict[KeyPath, int]) -> int | None:
    """Return the line of ``path``, or of the nearest thing around it that has one."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _key(text: str, position: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the dotted key at ``position`` and where it ends."""
    parts: list[str] = []
    while match := _KEY_PART.match(text, position):
        position = match.end()
        raw = match[1]
        parts.append(tomllib.loads(f"key = {raw}")["key"] if raw[0] in "\"'" else raw)
        if match[2] is None:
            break
    return tuple(parts), max(position, 1)


def _table_path(names: tuple[str, ...], arrays: dict[KeyPath, int], *, double: bool) -> KeyPath:
    """Return the path that a header means: a name that is an array of tables means its last element."""
    path: KeyPath = ()
    for index, name in enumerate(names):
        path += (name,)
        if double and index == len(names) - 1:
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path += (arrays[path],)
    return path


def _value_end(text: str, position: int) -> int:
    """Return the end of the statement whose key ends at ``position``: the first line break outside everything."""
    depth = 0
    while match := _VALUE_PIECE.match(text, position):
        piece = match[0]
        if piece == "\n" and depth <= 0:
            return position
        depth += (piece in {"[", "{"}) - (piece in {"]", "}"})
        position = match.end()
    return len(text) if position >= len(text) else _line_end(text, position)
