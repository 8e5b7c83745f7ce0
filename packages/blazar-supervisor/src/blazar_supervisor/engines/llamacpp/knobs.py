"""Every setting of a model and the flags it becomes: the one table that arguments and reference are made of. Pure."""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from blazar_store.settings_models import expand
from blazar_store.settings_values import sampler_chain
from blazar_store.types import ModelRow
from blazar_supervisor.engines.llamacpp.arguments import BadArgument
from blazar_supervisor.engines.llamacpp.options import Option
from blazar_supervisor.engines.llamacpp.speculation import SPEC_KNOBS, spec_options
from blazar_supervisor.engines.manifest import Manifest
from blazar_supervisor.engines.profile import Knobs

CACHE_RAM_FLAGS: Final = ("--cache-ram", "-cram")
_EFFORT_FLAG: Final = "--reasoning-effort"
_BATCH: Final = 2048
"""The engine's own logical batch, to which it cuts a larger ``-ub`` without a word."""

_LISTED_SAMPLERS: Final = re.compile(r"\(default: ([a-z_;]+)\)")

FFN_PATTERN: Final = r"\.ffn_(up|down|gate|gate_up)(_exps|_shexp|_chexps)?\.weight"
"""Every feed-forward matrix, experts included, as ``ffn-cpu`` keeps them in main memory."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the arguments of one start are made of.

    Attributes:
        row: The model.
        knobs: Its settings.
        ctx_tokens: The context decided on.
        slots: The slots it gets on this build.
        cache_mb: The prompt cache, capped.
        kinds: Of speculation.
        manifest: The build's flags.
    """

    row: ModelRow
    knobs: Knobs
    ctx_tokens: int
    slots: int
    cache_mb: int
    kinds: Sequence[str]
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting.

    Attributes:
        setting: Its name in ``[models."NAME"]``.
        flags: What it becomes, for the reference; empty where it becomes none.
        unset: What holds without it, for the reference.
        options: What it adds to the vector.
    """

    setting: str
    flags: tuple[str, ...]
    unset: str
    options: Callable[[Asked], Iterable[Option]] = lambda _asked: ()


def _plain(setting: str, *flags: str, unset: str, text: Callable[[object], str | None] = str) -> Knob:
    """Return a knob that is passed on as it was written."""

    def options(asked: Asked) -> Iterable[Option]:
        value = getattr(asked.knobs.written, setting)
        if value is not None and (words := text(value)) is not None:
            yield Option(flags, words, required=True, setting=setting)

    return Knob(setting, flags[:1], unset, options)


def _given(setting: str, *flags: str, unset: str, value: Callable[[Asked], str | None]) -> Knob:
    """Return a knob whose value has been decided on elsewhere."""

    def options(asked: Asked) -> Iterable[Option]:
        if (text := value(asked)) is not None:
            yield Option(flags, text, required=True, setting=setting)

    return Knob(setting, flags[:1], unset, options)


def _slots(asked: Asked) -> Iterable[Option]:
    yield Option(("-np", "--parallel"), str(asked.slots), required=True, setting="slots")


def _ubatch(asked: Asked) -> Iterable[Option]:
    size = asked.knobs.ubatch
    yield Option(("-ub", "--ubatch-size"), str(size))
    if size > _BATCH and asked.knobs.vectors is None:
        yield Option(("-b", "--batch-size"), str(size), required=True, setting="ubatch")
    if asked.slots > 1:
        yield Option(("-kvu", "--kv-unified"))


def _switch(setting: str, flag: str) -> Knob:
    def options(asked: Asked) -> Iterable[Option]:
        if getattr(asked.knobs.written, setting):
            yield Option((flag,), required=True, setting=setting)

    return Knob(setting, (flag,), "false", options)


def _similarity(value: object) -> str | None:
    # Nought is "as the engine does it"; the engine's own nought would switch the comparison off.
    return None if value == 0 else str(value)


def _names(value: object) -> str:
    assert isinstance(value, tuple)
    return ",".join(value)


def _expanded(value: object) -> str:
    return str(expand(str(value)))


def _samplers(asked: Asked) -> Iterable[Option]:
    chain = asked.knobs.written.samplers
    if chain is None:
        return
    names = sampler_chain(chain)
    flag = asked.manifest.find("--samplers")
    listed = _LISTED_SAMPLERS.search(flag.text) if flag else None
    if listed is not None:
        known = {*listed[1].split(";"), "infill"}
        if asked.manifest.find("--adaptive-target") is not None:
            known.add("adaptive_p")
        for name in names:
            if name not in known:
                raise BadArgument(f"samplers: this build has no '{name}'; it has {', '.join(sorted(known))}")
    yield Option(("--samplers",), ";".join(names), required=True, setting="samplers")


def _tensors(asked: Asked) -> Iterable[Option]:
    preset = asked.knobs.written.tensor_preset
    if preset is None:
        return
    _, _, count = preset.partition(":")
    if count:
        yield Option(("-ncmoe", "--n-cpu-moe"), count, required=True, setting="tensor_preset")
    elif preset == "cpu-moe":
        yield Option(("-cmoe", "--cpu-moe"), required=True, setting="tensor_preset")
    else:
        yield Option(("-ot", "--override-tensor"), f"{FFN_PATTERN}=CPU", required=True, setting="tensor_preset")


def _adapters(asked: Asked) -> Iterable[Option]:
    adapters = asked.knobs.written.lora or ()
    paths = [_expanded(adapter.path) for adapter in adapters]
    scaled = any(adapter.scale != 1 for adapter in adapters)
    for path in paths:
        if "," in path or (scaled and ":" in path):
            sign = "," if "," in path else ":"
            raise BadArgument(
                f"lora: the engine reads '{sign}' as a separator, so '{path}' cannot be passed; rename the file"
            )
    if scaled:
        pairs = (f"{path}:{adapter.scale:g}" for path, adapter in zip(paths, adapters, strict=True))
        yield Option(("--lora-scaled",), ",".join(pairs), required=True, setting="lora")
    elif paths:
        yield Option(("--lora",), ",".join(paths), required=True, setting="lora")


def _template(asked: Asked) -> Iterable[Option]:
    template = asked.knobs.written.chat_template
    if template is None:
        return
    if "{" not in template:
        _check_template_name(template, asked.manifest)
    yield Option(("--chat-template",), template, required=True, setting="chat_template")


def _check_template_name(name: str, manifest: Manifest) -> None:
    """Refuse a name that the engine does not have: it would take it for the text of a template and answer with it."""
    flag = manifest.find("--chat-template")
    _, listed, names = (flag.text if flag else "").partition("list of built-in templates:")
    known = [word.strip() for word in names.partition("(env")[0].split(",")]
    if not listed or name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    raise BadArgument(
        f"chat_template = '{name}' is neither Jinja text nor a template that the engine has built in; "
        f"the nearest it has is '{near[0]}'"
    )


def _template_arguments(asked: Asked) -> Iterable[Option]:
    written = asked.knobs.written
    arguments = dict(written.chat_template_kwargs or {})
    if written.reasoning_effort is not None and asked.manifest.find(_EFFORT_FLAG) is None:
        # Builds before the flag: it is nothing but this argument.
        arguments.setdefault("reasoning_effort", written.reasoning_effort)
    if arguments:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        yield Option(("--chat-template-kwargs",), text, required=True, setting="chat_template_kwargs")


def _effort(asked: Asked) -> Iterable[Option]:
    if asked.knobs.written.reasoning_effort is not None:
        yield Option((_EFFORT_FLAG,), asked.knobs.written.reasoning_effort)


def _spec(asked: Asked) -> Iterable[Option]:
    return spec_options(asked.knobs.written, asked.kinds)


_ENGINES = "the engine's"

KNOBS: Final = (
    _given("ctx", "-c", "--ctx-size", unset="auto", value=lambda asked: str(asked.ctx_tokens)),
    Knob("slots", ("-np",), "4", _slots),
    Knob("deterministic", ("-np 1",), "false"),
    Knob("ubatch", ("-ub", "-b"), "512", _ubatch),
    _given("cache_type_k", "-ctk", "--cache-type-k", unset="f16", value=lambda asked: asked.knobs.cache_type_k),
    _given("cache_type_v", "-ctv", "--cache-type-v", unset="f16", value=lambda asked: asked.knobs.cache_type_v),
    _given("gpu_layers", "-ngl", "--gpu-layers", "--n-gpu-layers", unset="auto", value=lambda a: a.knobs.gpu_layers),
    _plain("devices", "-dev", "--device", unset="all", text=_names),
    Knob("tensor_preset", ("-cmoe", "-ncmoe", "-ot"), "none", _tensors),
    _plain("threads", "-t", "--threads", unset=_ENGINES),
    _plain("threads_batch", "-tb", "--threads-batch", unset="as `threads`"),
    Knob("samplers", ("--samplers",), _ENGINES, _samplers),
    _plain("slot_prompt_similarity", "-sps", "--slot-prompt-similarity", unset="0.1", text=_similarity),
    Knob("chat_template", ("--chat-template",), "the model's", _template),
    _given(
        "chat_template_file",
        "--chat-template-file",
        unset="the model's",
        value=lambda asked: None if asked.knobs.chat_template_file is None else str(asked.knobs.chat_template_file),
    ),
    Knob("chat_template_kwargs", ("--chat-template-kwargs",), "none", _template_arguments),
    Knob("reasoning_effort", (_EFFORT_FLAG,), "the template's", _effort),
    _plain("mcp_servers_config", "--mcp-servers-config", unset="none", text=_expanded),
    _plain("mcp_servers_json", "--mcp-servers-json", unset="none"),
    _given(
        "mmproj_policy",
        "-mm",
        "--mmproj",
        unset="attach",
        value=lambda asked: str(asked.row.mmproj_path) if asked.knobs.mmproj and asked.row.mmproj_path else None,
    ),
    Knob("lora", ("--lora", "--lora-scaled"), "none", _adapters),
    _switch("context_shift", "--context-shift"),
    Knob("spec", ("--spec-type",), "auto", _spec),
    *(Knob(knob.setting, (knob.flag,), _ENGINES) for knob in SPEC_KNOBS),
    Knob(
        "idle_sleep_secs",
        ("--sleep-idle-seconds",),
        "`idle_sleep_secs` at the top",
        lambda asked: (
            [Option(("--sleep-idle-seconds",), str(asked.knobs.idle_sleep_s))] if asked.knobs.idle_sleep_s >= 1 else []
        ),
    ),
    Knob(
        "cache_ram_mb",
        ("--cache-ram",),
        "`cache_ram_mb` at the top",
        lambda asked: [Option(CACHE_RAM_FLAGS, str(asked.cache_mb))],
    ),
    Knob("extra_args", ("as written",), "none"),
    Knob("engine", (), "the active build of the first lane"),
    Knob("load_timeout_secs", (), "180"),
    Knob("idle_timeout_secs", (), "`idle_timeout_secs` at the top"),
)
"""Every knob, in the order of the argument vector."""
