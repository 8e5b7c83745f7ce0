"""The metadata of a file as a mapping from key to value."""

from collections.abc import Iterator, Mapping
from typing import Final

from blazar_gguf.types import ValueType
from blazar_gguf.values import Field, Scalar, Value
from blazar_gguf.walk import Walk

ARCHITECTURE_KEY: Final = "general.architecture"


class Fields(Mapping[str, Value]):
    """Keys in file order; large values are decoded when looked at.

    After a header peek the mapping knows the keys before the first large array (in practice everything but the
    tokenizer). Asking for another key reads on through the file, once, with one exception: when
    ``<arch>.block_count`` was seen, an ``<arch>.…`` key that was not is taken as absent, because every converter
    writes the shape keys together, before the vocabulary.
    """

    def __init__(self, walk: Walk | None, made: Mapping[str, Field] | None = None) -> None:
        self._walk = walk
        self._made = dict(made or {})

    @property
    def known(self) -> Mapping[str, Field]:
        """Descriptions of the fields read so far; reads nothing."""
        return self._made if self._walk is None else self._walk.fields

    @property
    def complete(self) -> bool:
        """True when no key can turn up any more."""
        return self._walk is None or self._walk.complete

    def finish(self) -> None:
        """Read on to the end of the header, if that has not happened.

        Raises:
            GgufError: the rest of the header is damaged, or the file changed.
        """
        if self._walk is not None:
            self._walk.run()

    def find(self, key: str) -> Field | None:
        """Return the description of a field (stored type, place, size), or None.

        Raises:
            GgufError: see :meth:`finish`.
        """
        found = self.known.get(key)
        if found is None and not self.complete and not self._settled(key):
            self.finish()
            found = self.known.get(key)
        return found

    def pending_count(self, key: str) -> int | None:
        """Number of elements of ``key`` if it is the large array that a peek stopped before."""
        if self._walk is None or self._walk.pending is None or self._walk.pending.key != key:
            return None
        return self._walk.pending.count

    def _settled(self, key: str) -> bool:
        arch = self.known.get(ARCHITECTURE_KEY)
        if arch is None or not isinstance(arch.decoded, str) or not key.startswith(arch.decoded + "."):
            return False
        return f"{arch.decoded}.block_count" in self.known

    def __getitem__(self, key: str) -> Value:
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found.value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.find(key) is not None

    def __iter__(self) -> Iterator[str]:
        self.finish()
        return iter(self.known)

    def __len__(self) -> int:
        self.finish()
        return len(self.known)

    def __repr__(self) -> str:
        more = "" if self.complete else " so far"
        return f"<Fields: {len(self.known)} keys{more}>"


def infer_type(value: Scalar) -> ValueType:
    """The type converters store such a value as: ``u32`` where it fits, ``f32`` for floats."""
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, str):
        return ValueType.STRING
    if isinstance(value, float):
        return ValueType.F32
    if 0 <= value < 1 << 32:
        return ValueType.U32
    if -(1 << 31) <= value < 0:
        return ValueType.I32
    return ValueType.U64 if value >= 0 else ValueType.I64


def infer_array_type(values: tuple[Scalar, ...]) -> ValueType:
    """The narrowest type all elements fit; i32 for an empty array and for numbers, as converters do."""
    kinds = {infer_type(v) for v in values}
    if len(kinds) == 1:
        only = next(iter(kinds))
        fits = only is not ValueType.U32 or any(isinstance(v, int) and v >= 1 << 31 for v in values)
        return only if fits else ValueType.I32
    if not kinds or kinds <= {ValueType.I32, ValueType.U32}:
        wide = any(isinstance(v, int) and v >= 1 << 31 for v in values)
        return ValueType.I64 if wide else ValueType.I32
    if ValueType.STRING in kinds or ValueType.BOOL in kinds:
        raise TypeError("the elements of an array must all be of one kind")
    return ValueType.F64 if ValueType.F32 in kinds else ValueType.I64


def make_fields(values: Mapping[str, object]) -> Fields:
    """Build a mapping from plain Python values: int, float, bool, str, or a list or tuple of one of those.

    Raises:
        TypeError: a value is of another type.
    """
    made: dict[str, Field] = {}
    for key, value in values.items():
        if isinstance(value, (list, tuple)):
            items = tuple(_scalar(key, item) for item in value)
            kind = infer_array_type(items)
            made[key] = Field(key, ValueType.ARRAY, kind, len(items), raw_key=key.encode(), decoded=items)
        else:
            one = _scalar(key, value)
            made[key] = Field(key, infer_type(one), raw_key=key.encode(), decoded=one)
    return Fields(None, made)


def _scalar(key: str, value: object) -> Scalar:
    if isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{key}: {type(value).__name__} is no GGUF value; use int, float, bool, str, or a list of them")
