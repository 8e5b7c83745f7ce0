"""One of our own arguments for llama-server, and how it is spelled for a build. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from blazar_supervisor.engines.llamacpp.arguments import BadArgument
from blazar_supervisor.engines.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Option:
    """One argument.

    Attributes:
        spellings: In order of preference, for older and newer builds.
        value: Its value, or ``None`` for a switch.
        required: Whether a build without it cannot do what was asked; else it is left out there.
        setting: The setting that asks for it, or ``""`` when Blazar itself does.
    """

    spellings: tuple[str, ...]
    value: str | None = None
    required: bool = False
    setting: str = ""


def spell(options: Iterable[Option], manifest: Manifest, *, taken: set[str], engine: str) -> tuple[str, ...]:
    """Return the words of ``options`` as the build spells them, without those that the user gave already.

    Args:
        options: In order.
        manifest: The build's flags.
        taken: Spellings in ``extra_args``.
        engine: The build's tag, for the text.

    Raises:
        BadArgument: The build lacks one that is required.
    """
    words: list[str] = []
    for option in options:
        if taken.intersection(option.spellings):
            continue
        spelling = manifest.first_of(option.spellings)
        if spelling is None:
            if option.required:
                why = f", which `{option.setting}` needs" if option.setting else ""
                raise BadArgument(f"the engine '{engine}' has no flag '{option.spellings[0]}'{why}")
            continue
        words.append(spelling)
        if option.value is not None:
            words.append(option.value)
    return tuple(words)
