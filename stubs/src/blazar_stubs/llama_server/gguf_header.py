"""Read a model file's header, and refuse what the engine refuses with the engine's words.

Only what a server shows or computes with is kept: long arrays are counted, not stored. The order of the
checks is the loader's (gguf.cpp, llama-model-loader.cpp): magic, pairs, tensor table, architecture, bounds.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

Scalar = str | int | float | bool

_ARCHITECTURES = """
    clip llama llama4 deci falcon grok gpt2 gptj gptneox mpt baichuan starcoder refact bert modern-bert
    nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert bloom stablelm qwen qwen2 qwen2moe
    qwen2vl qwen3 qwen3moe qwen3next qwen3vl qwen3vlmoe qwen35 qwen35moe phi2 phi3 phimoe plamo plamo2 plamo3
    codeshell orion internlm2 minicpm minicpm3 gemma gemma2 gemma3 gemma3n gemma4 gemma4-assistant
    gemma-embedding starcoder2 mamba mamba2 jamba falcon-h1 xverse command-r cohere2 cohere2moe dbrx olmo olmo2
    olmoe muse-glimmer openelm arctic deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 chatglm glm4 glm4moe
    glm-dsa bitnet t5 t5encoder jais jais2 nemotron nemotron_h nemotron_h_moe exaone exaone4 exaone-moe rwkv6
    rwkv6qwen2 rwkv7 arwkv7 granite granitemoe granitehybrid graniteswitch chameleon wavtokenizer-dec plm
    bailingmoe bailingmoe2 dots1 arcee afmoe laguna ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense hunyuan_vl
    hy_v3 smollm3 gpt-oss lfm2 lfm2moe dream smallthinker llada llada-moe seed_oss grovemoe apertus minimax-m2
    minimax-m3 cogvlm rnd1 pangu-embedded mistral3 eagle3 dflash mistral4 paddleocr mimo2 step35 llama-embed
    maincoder kimi-linear talkie mellum nanbeige qwen3tts pockettts
"""

KNOWN_ARCHITECTURES = frozenset(_ARCHITECTURES.split())
"""What b10434 loads (llama-arch.cpp)."""

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING = 8
_ARRAY = 9
_TENSOR_TYPES = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""ggml type: elements and bytes of a block."""
_FTYPES = {0: "all F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 15: "Q4_K - Medium"}
_FIRST_READ_BYTES = 1 << 18


class LoadError(Exception):
    """The engine cannot load this file.

    Attributes:
        reader_line: What the GGUF reader says first, or None.
        reason: What follows ``error loading model:``.
    """

    def __init__(self, reason: str, reader_line: str | None = None) -> None:
        super().__init__(reader_line or reason)
        self.reader_line = reader_line
        self.reason = reason


class Tensor(NamedTuple):
    """One entry of the tensor table."""

    name: str
    elements: int
    size_bytes: int
    offset: int


class Header(NamedTuple):
    """What a file says of itself."""

    keys: Mapping[str, Scalar]
    lengths: Mapping[str, int]
    tokens: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    data_start: int

    @property
    def architecture(self) -> str:
        """``general.architecture``."""
        return str(self.keys.get("general.architecture", ""))

    def number(self, suffix: str, default: int = 0) -> int:
        """A whole number under ``<architecture>.``; the first element's place is taken by the default for arrays."""
        value = self.keys.get(f"{self.architecture}.{suffix}", default)
        return int(value) if isinstance(value, int | float) else default

    def text(self, key: str, default: str = "") -> str:
        """A text under its full key."""
        value = self.keys.get(key, default)
        return value if isinstance(value, str) else default

    @property
    def file_type(self) -> str:
        """``general.file_type`` in words."""
        number = self.keys.get("general.file_type")
        return _FTYPES.get(number, f"type {number}") if isinstance(number, int) else "unknown"


class _Cut(Exception):
    """The data ended."""


class _Cursor:
    """Reads a buffer that may be longer than what is in it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise _Cut
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, form: str) -> Scalar:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return value  # type: ignore[no-any-return] # struct cannot say; the forms above give these types

    def count(self) -> int:
        return int(self.unpack("<Q"))

    def string(self) -> str:
        return self.take(self.count()).decode("utf-8", "replace")


def read_header(path: str) -> Header:
    """Read and check a file.

    Raises:
        LoadError: The file is missing, is no GGUF, is cut short or of an unknown architecture.
    """
    refused = f"llama_model_loader: failed to load model from {path}"
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - importing pathlib doubles the start-up time
            size = file.seek(0, 2)
            file.seek(0)
            data = file.read(_FIRST_READ_BYTES)
    except IsADirectoryError:
        raise LoadError(refused, "gguf_init_from_reader: failed to read magic") from None
    except OSError as error:
        line = f"gguf_init_from_file: failed to open GGUF file '{path}' ({error.strerror})"
        raise LoadError(refused, line) from None
    if len(data) < 4:
        raise LoadError(refused, "gguf_init_from_reader: failed to read magic")
    if data[:4] != b"GGUF":
        found = "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in data[:4])
        raise LoadError(refused, f"gguf_init_from_reader: invalid magic characters: '{found}', expected 'GGUF'")
    try:
        header = _parse_growing(path, data, size)
    except _Part as part:
        raise LoadError(refused, f"gguf_init_from_reader: failed to read {part}") from None
    _check(header, size)
    return header


def _parse_growing(path: str, data: bytes, size: int) -> Header:
    """Parse, reading more of the file as long as it is not enough: most headers are small, some are not."""
    while True:
        try:
            return _parse(_Cursor(data))
        except _Part:
            if len(data) >= size:
                raise
        with open(path, "rb") as file:  # noqa: PTH123 - see read_header
            data = file.read(len(data) * 8)


class _Part(Exception):
    """The part of the file that could not be read."""


def _parse(cursor: _Cursor) -> Header:
    cursor.take(4)
    try:
        cursor.unpack("<I")
        tensor_count, pair_count = cursor.count(), cursor.count()
    except _Cut:
        raise _Part("header") from None
    keys: dict[str, Scalar] = {}
    lengths: dict[str, int] = {}
    tokens: list[str] = []
    try:
        for _ in range(pair_count):
            key = cursor.string()
            kind = int(cursor.unpack("<I"))
            if kind == _ARRAY:
                lengths[key] = _array(cursor, tokens if key == "tokenizer.ggml.tokens" else None)
            elif kind == _STRING:
                keys[key] = cursor.string()
            elif kind in _SCALARS:
                keys[key] = cursor.unpack(_SCALARS[kind])
            else:
                raise _Cut
    except _Cut:
        raise _Part("key-value pairs") from None
    try:
        tensors = [_tensor(cursor) for _ in range(tensor_count)]
    except _Cut:
        raise _Part("tensor info") from None
    alignment = int(keys.get("general.alignment", 32)) or 32
    start = -(-cursor.at // alignment) * alignment
    return Header(keys, lengths, tuple(tokens), tuple(tensors), start)


def _array(cursor: _Cursor, into: list[str] | None) -> int:
    kind = int(cursor.unpack("<I"))
    length = cursor.count()
    if kind == _STRING:
        for _ in range(length):
            size = cursor.count()
            piece = cursor.take(size)
            if into is not None:
                into.append(piece.decode("utf-8", "replace"))
    elif kind in _SCALARS:
        cursor.take(length * struct.calcsize(_SCALARS[kind]))
    else:
        raise _Cut
    return length


def _tensor(cursor: _Cursor) -> Tensor:
    name = cursor.string()
    dimensions = int(cursor.unpack("<I"))
    if dimensions > 4:
        raise _Cut
    elements = 1
    for _ in range(dimensions):
        elements *= cursor.count()
    block, block_bytes = _TENSOR_TYPES.get(int(cursor.unpack("<I")), (1, 4))
    return Tensor(name, elements, elements // block * block_bytes, cursor.count())


def _check(header: Header, size: int) -> None:
    if header.architecture not in KNOWN_ARCHITECTURES:
        raise LoadError(f"unknown model architecture: '{header.architecture}'")
    for tensor in header.tensors:
        if header.data_start + tensor.offset + tensor.size_bytes > size:
            raise LoadError(
                f"tensor '{tensor.name}' data is not within the file bounds, model is corrupted or incomplete"
            )
