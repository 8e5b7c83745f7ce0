"""Why llama-server did not come up, read from its last lines.

The exit status says nothing (1 covers every cause), so the text decides. Model errors are printed twice (the pass
that fits parameters to memory tries the load first); the first match wins.
"""

import re
from collections.abc import Sequence

from blazar_supervisor.engines.failure import INCOMPLETE_ADVICE, Cause, Failure, exit_failure
from blazar_supervisor.engines.libraries import library_package
from blazar_supervisor.engines.llamacpp.loglines import split_prefix

_EXTRA = "Look at `extra_args` and the other settings of the model in the configuration."

_RULES: tuple[tuple[re.Pattern[str], Cause, str, str], ...] = tuple(
    (re.compile(pattern), cause, reason, advice)
    for pattern, cause, reason, advice in (
        (
            r"couldn't bind HTTP server socket",
            Cause.BIND,
            "its address was taken by another program at that moment",
            "Send the request again.",
        ),
        (
            r"error while loading shared libraries: (?P<detail>[^:\s]+)",
            Cause.LIBRARY,
            "the engine needs the shared library {detail}, which this system lacks",
            "Install it ({package}), then send the request again.",
        ),
        (
            r"failed to open GGUF file '(?P<detail>[^']*)' \(No such file",
            Cause.FILE_MISSING,
            "the file is gone: {detail}",
            "Put it back, or remove the row with `blazar models rm` and add the file where it is now.",
        ),
        (
            r"failed to open GGUF file '(?P<detail>[^']*)' \((?P<why>[^)]*)\)",
            Cause.FILE_UNREADABLE,
            "the file cannot be opened ({why}): {detail}",
            "Give this user the right to read it.",
        ),
        (
            r"invalid magic characters: '(?P<detail>[^']*)'",
            Cause.FILE_UNREADABLE,
            "the file is not a GGUF file (it starts with '{detail}')",
            INCOMPLETE_ADVICE,
        ),
        (r"failed to read magic", Cause.FILE_UNREADABLE, "the file is empty or too short", INCOMPLETE_ADVICE),
        (
            r"failed to read (?:key-value pairs|tensor (?:info|data))",
            Cause.FILE_UNREADABLE,
            "the file's header is cut short",
            INCOMPLETE_ADVICE,
        ),
        (
            r"tensor '(?P<detail>[^']*)' data is not within the file bounds",
            Cause.FILE_UNREADABLE,
            "the file is cut short (tensor '{detail}' lies beyond its end)",
            INCOMPLETE_ADVICE,
        ),
        (
            r"unknown model architecture: '(?P<detail>[^']*)'",
            Cause.UNKNOWN_ARCHITECTURE,
            "this engine build does not know the architecture '{detail}'",
            "Register a newer build with `blazar engine add-local PATH`.",
        ),
        (
            r"has invalid ggml type (?P<detail>\d+)",
            Cause.UNKNOWN_ARCHITECTURE,
            "this engine build does not know the tensor type {detail}",
            "Register a newer build with `blazar engine add-local PATH`, or use another quantization.",
        ),
        (
            r"quantized V cache requires flash_attn",
            Cause.ARGUMENT,
            "a quantized V cache needs flash attention, which is switched off",
            "Take `-fa off` out of `extra_args`, or leave `cache_type_v` at f16.",
        ),
        (
            r"error: invalid argument: (?P<detail>\S+)",
            Cause.ARGUMENT,
            "the engine does not know the argument {detail}",
            _EXTRA,
        ),
        (
            r"error while handling argument \"(?P<detail>[^\"]+)\": (?P<why>[^\n]+)",
            Cause.ARGUMENT,
            "the engine refuses the argument {detail}: {why}",
            _EXTRA,
        ),
        (
            r"(?P<detail>cudaMalloc failed: out of memory|ErrorOutOfDeviceMemory"
            r"|(?:failed|unable) to allocate (?:\S+ )?buffer|std::bad_alloc|out of memory|insufficient memory)",
            Cause.OUT_OF_MEMORY,
            "the engine ran out of memory ({detail})",
            "Lower `ctx`, use a quantized `cache_type_k` and `cache_type_v`, put fewer layers on the GPU, "
            "or take a smaller model; `blazar ps` shows what else is loaded.",
        ),
        (
            r"failed to load (?:mmproj|multimodal|clip) ?(?:model|file)?(?P<detail>[^\n]*)",
            Cause.FILE_UNREADABLE,
            "the projector of the model cannot be loaded{detail}",
            "Check the projector file, or set `mmproj_policy` to skip.",
        ),
        (
            r"(?P<detail>GGML_ASSERT\([^\n]*|terminate called after[^\n]*)",
            Cause.ABORTED,
            "the engine gave up: {detail}",
            "This is a fault of the engine build or of its arguments; try another build or simpler settings.",
        ),
    )
)


def classify_failure(lines: Sequence[str], returncode: int | None) -> Failure:
    """Return why a start failed.

    Args:
        lines: What the engine printed, in order.
        returncode: Its exit status (negative: a signal), or ``None`` when it was stopped by us.
    """
    texts = [split_prefix(line)[1] for line in lines]
    # After a sleep only the load that failed matters, not what the log said before.
    slept = max((at for at, text in enumerate(texts) if "sleeping state" in text), default=-1)
    text = "\n".join(texts[slept + 1 :])
    for pattern, cause, reason, advice in _RULES:
        if match := pattern.search(text):
            return _failure(cause, reason, advice, match.groupdict())
    return exit_failure(returncode)


def _failure(cause: Cause, reason: str, advice: str, facts: dict[str, str | None]) -> Failure:
    words = {name: (value or "").strip() for name, value in facts.items()}
    detail = words.get("detail", "")
    words["package"] = library_package(detail) if cause is Cause.LIBRARY else ""
    return Failure(cause, reason.format(**words), advice.format(**words), detail)


def telling_lines(lines: Sequence[str], *, count: int = 8) -> tuple[str, ...]:
    """Return the lines worth quoting: the last warnings and errors, without time stamps; else simply the last."""
    parts = [split_prefix(line) for line in lines if line.strip()]
    loud: list[str] = []
    for level, text in parts:
        # Bare lines come from libraries and from the loader: "error while loading shared libraries".
        if level in {"E", "C", "W", ""} and text.strip(". ") and text not in loud:
            loud.append(text.strip())
    chosen = loud or [text.strip() for _, text in parts]
    return tuple(line[:300] for line in chosen[-count:])
