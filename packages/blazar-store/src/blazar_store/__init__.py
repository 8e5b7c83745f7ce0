"""Blazar's persistent state: directories, config.toml, SQLite rows and keys."""
