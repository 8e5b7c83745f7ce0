"""Stand-ins for engine binaries: small real programs that tests launch.

Only names are exported here, and each is fetched when it is asked for: a stub process imports this package
too, and must be answering within a few dozen milliseconds.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blazar_stubs.install import Variant, install_stub
    from blazar_stubs.models import StubModel, write_stub_model

__all__ = ["StubModel", "Variant", "install_stub", "write_stub_model"]

_HOMES = {
    "StubModel": "blazar_stubs.models",
    "Variant": "blazar_stubs.install",
    "install_stub": "blazar_stubs.install",
    "write_stub_model": "blazar_stubs.models",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)
