"""What a row says beyond its files, for people."""

from blazar_cli.modelfile.recipe import parameter_text, write_modelfile
from blazar_cli.registration import is_gguf
from blazar_gguf import GgufError, read_metadata_file
from blazar_store.overlays import load_defaults
from blazar_store.types import ModelRow, RowOverlay
from blazar_supervisor.residency.model_files import unreadable


def part_of(row: ModelRow, part: str) -> str:
    """Return one part of a row as text: ``modelfile``, ``parameters``, ``template``, ``license`` or ``system``.

    Raises:
        ModelUnreadable: The template is the file's own, and the file cannot be read.
    """
    overlay = row.overlay
    match part:
        case "modelfile":
            return write_modelfile(row)
        case "parameters":
            return "\n".join(_parameter_lines(row))
        case "template":
            return overlay.template or (_file_template(row) if is_gguf(row) else "")
        case "license":
            return overlay.license
        case _:
            return overlay.system


def _parameter_lines(row: ModelRow) -> list[str]:
    return [
        f"{name.ljust(30)} {parameter_text(item)}"
        for name, value in row.overlay.parameters.items()
        for item in (value if isinstance(value, list) else [value])
    ]


def overlay_facts(row: ModelRow) -> list[tuple[str, str]]:
    """Return what a row says beyond its files, as names and values; nothing for most."""
    overlay = row.overlay
    facts = [
        ("made from", overlay.source),
        ("system prompt", overlay.system),
        ("parameters", "\n".join(" ".join(line.split(None, 1)) for line in _parameter_lines(row))),
        ("messages", "\n".join(f"{turn['role']}: {turn['content']}" for turn in overlay.messages)),
        ("adapters", "\n".join(map(str, overlay.adapters))),
        ("template", _template_words(overlay)),
        ("licence", next(iter(overlay.license.strip().splitlines()), "")),
    ]
    return [(name, text) for name, text in facts if text]


def _file_template(row: ModelRow) -> str:
    """Return the chat template in a row's file, or ``""``.

    Raises:
        ModelUnreadable: It cannot be read.
    """
    try:
        return read_metadata_file(row.path).chat_template
    except GgufError as error:
        raise unreadable(row.path, error) from error


def _template_words(overlay: RowOverlay) -> str:
    """Return what becomes of an overlay's chat template, or ``""`` when it has none."""
    if not overlay.template:
        return ""
    if load_defaults(overlay).chat_template is not None:
        return "its own (Jinja)"
    return "kept, one of Ollama's; the engine uses the one in the file"
