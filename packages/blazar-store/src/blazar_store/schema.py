"""The tables, as of each schema version.

The schema starts at version 4. A version's statements never change once released: a later one gets its own step
in :mod:`blazar_store.migrations` and, for new files, its statements here.
"""

import sqlite3

SCHEMA_VERSION = 9

# '#' in a model's name would make replica keys ambiguous: refused here too, whoever writes.
MODELS_V4 = """
CREATE TABLE models (
    name TEXT PRIMARY KEY NOT NULL CHECK (name <> '' AND instr(name, '#') = 0),
    path NOT NULL,
    shards TEXT NOT NULL,
    mmproj_path,
    format TEXT NOT NULL,
    arch TEXT NOT NULL,
    params INTEGER,
    quant TEXT NOT NULL DEFAULT '',
    ctx_train INTEGER,
    size_bytes INTEGER NOT NULL,
    digest TEXT NOT NULL,
    capabilities TEXT NOT NULL DEFAULT '[]',
    engine TEXT,
    pulled INTEGER NOT NULL DEFAULT 0 CHECK (pulled IN (0, 1)),
    added_at INTEGER NOT NULL,
    modified_at INTEGER NOT NULL
)
"""

ENGINES_V4 = """
CREATE TABLE engines (
    tag TEXT PRIMARY KEY NOT NULL CHECK (tag <> ''),
    kind TEXT NOT NULL DEFAULT 'llamacpp' CHECK (kind <> ''),
    server_path NOT NULL,
    local INTEGER NOT NULL DEFAULT 0 CHECK (local IN (0, 1)),
    version TEXT NOT NULL DEFAULT '',
    "commit" TEXT NOT NULL DEFAULT '',
    active INTEGER NOT NULL DEFAULT 0 CHECK (active IN (0, 1)),
    installed_at INTEGER NOT NULL
)
"""

# At most one active build of a kind, whoever writes. At least one is seen to by the code, in one transaction.
ACTIVE_ENGINE_V4 = "CREATE UNIQUE INDEX engines_active ON engines (kind) WHERE active = 1"

V4 = (MODELS_V4, ENGINES_V4, ACTIVE_ENGINE_V4)

KEY_USAGE_V5 = """
CREATE TABLE key_usage (
    day TEXT NOT NULL,
    key TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    PRIMARY KEY (day, key, model)
) WITHOUT ROWID
"""

V5 = (KEY_USAGE_V5,)
"""What version 5 added: the usage of keys."""

TEMPLATE_READABLE_V6 = """
ALTER TABLE models ADD COLUMN template_readable INTEGER NOT NULL DEFAULT 1 CHECK (template_readable IN (0, 1))
"""

V6 = (TEMPLATE_READABLE_V6,)
"""What version 6 added: whether a model's chat template could be read."""

V7 = ("ALTER TABLE models ADD COLUMN overlay TEXT NOT NULL DEFAULT '{}'",)
"""What version 7 added: defaults that a row brings along, as JSON."""

LANE_PINS_V8 = """
CREATE TABLE IF NOT EXISTS lane_pins (
    model TEXT PRIMARY KEY NOT NULL,
    digest TEXT NOT NULL,
    engine TEXT NOT NULL,
    refused_by TEXT NOT NULL DEFAULT '[]',
    pinned_at INTEGER NOT NULL
) WITHOUT ROWID
"""

# Whoever removes a model: another one of that name starts afresh.
LANE_PINS_END_V8 = """
CREATE TRIGGER IF NOT EXISTS lane_pins_end AFTER DELETE ON models BEGIN
    DELETE FROM lane_pins WHERE model = OLD.name;
END
"""

V8 = (LANE_PINS_V8, LANE_PINS_END_V8)
"""What version 8 added: the engine builds that models were moved to."""

V9 = ("ALTER TABLE models ADD COLUMN components TEXT NOT NULL DEFAULT '[]'",)
"""What version 9 added: the parts of diffusion models, by the engine's flags."""


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the newest tables in an empty database, within the transaction that is open."""
    for statement in (*V4, *V5, *V6, *V7, *V8, *V9):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
