import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from blazar_store.errors import NameReserved, NameTaken, NoSuchEngine, StorageFailed, StoreError
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.testing import make_engine
from blazar_store.types import EngineRow


def active(store: Store) -> list[str]:
    return [row.tag for row in store.list_engines() if row.active]


def test_row_comes_back_as_it_was_after_reopening(layout: Layout) -> None:
    row = make_engine("b1", version="9760 (abc)", commit="abc", active=True)
    with Store(layout) as store:
        assert store.add_engine(row) == row
    with Store(layout) as store:
        assert store.list_engines() == (row,)
        assert store.find_engine("b1") == row
        assert store.find_engine("b2") is None


def test_first_build_of_a_kind_is_active_and_a_later_one_is_not(store: Store) -> None:
    store.add_engine(make_engine("b1"))
    store.add_engine(make_engine("b2"))
    store.add_engine(make_engine("w1", kind="whisper"))
    assert active(store) == ["b1", "w1"]


def test_build_added_as_active_takes_over(store: Store) -> None:
    store.add_engine(make_engine("b1"))
    store.add_engine(make_engine("b2", active=True))
    assert active(store) == ["b2"]


def test_choosing_the_active_build_concerns_its_kind_only(store: Store) -> None:
    for tag, kind in (("b1", "llamacpp"), ("b2", "llamacpp"), ("w1", "whisper")):
        store.add_engine(make_engine(tag, kind=kind))
    assert store.set_active_engine("b2").active
    assert active(store) == ["b2", "w1"]
    found = store.active_engine("llamacpp")
    assert found is not None
    assert found.tag == "b2"
    assert store.active_engine("mlx") is None


def test_choosing_an_unknown_build_changes_nothing(store: Store) -> None:
    store.add_engine(make_engine("b1"))
    with pytest.raises(NoSuchEngine, match="The registered ones are b1"):
        store.set_active_engine("b2")
    assert active(store) == ["b1"]


def test_newest_build_takes_over_when_the_active_one_is_removed(store: Store) -> None:
    for tag, installed_at in (("b1", 3), ("b2", 1), ("b3", 2)):
        store.add_engine(make_engine(tag, installed_at=installed_at))
    assert store.remove_engine("b1").active
    assert active(store) == ["b3"]
    store.remove_engine("b2")
    store.remove_engine("b3")
    assert store.list_engines() == ()
    with pytest.raises(NoSuchEngine, match="None is registered"):
        store.remove_engine("b3")


def test_taken_tag_is_refused(store: Store) -> None:
    store.add_engine(make_engine("b1"))
    with pytest.raises(NameTaken, match="blazar engine rm"):
        store.add_engine(make_engine("b1", kind="whisper"))


@pytest.mark.parametrize("tag", ["", ".", "..", "a/b", "a\\b", "a b", "a#1", "a\n", "x" * 101])
def test_tag_that_cannot_name_a_directory_is_refused(store: Store, tag: str) -> None:
    with pytest.raises(NameReserved):
        store.add_engine(make_engine(tag))


def test_local_binaries_get_tags_of_their_own(store: Store) -> None:
    tags = [store.add_local_engine(make_engine(server_path=Path(f"/opt/{number}"))).tag for number in range(3)]
    assert tags == ["local", "local-2", "local-3"]
    store.remove_engine("local-2")
    added = store.add_local_engine(make_engine(server_path=Path("/opt/9")))
    assert (added.tag, added.local) == ("local-2", True)


def test_local_binary_added_again_keeps_its_row_and_learns_its_new_version(store: Store) -> None:
    store.add_local_engine(make_engine(version="1", commit="a"))
    store.add_local_engine(make_engine(server_path=Path("/opt/other"), active=True))
    again = store.add_local_engine(make_engine(version="2", commit="b"))
    assert (again.tag, again.version, again.commit, again.active) == ("local", "2", "b", False)
    assert len(store.list_engines()) == 2


def test_in_tree_path_is_stored_relative_and_follows_the_directory(tmp_path: Path) -> None:
    old = Layout(tmp_path / "old")
    with Store(old) as store:
        store.add_engine(make_engine("b1", server_path=old.engine_dir("b1") / "bin" / "llama-server"))
        store.add_local_engine(make_engine(server_path=Path("/opt/llama-server")))
        stored = [row[0] for row in store._database.rows("SELECT server_path FROM engines ORDER BY tag")]
        assert stored == ["engines/b1/bin/llama-server", "/opt/llama-server"]
    (tmp_path / "old").rename(tmp_path / "new")
    new = Layout(tmp_path / "new")
    with Store(new) as store:
        assert [row.server_path for row in store.list_engines()] == [
            new.engine_dir("b1") / "bin" / "llama-server",
            Path("/opt/llama-server"),
        ]


def test_path_given_through_a_link_is_in_tree_too(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.engines_dir.mkdir(parents=True)
    (tmp_path / "link").symlink_to(layout.data_dir)
    with Store(layout) as store:
        store.add_engine(make_engine("b1", server_path=tmp_path / "link" / "engines" / "b1" / "llama-server"))
        assert store._database.rows("SELECT server_path FROM engines")[0][0] == "engines/b1/llama-server"


def store_absolute(store: Store, tag: str, path: Path) -> None:
    store._database.rows("UPDATE engines SET server_path = ? WHERE tag = ?", (str(path), tag))


def test_boot_walk_heals_absolute_in_tree_paths(layout: Layout, store: Store) -> None:
    store.add_engine(make_engine("b1"))
    store_absolute(store, "b1", layout.engine_dir("b1") / "llama-server")
    assert store.heal_engine_paths() == ("b1",)
    assert store._database.rows("SELECT server_path FROM engines")[0][0] == "engines/b1/llama-server"


def test_boot_walk_finds_builds_again_after_the_directory_moved(layout: Layout, store: Store) -> None:
    for tag in ("b1", "b2", "b3"):
        store.add_engine(make_engine(tag))
        (layout.engine_dir(tag) / "bin").mkdir(parents=True)
        store_absolute(store, tag, Path("/gone/blazar/engines") / tag / "bin" / "llama-server")
    (layout.engine_dir("b1") / "bin" / "llama-server").touch()
    store_absolute(store, "b3", Path("/gone/blazar/engines/b3/../../../../etc/passwd"))
    assert store.heal_engine_paths() == ("b1",)


def test_boot_walk_leaves_a_users_own_binary_alone(layout: Layout, store: Store) -> None:
    path = Path("/gone/engines/local/llama-server")
    store.add_local_engine(make_engine(server_path=path))
    layout.engine_dir("local").mkdir(parents=True)
    (layout.engine_dir("local") / "llama-server").touch()
    assert store.heal_engine_paths() == ()
    assert store.list_engines()[0].server_path == path


def test_second_active_build_is_refused_by_the_database_itself(store: Store) -> None:
    store.add_engine(make_engine("b1"))
    store.add_engine(make_engine("b2"))
    with pytest.raises(StorageFailed, match="UNIQUE"):
        store._database.rows("UPDATE engines SET active = 1")


def test_start_heals_a_kind_that_something_left_without_an_active_build(store: Store) -> None:
    for tag, installed_at in (("b1", 1), ("b2", 2)):
        store.add_engine(make_engine(tag, installed_at=installed_at))
    store._database.rows("UPDATE engines SET active = 0")
    assert store.heal_active_engines() == ("b2",)
    assert store.heal_active_engines() == ()
    assert active(store) == ["b2"]


def test_failure_between_the_two_halves_of_a_switch_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_engine(make_engine("b1"))
    store.add_engine(make_engine("b2"))

    def half_a_switch(kind: str, tag: str) -> None:
        store._database.rows("UPDATE engines SET active = 0 WHERE kind = ? AND tag <> ?", (kind, tag))
        raise OSError("the plug was pulled")

    with monkeypatch.context() as patch:
        patch.setattr(store, "_activate", half_a_switch)
        with pytest.raises(OSError, match="plug"):
            store.set_active_engine("b2")
    assert active(store) == ["b1"]


TAGS = st.sampled_from(["b1", "b2", "b3", "local"])
KINDS = st.sampled_from(["llamacpp", "whisper"])


class EngineMachine(RuleBasedStateMachine):
    """Random changes, some of them broken off at a random instruction of SQLite's; a plain dict is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="blazar-engines-")
        self.store = Store(Layout(Path(self.directory)))
        self.expected: dict[str, EngineRow] = {}
        self.clock = 0
        self.fault_after: int | None = None

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.directory)

    def attempt(self, change: str, *arguments: object) -> None:
        """Run one change; with a fault due, SQLite is interrupted once after that many instructions."""
        connection = self.store._database.connection
        left, self.fault_after = self.fault_after, None
        statements: list[str] = []
        connection.set_trace_callback(statements.append)

        def interrupt() -> int:
            nonlocal left
            left = None if left is None else left - 1
            return int(left == 0)

        if left is not None:
            connection.set_progress_handler(interrupt, 1)
        refusal: StoreError | None = None
        try:
            getattr(self.store, change)(*arguments)
        except StoreError as error:
            refusal = error
        finally:
            connection.set_progress_handler(None, 0)
            connection.set_trace_callback(None)
        assert not connection.in_transaction
        rows = self.rows()
        if refusal is not None:
            assert isinstance(refusal, (NameTaken, NoSuchEngine)) or "interrupted" in str(refusal)
            # Only what hits the last instruction of the COMMIT itself may find the work done.
            assert rows == self.expected or statements[-1] == "COMMIT", "a change that failed left a trace"
        self.expected = rows

    def rows(self) -> dict[str, EngineRow]:
        return {row.tag: row for row in self.store.list_engines()}

    @rule(instructions=st.integers(1, 400))
    def let_the_next_change_fail(self, instructions: int) -> None:
        self.fault_after = instructions

    @rule(tag=TAGS, kind=KINDS, wants=st.booleans())
    def add(self, tag: str, kind: str, wants: bool) -> None:
        self.clock += 1
        self.attempt("add_engine", make_engine(tag, kind=kind, active=wants, installed_at=self.clock))

    @rule(path=st.sampled_from(["/a", "/b"]), kind=KINDS)
    def add_local(self, path: str, kind: str) -> None:
        self.clock += 1
        self.attempt("add_local_engine", make_engine(kind=kind, server_path=Path(path), installed_at=self.clock))

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from([*sorted(self.expected), "absent"]))
        self.attempt("set_active_engine", tag)
        if tag in self.expected and self.fault_after is None:
            assert sum(row.active for row in self.expected.values() if row.kind == self.expected[tag].kind) == 1

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.attempt("remove_engine", data.draw(st.sampled_from(sorted(self.expected))))

    @invariant()
    def every_kind_with_rows_has_exactly_one_active_build(self) -> None:
        rows = self.store.list_engines()
        for kind in {row.kind for row in rows}:
            assert [row.active for row in rows if row.kind == kind].count(True) == 1


EngineMachine.TestCase.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
TestEngineMachine = EngineMachine.TestCase


def test_every_point_of_a_switch_is_safe_to_be_interrupted_at(layout: Layout) -> None:
    """Walks the fault through the whole switch, one instruction further each time, until it succeeds."""
    with Store(layout) as store:
        store.add_engine(make_engine("b1"))
        store.add_engine(make_engine("b2"))
        connection = store._database.connection
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        for instructions in range(1, 5000):
            store.set_active_engine("b1")
            left = instructions

            def interrupt() -> int:
                nonlocal left
                left -= 1
                return int(left == 0)

            statements.clear()
            connection.set_progress_handler(interrupt, 1)
            try:
                store.set_active_engine("b2")
            except StoreError:
                connection.set_progress_handler(None, 0)
                possible = [["b1"], ["b2"]] if statements[-1] == "COMMIT" else [["b1"]]
                assert active(store) in possible
            else:
                connection.set_progress_handler(None, 0)
                break
        else:
            pytest.fail("the switch never came through")
        assert active(store) == ["b2"]
        assert instructions > 20
