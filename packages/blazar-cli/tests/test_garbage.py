"""What is there when serving begins is not walked again and again."""

import gc

from blazar_cli.serving.garbage import THRESHOLDS, settle_for_serving


def test_what_is_there_is_put_aside() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        settle_for_serving()
        assert gc.get_freeze_count() > frozen + 1_000
        assert len(gc.get_objects()) < 1_000
        assert gc.get_threshold() == THRESHOLDS
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
