"""The argument vector of llama-server, compiled from settings and checked against the build. Pure.

Every figure that matters is passed explicitly, since upstream's defaults move: slots (absent means automatic),
the unified cache (on only when slots are automatic), the context (absent means fitted to memory).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from blazar_budget.machine import cap_cache_ram_mb
from blazar_routing.errors import ProfileRejected
from blazar_routing.kinds import EngineKind
from blazar_store.types import EngineRow, ModelRow
from blazar_supervisor.children.endpoint import LOOPBACK, Endpoint
from blazar_supervisor.children.environment import child_environment
from blazar_supervisor.engines.llamacpp.arguments import BadArgument, check_extra_args, spellings_used
from blazar_supervisor.engines.llamacpp.knobs import CACHE_RAM_FLAGS, KNOBS, Asked
from blazar_supervisor.engines.llamacpp.options import Option, spell
from blazar_supervisor.engines.llamacpp.speculation import idle_settings, kinds_of
from blazar_supervisor.engines.manifest import Manifest
from blazar_supervisor.engines.profile import Knobs, Profile, Vectors

SSE_PING_S = 5
"""Seconds of silence between keep-alive comments; also bounds how long a stream holds up SIGTERM."""

CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""What ``-ctk`` and ``-ctv`` take."""


def compile_profile(
    row: ModelRow,
    engine: EngineRow,
    knobs: Knobs,
    manifest: Manifest,
    *,
    ctx_tokens: int,
    ram_bytes: int,
    environ: Mapping[str, str],
) -> Profile:
    """Return the profile of ``row`` on ``engine``.

    Args:
        row: The model.
        engine: The build.
        knobs: The model's settings.
        manifest: The build's flags.
        ctx_tokens: The context decided on (by the memory verdict, or asked for).
        ram_bytes: Main memory of the machine; 0 where unknown.
        environ: The daemon's environment, of which a small part is passed on.

    Raises:
        ProfileRejected: A setting or an extra argument cannot be used with this build.
    """
    warnings: list[str] = []
    slots = knobs.slots
    if slots > 1 and manifest.first_of(("-kvu", "--kv-unified")) is None:
        slots = 1
        warnings.append(
            f"engine '{engine.tag}' has no shared context between slots (-kvu): it serves one request at a time"
        )
    try:
        _check_values(knobs, slots)
        extra = check_extra_args(knobs.extra_args, manifest, engine=engine.tag)
        cache_mb = knobs.cache_ram_mb if ram_bytes == 0 else cap_cache_ram_mb(knobs.cache_ram_mb, ram_bytes)
        kinds = _kinds(row, knobs, extra, manifest, engine=engine.tag)
        asked = Asked(row, knobs, ctx_tokens, slots, cache_mb, kinds, manifest)
        args = _spell(asked, taken=spellings_used(extra, manifest), engine=engine.tag)
    except BadArgument as error:
        raise ProfileRejected(model=row.name, reason=str(error)) from error
    if idle := idle_settings(knobs.written, kinds):
        warnings.append(idle)
    sleeps = knobs.idle_sleep_s >= 1 and manifest.find("--sleep-idle-seconds") is not None
    return Profile(
        model=row.name,
        engine=engine.tag,
        kind=EngineKind.LLAMACPP,
        program=engine.server_path,
        args=(*args, *(word for group in extra for word in group)),
        env=child_environment(environ, library_dir=engine.server_path.parent),
        ctx_tokens=ctx_tokens,
        slots=slots,
        cells=ctx_tokens,
        sleep_s=knobs.idle_sleep_s if sleeps else None,
        cache_ram_mb=cache_mb if manifest.first_of(CACHE_RAM_FLAGS) else 0,
        banks=knobs.banks and knobs.vectors is None and manifest.find("--slot-save-path") is not None,
        weights=row.shards or (row.path,),
        warnings=tuple(warnings),
    )


def speculation_of(row: ModelRow, engine: EngineRow, knobs: Knobs, manifest: Manifest) -> tuple[str, ...]:
    """Return the kinds of speculation that the profile will have, for the account of memory.

    Raises:
        ProfileRejected: As :func:`compile_profile`.
    """
    try:
        extra = check_extra_args(knobs.extra_args, manifest, engine=engine.tag)
        return _kinds(row, knobs, extra, manifest, engine=engine.tag)
    except BadArgument as error:
        raise ProfileRejected(model=row.name, reason=str(error)) from error


def _kinds(
    row: ModelRow, knobs: Knobs, extra: Sequence[tuple[str, ...]], manifest: Manifest, *, engine: str
) -> tuple[str, ...]:
    if knobs.vectors is not None:
        return ()  # There are no answers to guess ahead of.
    own = next((group[1] for group in extra if group[0] == "--spec-type"), None)
    if own is not None:
        return tuple(word for word in own.split(",") if word != "none")
    return kinds_of(
        knobs.written,
        architecture=row.arch or "",
        predicts=knobs.predicts,
        accepted=knobs.accepted,
        manifest=manifest,
        engine=engine,
    )


def with_cache_ram(profile: Profile, cache_ram_mb: int) -> Profile:
    """Return ``profile`` with another cap on its prompt cache: how much is spare is known only when it starts."""
    words = list(profile.args)
    for flag in CACHE_RAM_FLAGS:
        if flag in words:
            words[words.index(flag) + 1] = str(cache_ram_mb)
            return replace(profile, args=tuple(words), cache_ram_mb=cache_ram_mb)
    return profile


def complete_argv(
    profile: Profile, endpoint: Endpoint, apikey_file: Path, bank_dir: Path | None = None
) -> tuple[str, ...]:
    """Return the whole vector of one start: the profile's, with address, secret and where slots are saved."""
    if endpoint.socket_path is not None:
        # A host that ends in .sock selects a unix socket; the port is ignored then.
        address: tuple[str, ...] = ("--host", str(endpoint.socket_path))
    else:
        address = ("--host", LOOPBACK, "--port", str(endpoint.port))
    banks = ("--slot-save-path", str(bank_dir)) if profile.banks and bank_dir is not None else ()
    return (str(profile.program), *address, "--api-key-file", str(apikey_file), *banks, *profile.args)


def _spell(asked: Asked, *, taken: set[str], engine: str) -> tuple[str, ...]:
    if "," in asked.row.name:
        # Split, it would be two names, and the engine would answer under whichever sorts first.
        raise BadArgument(
            "its name holds a comma, which engines take for the end of a name; "
            "add the file under another one (`blazar models add PATH --name NAME`) and remove this row"
        )
    for needed in ("--host", "--port", "--api-key-file"):
        if asked.manifest.find(needed) is None:
            raise BadArgument(f"the engine '{engine}' has no flag '{needed}', without which it cannot be driven")
    options = [
        Option(("-m", "--model"), str(asked.row.path), required=True),
        Option(("--alias", "-a"), asked.row.name, required=True),
        *(option for knob in KNOBS for option in knob.options(asked)),
        *([] if asked.knobs.vectors is None else _vector_options(asked.knobs.vectors, asked.knobs.ubatch)),
        Option(("--sse-ping-interval",), str(SSE_PING_S)),
        Option(("--metrics",)),
        Option(("--slots",)),
        Option(("--no-ui", "--no-webui")),
        Option(("-lv", "--log-verbosity", "--verbosity"), "4"),
    ]
    return spell(options, asked.manifest, taken=taken, engine=engine)


def _vector_options(vectors: Vectors, batch: int) -> list[Option]:
    # An input that is longer than the physical batch is refused, and that is never larger than the logical one.
    options = [Option(("-b", "--batch-size"), str(batch))]
    if vectors.kind == "reranking":
        options.append(Option(("--reranking", "--rerank"), required=True))
    else:
        options.append(Option(("--embeddings", "--embedding"), required=True))
    if vectors.pooling is not None:
        options.append(Option(("--pooling",), vectors.pooling, required=True))
    return options


def _check_values(knobs: Knobs, slots: int) -> None:
    """Refuse what upstream would let through, or would refuse only after reading the file."""
    if slots < 1:
        raise BadArgument(f"slots = {slots}: at least one is needed")
    if knobs.ubatch < 1:
        raise BadArgument(f"ubatch = {knobs.ubatch}: at least 1 is needed")
    for name, value in (("cache_type_k", knobs.cache_type_k), ("cache_type_v", knobs.cache_type_v)):
        if value is not None and value not in CACHE_TYPES:
            raise BadArgument(f"{name} = '{value}' is not one of {', '.join(CACHE_TYPES)}")
