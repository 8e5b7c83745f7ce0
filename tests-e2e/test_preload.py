"""What a starting daemon loads before anybody asks."""

import pytest

from e2e.home import Home
from e2e.served import add_stub_model, serving
from e2e.waiting import eventually


@pytest.mark.promise("load:preload")
def test_preloaded_models_are_there_before_anybody_asks_and_are_warm(home: Home, stub_home: Home) -> None:
    home.configure(
        """
        [[preload]]
        model = "b"
        keep_alive_secs = -1

        [[preload]]
        model = "a:latest"
        """
    )
    first, second = add_stub_model(home, "b"), add_stub_model(home, "a")
    with serving(home) as daemon:
        eventually(lambda: second.requests("/completion"), what="the second one is pegged")
        residents = daemon.residents()
        assert [(one["child"], one["state"]) for one in residents] == [("b", "ready"), ("a", "ready")]
        assert residents[0]["expires_in_s"] is None
        assert '"n_predict": 1' in first.requests("/completion")[0]["body"]
        assert daemon.client.chat("a").status == 200
        assert second.spawns == 1


@pytest.mark.promise("load:preload")
def test_a_preload_that_fails_is_told_and_keeps_nothing_from_starting(home: Home, stub_home: Home) -> None:
    home.configure('[[preload]]\nmodel = "nowhere"\n[[preload]]\nmodel = "broken"\n[[preload]]\nmodel = "whole"\n')
    add_stub_model(home, "broken", script={"crash": {"text": "error loading model: no luck", "exit_code": 1}})
    model = add_stub_model(home, "whole")
    with serving(home) as daemon:
        assert daemon.client.get("/healthz").status == 200
        eventually(lambda: model.requests("/completion"), what="the last one is loaded and pegged")
        told = daemon.status()["preload"]
        assert [(one["model"], one["state"]) for one in told] == [
            ("nowhere", "failed"),
            ("broken", "failed"),
            ("whole", "loaded"),
        ]
        assert "model 'nowhere' not found." in told[0]["error"]
        shown = home.ok("status")
        assert "preload" in shown
        assert "model 'broken' failed to load" in shown
        assert "not preloaded: model 'nowhere' not found." in daemon.log()


@pytest.mark.promise("load:preload")
def test_a_daemon_that_is_stopped_while_it_preloads_stops(home: Home, stub_home: Home) -> None:
    home.configure('[[preload]]\nmodel = "slow"\n')
    model = add_stub_model(home, "slow", script={"load_delay_s": 600})
    with serving(home) as daemon:
        eventually(lambda: model.spawns, what="the load has begun")
        assert daemon.stop() == 0
        assert not daemon.engines()
