"""From the instructions of a Modelfile to a recipe, and from a row back to a Modelfile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from blazar_cli.modelfile.parameters import read_parameter
from blazar_cli.modelfile.parsing import IGNORED, BadModelfile, Instruction
from blazar_routing.errors import InvalidRequest
from blazar_store.types import ModelRow


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a row shall be made from. Nothing is looked up yet.

    Attributes:
        source: A row's name or a file, as written; ``""`` when nobody said.
        files: Further files of FROM: a projector.
        adapters: LoRA adapters, as written.
        template: The chat template, or ``""``.
        system: The system prompt, or ``""``.
        parameters: Checked, by Ollama's names.
        messages: Turns with ``role`` and ``content``.
        license: The licence's text, or ``""``.
        notes: What was read and is not used, a sentence each.
    """

    source: str = ""
    files: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    template: str = ""
    system: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    messages: tuple[Mapping[str, str], ...] = ()
    license: str = ""
    notes: tuple[str, ...] = ()


def recipe_of(instructions: Sequence[Instruction]) -> Recipe:
    """Return what a Modelfile says.

    Raises:
        BadModelfile: A parameter is unknown, given twice, or has a value that is none.
    """
    parameters: dict[str, object] = {}
    first: dict[str, int] = {}
    recipe = Recipe()
    for one in instructions:
        match one.keyword:
            case "FROM" if not recipe.source:
                recipe = replace(recipe, source=one.value)
            case "FROM":
                recipe = replace(recipe, files=(*recipe.files, one.value))
            case "ADAPTER":
                recipe = replace(recipe, adapters=(*recipe.adapters, one.value))
            case "PARAMETER":
                _take_parameter(one, parameters, first)
            case "SYSTEM":
                recipe = replace(recipe, system=one.value)
            case "TEMPLATE":
                recipe = replace(recipe, template=one.value)
            case "LICENSE":
                recipe = replace(recipe, license="\n".join(filter(None, (recipe.license, one.value))))
            case "MESSAGE":
                recipe = replace(recipe, messages=(*recipe.messages, {"role": one.name, "content": one.value}))
            case _ if one.keyword in IGNORED:
                note = f"line {one.line}: {one.keyword} is for what is inside Ollama and is left out"
                recipe = replace(recipe, notes=(*recipe.notes, note))
            case _:
                raise AssertionError(f"{one.keyword} was parsed, and nobody takes it")
    return replace(recipe, parameters=parameters)


def _take_parameter(one: Instruction, parameters: dict[str, object], first: dict[str, int]) -> None:
    try:
        value = read_parameter(one.name, one.value)
    except InvalidRequest as error:
        raise BadModelfile(one.line, str(error)) from error
    if isinstance(value, list):
        known = parameters.setdefault(one.name, [])
        assert isinstance(known, list)
        known.extend(value)
        return
    if first.setdefault(one.name, one.line) != one.line:
        raise BadModelfile(
            one.line, f"PARAMETER {one.name} a second time; the first is in line {first[one.name]}. Leave one."
        )
    parameters[one.name] = value


def write_modelfile(row: ModelRow) -> str:
    """Return a row as a Modelfile from which it can be made again."""
    overlay = row.overlay
    files: tuple[Path, ...] = (row.path,) if row.mmproj_path is None else (row.path, row.mmproj_path)
    lines = [f"# Modelfile of {row.name}", *(f"FROM {path}" for path in files)]
    lines += [f"ADAPTER {path}" for path in overlay.adapters]
    for keyword, text in (("TEMPLATE", overlay.template), ("SYSTEM", overlay.system)):
        if text:
            lines.append(f"{keyword} {quoted(text)}")
    for name, value in overlay.parameters.items():
        for item in value if isinstance(value, list) else [value]:
            lines.append(f"PARAMETER {name} {parameter_text(item)}")
    lines += [f"MESSAGE {turn['role']} {quoted(turn['content'])}" for turn in overlay.messages]
    if overlay.license:
        lines.append(f"LICENSE {quoted(overlay.license)}")
    return "\n".join(lines) + "\n"


def parameter_text(value: object) -> str:
    """Return a parameter's value as a Modelfile writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    """Return a text as a value that is read back as it is; three quotes in a row at a line's end cannot be written."""
    if text and text == text.strip() and not text.startswith('"') and "\n" not in text and "\r" not in text:
        return text
    return f'"""{text}"""'
