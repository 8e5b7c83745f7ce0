"""The adapters there are."""

from blazar_routing.errors import EngineMissing
from blazar_routing.kinds import EngineKind
from blazar_supervisor.engines.adapter import EngineAdapter
from blazar_supervisor.engines.llamacpp.adapter import LlamaCpp

_ADAPTERS: dict[EngineKind, EngineAdapter] = {EngineKind.LLAMACPP: LlamaCpp()}


def get_adapter(kind: EngineKind, *, model: str) -> EngineAdapter:
    """Return the adapter of a kind.

    Raises:
        EngineMissing: This version cannot drive engines of that kind.
    """
    adapter = _ADAPTERS.get(kind)
    if adapter is None:
        raise EngineMissing(model=model, shape="its lane", kinds=(kind.value,))
    return adapter
