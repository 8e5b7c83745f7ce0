"""The chat templates in a file, as raw text; judging them is for whoever renders them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from blazar_gguf.fields import Fields

TEMPLATE_KEY: Final = "tokenizer.chat_template"
DEFAULT_NAME: Final = "default"


def chat_templates(fields: Fields) -> Mapping[str, str]:
    """Collect every template by name; the one without a name is ``default``.

    Names come from the keys themselves (``tokenizer.chat_template.<name>``), because the list in
    ``tokenizer.chat_templates`` is missing from some files.
    """
    fields.finish()
    found: dict[str, str] = {}
    for key in fields.known:
        if key == TEMPLATE_KEY:
            name = DEFAULT_NAME
        elif key.startswith(TEMPLATE_KEY + "."):
            name = key[len(TEMPLATE_KEY) + 1 :]
        else:
            continue
        value = fields[key]
        if isinstance(value, str):
            found[name] = value
    return MappingProxyType(found)
