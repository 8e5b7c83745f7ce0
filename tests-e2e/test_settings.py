"""config.toml: strict, taken up while the daemon runs, and never able to take a running daemon down."""

from pathlib import Path

import pytest

from bench_parts.servers import free_port
from blazar_cli.exit_codes import ExitCode
from e2e.daemon import running_daemon
from e2e.home import Home
from e2e.served import Served, add_stub_model
from e2e.waiting import eventually


@pytest.mark.promise("config:strict")
@pytest.mark.parametrize(
    ("text", "named", "nearest"),
    [
        pytest.param("idle_timeout_sec = 5\n", "idle_timeout_sec", "idle_timeout_secs", id="global"),
        pytest.param('[models."m"]\nslot = 2\n', "slot", "slots", id="of a model"),
        pytest.param('[models."m"]\ncache_typ_k = "f16"\n', "cache_typ_k", "cache_type_k", id="of a model, two words"),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest_there_is(home: Home, text: str, named: str, nearest: str) -> None:
    home.configure(text)
    done = home.blazar("config", "check")
    assert done.returncode == ExitCode.CONFIG_INVALID
    assert f"'{named}'" in done.stderr or named in done.stderr
    assert nearest in done.stderr
    assert str(home.config_file) in done.stderr


@pytest.mark.promise("config:strict")
def test_the_daemon_does_not_start_on_a_wrong_configuration(home: Home) -> None:
    home.configure('port = "many"\n')
    done = home.blazar("serve")
    assert done.returncode == ExitCode.CONFIG_INVALID
    assert "port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.promise("config:live")
def test_an_edit_is_taken_up_without_a_restart(served: Served) -> None:
    model = served.add_model("m")
    assert served.client.chat("m").status == 200
    served.home.configure('[models."m"]\nslots = 2\n')
    # Loads before the daemon has looked at the file still go by the old one.
    eventually(lambda: _slots_of_a_new_load(served) == 2, what="the edit is taken up")
    assert _slots(model.events("spawn")[-1]["argv"]) == 2


def _slots_of_a_new_load(served: Served) -> int:
    served.home.ok("stop", "m")
    assert served.client.chat("m").status == 200
    (resident,) = served.home.json("ps")
    return int(resident["slots"])


def _slots(argv: list[str]) -> int:
    flag = "-np" if "-np" in argv else "--parallel"
    return int(argv[argv.index(flag) + 1])


@pytest.mark.promise("config:bad-edit")
def test_a_wrong_edit_changes_nothing_and_status_and_log_say_so(served: Served) -> None:
    served.add_model("m")
    served.home.configure("nonsense = 1\n")
    status = eventually(lambda: _with_config_error(served), what="status says that the edit is wrong")
    assert "nonsense" in status
    assert "nonsense" in served.daemon.log()
    assert served.client.chat("m").status == 200
    served.home.configure("log_level = 'info'\n")
    eventually(lambda: not _with_config_error(served), what="status forgets it once it is mended")


def _with_config_error(served: Served) -> str:
    return str(served.daemon.status().get("config_error") or "")


@pytest.mark.promise("config:address")
def test_the_address_comes_from_the_configuration_when_nobody_says_otherwise(home: Home) -> None:
    port = free_port()
    home.configure(f"port = {port}\n")
    with running_daemon(home, arguments=()) as daemon:
        assert daemon.client.port == port
        assert home.json("status")["pid"] == daemon.process.pid


@pytest.mark.promise("config:ollama-env")
def test_the_variables_of_ollama_are_defaults_below_the_file(stub_home: Home) -> None:
    add_stub_model(stub_home, "m")
    stub_home.configure("[defaults]\nslots = 3\n")
    port = free_port()
    variables = {
        "OLLAMA_HOST": f"127.0.0.1:{port}",
        "OLLAMA_KEEP_ALIVE": "10m",
        "OLLAMA_CONTEXT_LENGTH": "2048",
        "OLLAMA_NUM_PARALLEL": "2",
        "OLLAMA_ORIGINS": "http://pages.example,app://*",
        "OLLAMA_MAX_QUEUE": "512",
        "OLLAMA_LOAD_TIMEOUT": "5m0s",
        "OLLAMA_FLASH_ATTENTION": "1",
    }
    without = {"OLLAMA_HOST", "OLLAMA_FLASH_ATTENTION"}
    with running_daemon(stub_home, (), env=variables) as daemon:
        assert daemon.url == f"http://127.0.0.1:{port}"
        assert daemon.client.chat("m").status == 200
        (resident,) = daemon.residents()
        assert (resident["context_length"], resident["slots"]) == (2048, 3)
        assert 0 < resident["expires_in_s"] <= 600
        for origin, status in (("http://pages.example", 200), ("app://x", 200), ("http://other.example", 403)):
            assert daemon.client.get("/api/tags", headers={"Origin": origin}).status == status
        facts = daemon.status()
        assert facts["address_source"] == "OLLAMA_HOST"
        holds = {one["variable"]: one["holds"] for one in facts["environment"]}
        log = Path(str(facts["log"])).read_text()
        assert "OLLAMA_FLASH_ATTENTION is not used by Blazar" in log
        assert holds == {name: name != "OLLAMA_NUM_PARALLEL" for name in variables if name not in without}
    shown = stub_home.blazar("config", "show", env=variables).stdout
    origins = {line.split()[0]: line.split()[-1] for line in shown.splitlines()}
    assert origins["defaults.ctx"] == "OLLAMA_CONTEXT_LENGTH"
    assert origins["defaults.slots"] == "config.toml"
    assert origins["port"] == "OLLAMA_HOST"


@pytest.mark.promise("config:ollama-env")
def test_a_variable_of_ollama_that_cannot_be_understood_ends_the_start(home: Home) -> None:
    done = home.blazar("serve", env={"OLLAMA_KEEP_ALIVE": "soon", "OLLAMA_CONTEXT_LENGTH": "32k"})
    assert done.returncode == ExitCode.CONFIG_INVALID
    assert 'OLLAMA_KEEP_ALIVE is "soon"' in done.stderr
    assert 'OLLAMA_CONTEXT_LENGTH is "32k"' in done.stderr
