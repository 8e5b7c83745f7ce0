-- A database as version 3 wrote it: engines without a kind, models without most columns, absolute paths.
CREATE TABLE models (
    name TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    arch TEXT,
    params INTEGER,
    quant TEXT,
    ctx_train INTEGER,
    size_bytes INTEGER,
    shards TEXT,
    mmproj_path TEXT,
    pulled_at INTEGER
);
CREATE TABLE engines (
    tag TEXT PRIMARY KEY,
    server_path TEXT NOT NULL,
    version TEXT,
    active INTEGER NOT NULL DEFAULT 0,
    installed_at INTEGER NOT NULL
);
INSERT INTO models VALUES
    ('smollm2', '/weights/smollm2.gguf', 'llama', 135000000, 'Q4_1', 2048, 98000000, NULL, NULL, NULL),
    ('org/big-Q4', '/weights/big-00001-of-00002.gguf', 'qwen3', NULL, 'Q4_K_M', 32768, 5,
     '["/weights/big-00001-of-00002.gguf", "/weights/big-00002-of-00002.gguf"]', '/weights/mmproj.gguf', 1690000000),
    ('weights-dir', '/weights/dir', NULL, NULL, NULL, NULL, NULL, '3', NULL, 1690000001),
    ('odd', '/weights/odd.GGUF', NULL, NULL, NULL, NULL, NULL, '[broken', NULL, NULL);
INSERT INTO engines VALUES
    ('b9760', '@DATA@/engines/b9760/llama-server', '9760', 1, 1690000000),
    ('b9000', '@DATA@/engines/b9000/llama-server', NULL, 1, 1680000000),
    ('local', '/opt/llama.cpp/llama-server', '', 0, 1695000000);
PRAGMA user_version = 3;
