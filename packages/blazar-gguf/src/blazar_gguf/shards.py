"""Split models: ``name-00001-of-00003.gguf`` and its siblings, found and summed.

Only the first part carries the model's keys; each part has its own tensor infos, so sizes and parameter counts
need all of them.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from blazar_gguf.errors import ShardMismatch, ShardMissing
from blazar_gguf.hparams import as_int
from blazar_gguf.meta import GgufMeta
from blazar_gguf.reader import read_metadata_file

_NAME: Final = re.compile(r"^(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ShardName:
    """The name of one part, taken apart.

    Attributes:
        prefix: what comes before ``-00001-of-00003.gguf``.
        number: 1 to ``count``.
        count: parts in the set.
    """

    prefix: str
    number: int
    count: int

    def part(self, number: int) -> str:
        """The name of another part of the same set."""
        return shard_name(self.prefix, number, self.count)


def shard_name(prefix: str, number: int, count: int) -> str:
    """The one form of name the engine accepts, numbered from 1."""
    return f"{prefix}-{number:05d}-of-{count:05d}.gguf"


def parse_shard_name(name: str) -> ShardName | None:
    """Take a file name apart; None when it is not the name of a part."""
    found = _NAME.match(name)
    if found is None:
        return None
    parsed = ShardName(found["prefix"], int(found["number"]), int(found["count"]))
    return parsed if 1 <= parsed.number <= parsed.count else None


@dataclass(frozen=True)
class ShardSet:
    """A model in one or more files.

    Attributes:
        paths: the parts in order; one for a model that is not split.
        metas: the header of each part. The first has the model's keys.
    """

    paths: tuple[Path, ...]
    metas: tuple[GgufMeta, ...]

    @property
    def meta(self) -> GgufMeta:
        """The header with the model's keys."""
        return self.metas[0]

    @cached_property
    def total_bytes(self) -> int:
        """Size of all files."""
        return sum(m.file_bytes for m in self.metas)

    @cached_property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors' data: the weights."""
        return sum(m.tensor_bytes for m in self.metas)

    @cached_property
    def n_params(self) -> int:
        """Elements of all tensors."""
        return sum(m.n_params for m in self.metas)

    @cached_property
    def active_params(self) -> int:
        """Elements that take part in one token."""
        used, count = self.meta.expert_used_count, self.meta.expert_count
        if not count or not 0 < used < count:
            return self.n_params
        experts = sum(t.n_elements for m in self.metas for t in m.tensors if t.is_expert)
        return self.n_params - experts + experts * used // count

    def __len__(self) -> int:
        return len(self.paths)


def resolve_shards(path: str | os.PathLike[str]) -> ShardSet:
    """Find all parts of the model that a file belongs to and read their headers.

    Args:
        path: any part of a split set, or a model in one file.

    Raises:
        ShardMissing: a part is not there; the text names it.
        ShardMismatch: a part says it belongs to another set or place.
        GgufError: a part cannot be read.
    """
    given = Path(path)
    name = parse_shard_name(given.name)
    if name is None:
        alone = read_metadata_file(given)
        claimed = as_int(alone.get("split.count")) or 0
        if claimed > 1:
            raise ShardMismatch(
                f"this is a part of a set of {claimed}, but is not named like one. Rename it to "
                f"{shard_name(given.stem, (as_int(alone.get('split.no')) or 0) + 1, claimed)}, beside the others",
                path=str(given),
            )
        return ShardSet((given,), (alone,))
    paths = tuple(given.with_name(name.part(number)) for number in range(1, name.count + 1))
    missing = [p.name for p in paths if not p.exists()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ShardMissing(
            f"parts of this split model are missing: {', '.join(missing[:3])}{more}. "
            f"Put all {name.count} parts into one folder",
            path=str(given),
        )
    metas = tuple(read_metadata_file(p) for p in paths)
    for number, meta in enumerate(metas):
        _check_part(meta, number, name.count)
    return ShardSet(paths, metas)


def _check_part(meta: GgufMeta, number: int, count: int) -> None:
    stored_no, stored_count = as_int(meta.get("split.no")), as_int(meta.get("split.count"))
    if stored_count is None and stored_no is None and count == 1:
        return
    if stored_count != count:
        raise ShardMismatch(
            f"this part says it is one of {stored_count or 'no set'}, its name says one of {count}. "
            "Download the set again",
            path=meta.path,
        )
    if stored_no != number:
        raise ShardMismatch(
            f"this part says it is number {(stored_no or 0) + 1}, its name says {number + 1}. Download the set again",
            path=meta.path,
        )
