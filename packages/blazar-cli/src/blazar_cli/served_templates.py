"""What a model can do by the chat template that will serve it, which need not be the one in its file.

The settings' ``chat_template_file`` or ``chat_template`` goes first, then an overlay's template, then the file's; the
engine is started by the same order (``blazar_supervisor.residency.planner.knobs_for``).
"""

from dataclasses import replace
from typing import Final

from blazar_cli.registration import TEMPLATE_CAPABILITIES, is_gguf, template_capabilities
from blazar_store.files import read_plain_file
from blazar_store.settings import Settings
from blazar_store.settings_models import ModelKnobs
from blazar_store.settings_overlays import overlay_settings
from blazar_store.types import ModelRow

_TEMPLATE_FLAGS: Final = ("--chat-template", "--chat-template-file")
_TEXTLESS: Final = frozenset({"embedding", "rerank"})


def as_served(row: ModelRow, settings: Settings) -> ModelRow:
    """Return a row with the capabilities of the template that will serve it. Reads a template file that is set.

    Where nobody here can tell what the template holds (its file is not there or no text, it is the name of one that
    the engine has built in, or an argument of the owner's names it), the row's ``template_readable`` is false: what
    its capabilities leave out is unknown then.
    """
    if not is_gguf(row) or _TEXTLESS & set(row.capabilities):
        return row
    chosen = settings.for_model(row.name, overlay_settings(row.overlay))
    if any(argument.partition("=")[0] in _TEMPLATE_FLAGS for argument in chosen.extra_args):
        return _with(row, None)
    if chosen.chat_template_file is None and chosen.written.chat_template is None:
        return row
    return _with(row, _configured(chosen))


def _configured(chosen: ModelKnobs) -> str | None:
    """Return the text of the template that the settings name, or ``None`` where it cannot be had."""
    if chosen.chat_template_file is not None:
        try:
            return read_plain_file(chosen.chat_template_file).decode()
        except (OSError, ValueError):
            return None
    template = chosen.written.chat_template
    return template if template is not None and "{" in template else None


def _with(row: ModelRow, template: str | None) -> ModelRow:
    found = template_capabilities(template or "")
    others = tuple(word for word in row.capabilities if word not in TEMPLATE_CAPABILITIES)
    return replace(row, capabilities=(*found, *others), template_readable=template is not None)
