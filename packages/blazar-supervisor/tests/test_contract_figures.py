"""The figures of residency that are promised, each by its name. Changing one is a breaking change."""

from blazar_store.settings import Settings
from blazar_supervisor.engines.adapter import WarmPeg
from blazar_supervisor.engines.llamacpp.adapter import LlamaCpp
from blazar_supervisor.residency import banking, banks, cache_hints, hints, preloading
from blazar_supervisor.residency.host import limits_of

DEFAULTS = Settings()


def test_an_idle_model_is_unloaded_after_1800_s_and_an_idle_engine_sleeps_after_300_s() -> None:
    assert DEFAULTS.idle_timeout_secs == DEFAULTS.for_model("m").idle_timeout_s == 1800
    assert DEFAULTS.idle_sleep_secs == DEFAULTS.for_model("m").idle_sleep_s == 300


def test_a_conversation_keeps_its_place_for_900_s_and_0_turns_that_off() -> None:
    assert limits_of(DEFAULTS).session_keep_s == 900
    assert limits_of(Settings(session_keep_secs=0)).session_keep_s == 0


def test_auto_means_as_many_models_as_fit() -> None:
    assert DEFAULTS.max_loaded_models == "auto"
    assert limits_of(DEFAULTS).max_loaded is None
    assert limits_of(Settings(max_loaded_models=2)).max_loaded == 2


def test_llama_cpp_has_180_s_to_load_and_a_peg_that_nobody_waits_for() -> None:
    assert LlamaCpp.load_timeout_s == 180
    assert LlamaCpp.warm_peg is WarmPeg.DETACHED
    assert (preloading.PEG_TURN_S, preloading.PEG_ANSWER_S) == (90, 60)


def test_banks_are_saved_within_2_s_and_dropped_over_512_mib() -> None:
    assert banking.SAVE_S == 2
    assert banks.LARGEST_BYTES == 512 << 20
    assert banks.Mark(4096, "").name == "_auto-4096"


def test_hints_are_asked_each_60_s_and_averaged_7_to_3() -> None:
    assert hints.ROUND_S == 60
    assert (cache_hints.OLD_WEIGHT, cache_hints.NEW_WEIGHT) == (0.7, 0.3)
