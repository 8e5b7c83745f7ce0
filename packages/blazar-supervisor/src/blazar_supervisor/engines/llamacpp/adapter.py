"""llama-server behind :class:`blazar_supervisor.engines.adapter.EngineAdapter`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from blazar_routing.kinds import EngineKind
from blazar_store.types import EngineRow, ModelRow
from blazar_supervisor.children.endpoint import Endpoint
from blazar_supervisor.engines.adapter import DisconnectCancels, WarmPeg
from blazar_supervisor.engines.failure import Failure
from blazar_supervisor.engines.llamacpp.argv import compile_profile, complete_argv, speculation_of, with_cache_ram
from blazar_supervisor.engines.llamacpp.control import LlamaControl
from blazar_supervisor.engines.llamacpp.failures import classify_failure, telling_lines
from blazar_supervisor.engines.llamacpp.loglines import LlamaLog
from blazar_supervisor.engines.manifest import Manifest, parse_help
from blazar_supervisor.engines.profile import Knobs, Profile


class LlamaCpp:
    """The llama.cpp lane. Stateless."""

    kind = EngineKind.LLAMACPP
    load_timeout_s = 180.0
    disconnect_cancels = DisconnectCancels.STREAMS
    warm_peg = WarmPeg.DETACHED

    def parse_manifest(self, help_text: str) -> Manifest:
        """See :func:`parse_help`."""
        return parse_help(help_text, folds_underscores=True)

    def compile(
        self,
        row: ModelRow,
        engine: EngineRow,
        knobs: Knobs,
        manifest: Manifest,
        *,
        ctx_tokens: int,
        ram_bytes: int,
        environ: Mapping[str, str],
    ) -> Profile:
        """See :func:`compile_profile`."""
        return compile_profile(
            row, engine, knobs, manifest, ctx_tokens=ctx_tokens, ram_bytes=ram_bytes, environ=environ
        )

    def speculation(self, row: ModelRow, engine: EngineRow, knobs: Knobs, manifest: Manifest) -> tuple[str, ...]:
        """See :func:`speculation_of`."""
        return speculation_of(row, engine, knobs, manifest)

    def with_cache_ram(self, profile: Profile, cache_ram_mb: int) -> Profile:
        """See :func:`with_cache_ram`."""
        return with_cache_ram(profile, cache_ram_mb)

    def argv(
        self, profile: Profile, endpoint: Endpoint, apikey_file: Path, bank_dir: Path | None = None
    ) -> tuple[str, ...]:
        """See :func:`complete_argv`."""
        return complete_argv(profile, endpoint, apikey_file, bank_dir)

    def headers(self, secret: str) -> Mapping[str, str]:
        """The secret; spelled with a capital B, since the engine refuses ``bearer``."""
        return {"Authorization": f"Bearer {secret}"}

    def read_log(self) -> LlamaLog:
        """Return a fresh reader."""
        return LlamaLog()

    def control(self, endpoint: Endpoint, headers: Mapping[str, str]) -> LlamaControl:
        """Return a client for the child's own endpoints."""
        return LlamaControl(endpoint, headers)

    def classify(self, lines: Sequence[str], returncode: int | None) -> Failure:
        """See :func:`classify_failure`."""
        return classify_failure(lines, returncode)

    def telling(self, lines: Sequence[str]) -> tuple[str, ...]:
        """See :func:`telling_lines`."""
        return telling_lines(lines)
