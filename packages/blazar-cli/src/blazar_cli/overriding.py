"""``typing.override`` for Python 3.11.

``typing_extensions`` has it too, and takes longer to import than ``blazar version`` may take in all.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override as override
else:
    _Function = TypeVar("_Function", bound=Callable[..., Any])

    def override(function: _Function) -> _Function:
        """Mark a method as one that replaces its base class's; for type checkers only."""
        return function
