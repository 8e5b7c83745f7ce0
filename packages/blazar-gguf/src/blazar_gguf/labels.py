"""Names for people: the quantisation label of a file.

The label is for display only. Recorded file types lie (dynamic recipes keep the number of the recipe they started
from), so memory is always summed from the tensors.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from blazar_gguf.tensors import TensorInfo

FILE_TYPES: Final = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
"""``general.file_type`` (``llama_ftype``); the numbering differs from that of tensor types."""

GUESSED: Final = 1024
"""Bit set in ``general.file_type`` when the writer guessed."""

_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9])"
    r"((?:UD-)?(?:IQ[1-4]_(?:XXS|XS|NL|[SML])|TQ[12]_0|Q[1-8]_(?:K(?:_(?:XXL|XL|[SML]))?|[01])|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32))"
    r"(?![A-Za-z0-9])",
    re.IGNORECASE,
)


def from_name(path: str | None) -> str:
    """The quantisation token in a file name (``model-UD-Q4_K_XL-00001-of-00002.gguf``), upper case, or ""."""
    if not path:
        return ""
    found = _TOKEN.findall(PurePath(path).name)
    return str(found[-1]).upper() if found else ""


def from_file_type(file_type: int | None) -> str:
    """The label of a recorded file type, or ""."""
    return "" if file_type is None else FILE_TYPES.get(file_type & ~GUESSED, "")


def from_tensors(tensors: Iterable[TensorInfo]) -> str:
    """The type that takes the most bytes among matrices, or ""."""
    weights: Counter[str] = Counter()
    for t in tensors:
        if len(t.dims) >= 2:
            weights[t.type_name] += t.n_bytes
    return weights.most_common(1)[0][0] if weights else ""
