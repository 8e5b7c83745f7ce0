from pathlib import Path

import pytest

import blazar_store.errors
from blazar_store.errors import (
    ConfigInvalid,
    ConfigProblem,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseTooNew,
    DataDirInUse,
    DiskFull,
    NameReserved,
    NameTaken,
    NoSuchEngine,
    NoSuchModel,
    NotWritable,
    StorageFailed,
    StoreError,
)

TEXTS: list[tuple[StoreError, str, str]] = [
    (
        ConfigInvalid(
            path=Path("/c/config.toml"),
            problems=(
                ConfigProblem("this is not valid TOML: Invalid value.", line=3, column=8),
                ConfigProblem("`port` must be a whole number.", key="port", line=4),
                ConfigProblem("the file is not UTF-8 text."),
            ),
        ),
        "config-invalid",
        "/c/config.toml:3:8: this is not valid TOML: Invalid value.\n"
        "/c/config.toml:4: `port` must be a whole number.\n"
        "/c/config.toml: the file is not UTF-8 text.",
    ),
    (
        DataDirInUse(data_dir=Path("/d"), pid=41, since="2026-03-01 14:05:09", address="http://127.0.0.1:11435"),
        "data-dir-in-use",
        "the data directory /d is in use by the Blazar daemon with pid 41, running since 2026-03-01 14:05:09, "
        "listening on http://127.0.0.1:11435. Use the daemon that runs already, stop that one (`kill 41`), "
        "or start this one with another directory in BLAZAR_DATA_DIR.",
    ),
    (
        DataDirInUse(data_dir=Path("/d"), pid=None, since=None, address=None),
        "data-dir-in-use",
        "the data directory /d is in use by another Blazar daemon. Use the daemon that runs already, stop that one, "
        "or start this one with another directory in BLAZAR_DATA_DIR.",
    ),
    (
        NameReserved(name="a\n#2", reason="'#' is reserved for replicas (model#2)"),
        "name-reserved",
        "'a\\u000a#2' cannot be used as a name: '#' is reserved for replicas (model#2). "
        "Choose another name, such as my-model.",
    ),
    (
        NameTaken(what="model", name="qwen", existing="qwen"),
        "name-taken",
        "the model name 'qwen' is taken already. Choose another name, or remove the old row with `blazar models rm`.",
    ),
    (
        NameTaken(what="model", name="Qwen", existing="qwen"),
        "name-taken",
        "the model name 'Qwen' differs only in spelling from the existing 'qwen'. Choose another name, "
        "or remove the old row with `blazar models rm`.",
    ),
    (
        NameTaken(what="model", name="GPT-4o", existing="gpt-4o", alias_of="qwen"),
        "name-taken",
        "the model name 'GPT-4o' is taken already: 'gpt-4o' is an alias of 'qwen'. Choose another name, "
        'or take the alias out of [models."qwen"] in config.toml.',
    ),
    (
        NameTaken(what="engine", name="b1", existing="b1"),
        "name-taken",
        "the engine name 'b1' is taken already. Remove the old one first with `blazar engine rm`.",
    ),
    (
        NoSuchModel(name="qwn", near=("qwen", "qwen3", "qwen2")),
        "no-such-model",
        "there is no model 'qwn'. Did you mean 'qwen', 'qwen3' or 'qwen2'? `blazar models list` shows those there are.",
    ),
    (
        NoSuchModel(name="x" * 300),
        "no-such-model",
        f"there is no model '{'x' * 117}...'. `blazar models list` shows those there are.",
    ),
    (
        NoSuchEngine(tag="b9", tags=("b1", "local")),
        "no-such-engine",
        "there is no engine 'b9'. The registered ones are b1, local. `blazar engine list` shows them.",
    ),
    (
        NoSuchEngine(tag="b9"),
        "no-such-engine",
        "there is no engine 'b9'. None is registered. `blazar engine list` shows them.",
    ),
    (
        DatabaseTooNew(path=Path("/d/blazar.db"), found=9, known=4),
        "database-too-new",
        "the database /d/blazar.db has schema version 9, and this Blazar knows versions up to 4: "
        "a newer Blazar wrote it. Upgrade this one, or point BLAZAR_DATA_DIR at another directory; "
        "nothing was changed.",
    ),
    (
        DatabaseDamaged(path=Path("/d/blazar.db"), reason="file is not a database"),
        "database-damaged",
        "the database /d/blazar.db is damaged: file is not a database. Stop the daemon, move the file aside "
        "(`mv /d/blazar.db /d/blazar.db.damaged`); model weights are not in it and are safe, "
        "`blazar models add` and `blazar engine add-local` register them again.",
    ),
    (
        DatabaseDamaged(path=Path("/d/blazar.db"), reason="malformed", backup=Path("/d/blazar.db.v3.bak")),
        "database-damaged",
        "the database /d/blazar.db is damaged: malformed. Stop the daemon and copy the backup "
        "/d/blazar.db.v3.bak over it; model weights are not in it and are safe, "
        "`blazar models add` and `blazar engine add-local` register them again.",
    ),
    (
        DatabaseBusy(path=Path("/d/blazar.db"), waited_s=10.0),
        "database-busy",
        "the database /d/blazar.db stayed locked by another process for 10 s; nothing was changed. "
        "Try again; `fuser /d/blazar.db` names the process if it does not let go.",
    ),
    (
        DiskFull(path=Path("/d/blazar.db")),
        "disk-full",
        "the disk that holds /d/blazar.db is full (or a quota or size limit is reached); nothing was changed. "
        "Free some space and try again.",
    ),
    (
        NotWritable(path=Path("/d"), reason="Permission denied"),
        "not-writable",
        "/d cannot be written: Permission denied. Nothing was changed. Correct the permissions, "
        "or name another place with BLAZAR_DATA_DIR (data) or BLAZAR_CONFIG (config.toml).",
    ),
    (
        StorageFailed(path=Path("/d"), reason="Input/output error"),
        "storage-failed",
        "/d cannot be used: Input/output error. Nothing was changed. Check the disk and the path, then try again.",
    ),
]


@pytest.mark.parametrize(
    ("error", "code", "text"), [pytest.param(*row, id=f"{row[1]}-{index}") for index, row in enumerate(TEXTS)]
)
def test_error_says_what_why_and_what_next(error: StoreError, code: str, text: str) -> None:
    assert (error.code, str(error)) == (code, text)


def test_every_error_has_a_text_here_and_a_code_of_its_own() -> None:
    classes = StoreError.__subclasses__()
    assert {type(error) for error, _code, _text in TEXTS} == set(classes)
    assert len({error.code for error in classes}) == len(classes)
    tree = blazar_store.errors.__doc__ or ""
    assert all(f" {error.__name__} " in tree and error.code in tree for error in classes)


def test_the_face_of_the_package_offers_every_error() -> None:
    assert {error.__name__ for error in StoreError.__subclasses__()} < set(blazar_store.__all__)
