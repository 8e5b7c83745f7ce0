import contextlib
import sqlite3
from pathlib import Path

import pytest

import blazar_store.migrations
from blazar_store.errors import DiskFull, StorageFailed
from blazar_store.files import from_os_error
from blazar_store.layout import Layout
from blazar_store.schema import V4, V5
from blazar_store.store import Store
from blazar_store.testing import make_model
from blazar_store.types import RowOverlay

SCRIPT = Path(__file__).with_name("v3.sql").read_text()


@pytest.fixture
def old(layout: Layout) -> Layout:
    with contextlib.closing(sqlite3.connect(layout.database)) as connection:
        connection.executescript(SCRIPT.replace("@DATA@", str(layout.data_dir)))
    return layout


def dump(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        return [f"version {version}", *connection.iterdump()]


def test_engines_of_version_3_become_llamacpp(old: Layout) -> None:
    with Store(old) as store:
        engines = {row.tag: row for row in store.list_engines()}
    assert {row.kind for row in engines.values()} == {"llamacpp"}
    assert [tag for tag, row in engines.items() if row.active] == ["b9760"]
    assert engines["b9760"].version == "9760"
    assert engines["local"].local
    assert not engines["b9000"].local


def test_models_of_version_3_keep_what_they_had(old: Layout) -> None:
    with Store(old) as store:
        models = {row.name: row for row in store.list_models()}
    small, big, directory = models["smollm2"], models["org/big-Q4"], models["weights-dir"]
    assert (small.arch, small.params, small.quant, small.ctx_train) == ("llama", 135_000_000, "Q4_1", 2048)
    assert (small.format, small.shards, small.pulled) == ("gguf", (small.path,), False)
    assert [shard.name for shard in big.shards] == ["big-00001-of-00002.gguf", "big-00002-of-00002.gguf"]
    assert big.mmproj_path == Path("/weights/mmproj.gguf")
    assert (big.pulled, big.added_at) == (True, 1_690_000_000)
    assert (models["odd"].format, models["odd"].shards) == ("gguf", (Path("/weights/odd.GGUF"),))
    assert (directory.format, directory.shards, directory.arch) == ("safetensors", (directory.path,), "")


def test_boot_walk_makes_in_tree_paths_relative(old: Layout) -> None:
    with Store(old) as store:
        assert store.heal_engine_paths() == ("b9000", "b9760")
        assert store.heal_engine_paths() == ()
        stored = {row["tag"]: row["server_path"] for row in store._database.rows("SELECT * FROM engines")}
        assert stored == {
            "b9760": "engines/b9760/llama-server",
            "b9000": "engines/b9000/llama-server",
            "local": "/opt/llama.cpp/llama-server",
        }
        assert {row.server_path for row in store.list_engines() if not row.local} == {
            old.engine_dir(tag) / "llama-server" for tag in ("b9760", "b9000")
        }


def test_old_file_is_kept_as_it_was(old: Layout) -> None:
    before = dump(old.database)
    with Store(old):
        pass
    assert dump(old.database.with_name("blazar.db.v3.bak")) == before


def test_migrated_schema_is_that_of_a_new_database(old: Layout, tmp_path: Path) -> None:
    def schema(layout: Layout) -> list[tuple[str, str]]:
        with Store(layout) as store:
            rows = store._database.rows("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
            return [(row["name"], row["sql"]) for row in rows]

    assert schema(old) == schema(Layout(tmp_path / "new"))


def test_second_opening_migrates_nothing(old: Layout) -> None:
    with Store(old):
        backup = old.database.with_name("blazar.db.v3.bak")
        backup.unlink()
    with Store(old):
        assert not backup.exists()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_before_4_is_taken_up(old: Layout, version: int) -> None:
    with contextlib.closing(sqlite3.connect(old.database)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with Store(old) as store:
        assert len(store.list_engines()) == 3
    assert old.database.with_name(f"blazar.db.v{version}.bak").exists()


def test_failure_in_the_middle_leaves_the_old_version(old: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dump(old.database)
    broken = (*V4[:-1], "CREATE NONSENSE")
    with monkeypatch.context() as patch:
        patch.setattr(blazar_store.migrations, "V4", broken)
        with pytest.raises(StorageFailed, match="NONSENSE"):
            Store(old)
    assert dump(old.database) == before
    with Store(old) as store:
        assert len(store.list_models()) == 4


def test_no_room_for_the_copy_leaves_the_old_version(old: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    before = dump(old.database)
    with monkeypatch.context() as patch:
        patch.setattr(blazar_store.migrations, "sync_directory", full)
        with pytest.raises(DiskFull):
            Store(old)
    assert dump(old.database) == before
    assert isinstance(from_os_error(OSError("without a number"), Path("/x")), StorageFailed)


def test_models_of_version_5_count_as_readable_until_they_are_added_again(layout: Layout) -> None:
    with Store(layout) as store:
        store.add_model(make_model(name="old"))
    with contextlib.closing(sqlite3.connect(layout.database)) as connection:
        connection.executescript("ALTER TABLE models DROP COLUMN template_readable; PRAGMA user_version = 5")
    with Store(layout) as store:
        assert store.get_model("old").template_readable
        store.replace_model(make_model(name="old", template_readable=False))
        assert not store.get_model("old").template_readable


def test_rows_of_version_5_get_an_empty_overlay(layout: Layout) -> None:
    layout.data_dir.mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(layout.database)) as connection:
        connection.executescript(";".join((*V4, *V5, "PRAGMA user_version = 5")))
        connection.execute(
            "INSERT INTO models (name, path, shards, format, arch, size_bytes, digest, added_at, modified_at) "
            "VALUES ('m', '/m.gguf', '[]', 'gguf', 'llama', 1, '', 1, 1)"
        )
        connection.commit()
    with Store(layout) as store:
        assert store.get_model("m").overlay == RowOverlay()
    assert layout.database.with_name("blazar.db.v5.bak").exists()
