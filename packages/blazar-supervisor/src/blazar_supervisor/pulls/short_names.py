"""The catalogue of short names: ``gemma3:270m`` is a repository of the hub. Package data, read once when needed."""

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_Q4_BYTES_PER_PARAMETER = 0.62
"""Of a Q4_K_M file, output matrix and embeddings at higher precision included; the figure of common 1 to 8 B models."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """An entry.

    Attributes:
        name: The short name.
        repository: ``owner/name`` of the hub.
        parameters: How many it has, all experts together; nominal, as its makers say.
        capabilities: Ollama's words.
        about: What it is, in a few words.
    """

    name: str
    repository: str
    parameters: int
    capabilities: tuple[str, ...]
    about: str

    @property
    def q4_bytes(self) -> int:
        """About what a 4 bit file of it weighs."""
        return int(self.parameters * _Q4_BYTES_PER_PARAMETER)


@cache
def known_models() -> tuple[KnownModel, ...]:
    """Return every entry, in the file's order."""
    text = files("blazar_supervisor.pulls").joinpath("short_names.toml").read_text(encoding="utf-8")
    return tuple(
        KnownModel(
            name=name,
            repository=entry["repository"],
            parameters=int(entry["billions"] * 1_000_000_000),
            capabilities=tuple(entry["capabilities"]),
            about=entry["about"],
        )
        for name, entry in tomllib.loads(text).items()
    )


def find_known(name: str) -> KnownModel | None:
    """Return the entry that ``name`` spells; without a size, the family's first. Never guesses."""
    wanted = name.lower().removesuffix(":latest")
    exact = next((model for model in known_models() if model.name == wanted), None)
    if exact is not None or ":" in wanted:
        return exact
    return next((model for model in known_models() if model.name.partition(":")[0] == wanted), None)


def search_known(words: str) -> tuple[KnownModel, ...]:
    """Return the entries that hold every word, in the catalogue's order; all without words."""
    wanted = words.lower().split()
    return tuple(
        model
        for model in known_models()
        if all(
            word in f"{model.name} {model.repository} {model.about} {' '.join(model.capabilities)}".lower()
            for word in wanted
        )
    )


def near_known(name: str) -> tuple[str, ...]:
    """Return up to three short names that resemble ``name``."""
    return tuple(difflib.get_close_matches(name.lower(), [model.name for model in known_models()], n=3, cutoff=0.5))
