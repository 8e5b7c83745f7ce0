"""``/metrics``: names, order and words of b10434."""

from blazar_stubs.llama_server.engine import Engine


def exposition(engine: Engine) -> str:
    """The Prometheus text. Rates are averages since the last look, which this call resets."""
    counters = engine.counters
    prompt_tokens, prompt_s, predicted_tokens, predicted_s = counters.bucket
    counters.bucket = [0.0, 0.0, 0.0, 0.0]
    rows: list[tuple[str, str, float]] = [
        ("prompt_tokens_total", "Number of prompt tokens processed, excluding cached tokens", counters.prompt_tokens),
        ("prompt_tokens_cached_total", "Number of prompt tokens reused from the cache", counters.cached_tokens),
        ("prompt_seconds_total", "Total time spent processing prompts", counters.prompt_s),
        ("tokens_predicted_total", "Number of generation tokens processed", counters.predicted_tokens),
        ("tokens_predicted_seconds_total", "Total time spent generating tokens", counters.predicted_s),
        (
            "n_decode_total",
            "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding",
            counters.decodes,
        ),
        ("n_tokens_max", "Largest observed sequence length (prompt + generation)", counters.longest),
        ("spec_decode_num_draft_tokens_total", "Speculative: Total draft tokens generated", 0),
        (
            "spec_decode_num_accepted_tokens_total",
            "Speculative: Total draft tokens accepted by the target model",
            0,
        ),
        ("spec_decode_num_drafts_total", "Speculative: Total speculative decoding verification steps", 0),
        ("prompt_tokens_seconds", "Average prompt throughput in tokens/s", _rate(prompt_tokens, prompt_s)),
        ("predicted_tokens_seconds", "Average generation throughput in tokens/s", _rate(predicted_tokens, predicted_s)),
        ("requests_processing", "Number of requests processing", engine.busy),
        ("requests_deferred", "Number of requests deferred", engine.deferred),
        (
            "n_busy_slots_per_decode",
            "Average number of busy slots per llama_decode() call",
            counters.busy_decodes / max(counters.decodes, 1),
        ),
    ]
    first_gauge = 10
    return "".join(
        f"# HELP llamacpp:{name} {words}\n"
        f"# TYPE llamacpp:{name} {'counter' if number < first_gauge else 'gauge'}\n"
        f"llamacpp:{name} {value:g}\n"
        for number, (name, words, value) in enumerate(rows)
    )


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds else 0.0
