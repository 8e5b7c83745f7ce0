"""What a command line means for a server, and what it makes of a model: slots, windows, sizes."""

from blazar_stubs.llama_server.flags import CommandLine
from blazar_stubs.llama_server.gguf_header import Header

_CACHE_BYTES = {
    "f32": (4, 1), "f16": (2, 1), "bf16": (2, 1), "q8_0": (34, 32), "q4_0": (18, 32), "q4_1": (20, 32),
    "q5_0": (22, 32), "q5_1": (24, 32), "iq4_nl": (18, 32),
}  # fmt: skip
"""KV cache type: bytes, and the elements they hold (llamacpp.md, section 6.1)."""


class Settings:
    """One server's settings, by upstream's names."""

    def __init__(self, line: CommandLine) -> None:
        self.model_path = line.text("-m")
        self.host = line.text("--host", "127.0.0.1")
        self.port = line.number("--port", 8080)
        self.context = line.number("-c", 0)
        parallel = line.number("-np", -1)
        self.slots_are_auto = parallel < 0
        self.slots = 4 if self.slots_are_auto else parallel
        # Slots chosen by the engine share one pool, whatever else is said (observed).
        self.unified = self.slots_are_auto or bool(line.switch("-kvu", False))
        self.predict = line.number("-n", -1)
        self.batch = line.number("-b", 2048)
        self.aliases = sorted({alias for alias in line.text("-a").split(",") if alias})
        self.api_keys = _keys(line)
        self.metrics = bool(line.switch("--metrics", False))
        self.slots_endpoint = bool(line.switch("--slots", True))
        self.props = bool(line.switch("--props", False))
        self.slot_save_path = line.text("--slot-save-path")
        self.sleep_idle_s = line.number("--sleep-idle-seconds", -1)
        self.ping_interval_s = line.number("--sse-ping-interval", 30)
        self.reranking = bool(line.switch("--rerank", False))
        self.embeddings = bool(line.switch("--embedding", False)) or self.reranking
        self.pooling = line.text("--pooling", "rank" if self.reranking else "")
        self.cache_type_k = line.text("-ctk", "f16")
        self.cache_type_v = line.text("-ctv", "f16")
        self.flash_attention = line.text("-fa", "auto")
        self.verbosity = line.number("-lv", 5 if line.given("-v") else 3)
        self.fit = line.text("-fit", "on") != "off"
        self.ui = bool(line.switch("--ui", True))
        self.api_prefix = line.text("--api-prefix")
        self.cache_ram_mib = line.number("-cram", 8192)
        self.similarity = float(line.text("-sps", "0.1") or 0.1)
        self.chat_template = _template(line)
        self.full_window = bool(line.switch("--swa-full", False))
        self.projector = line.text("-mm")
        self.adapters = [path for path in line.text("--lora").split(",") if path]

    @property
    def listens_on_socket(self) -> bool:
        """Whether the host is the path of a UNIX socket: only the suffix decides."""
        return self.host.endswith(".sock")

    @property
    def model_name(self) -> str:
        """What replies carry as model: upstream keeps aliases as a sorted set and reports the first."""
        return self.aliases[0] if self.aliases else self.model_path


class Shape:
    """A model under settings: windows, cells and bytes (llamacpp.md, section 7.1)."""

    def __init__(self, settings: Settings, header: Header) -> None:
        self.train_context = header.number("context_length", 2048)
        asked = settings.context or self.train_context
        asked = _padded(asked)
        per_slot = asked if settings.unified else _padded(asked // settings.slots)
        self.cells = asked if settings.unified else per_slot * settings.slots
        self.rounded = self.cells != asked
        self.uncapped_context = per_slot
        self.slot_context = min(per_slot, self.train_context)
        self.layers = header.number("block_count", 1)
        self.embedding = header.number("embedding_length", 64)
        heads = header.number("attention.head_count", 1) or 1
        kv_heads = header.number("attention.head_count_kv", heads)
        self.key_width = header.number("attention.key_length", self.embedding // heads) * kv_heads
        self.value_width = header.number("attention.value_length", self.embedding // heads) * kv_heads
        self.window = header.number("attention.sliding_window", 0)
        self.vocabulary = header.lengths.get("tokenizer.ggml.tokens", 0)
        self.parameters = sum(tensor.elements for tensor in header.tensors)
        self.weight_bytes = sum(tensor.size_bytes for tensor in header.tensors)
        key_bytes, key_block = _CACHE_BYTES.get(settings.cache_type_k, (2, 1))
        value_bytes, value_block = _CACHE_BYTES.get(settings.cache_type_v, (2, 1))
        self.key_bytes = self.key_width * key_bytes // key_block * self.layers
        self.value_bytes = self.value_width * value_bytes // value_block * self.layers

    @property
    def cell_bytes(self) -> int:
        """Bytes one token takes in the KV cache, all layers."""
        return self.key_bytes + self.value_bytes


def _padded(cells: int) -> int:
    """Round up to the multiple of 256 that the engine allocates in."""
    return -(-cells // 256) * 256


def _keys(line: CommandLine) -> tuple[str, ...]:
    keys = [key for key in line.text("--api-key").split(",") if key]
    path = line.text("--api-key-file")
    if path:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - importing pathlib doubles the start-up time
            keys += [row.strip() for row in file if row.strip() and not row.startswith("#")]
    return tuple(keys)


def _template(line: CommandLine) -> str | None:
    path = line.text("--chat-template-file")
    if path:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - see _keys
            return file.read()
    return line.text("--chat-template") or None
