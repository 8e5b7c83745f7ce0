"""Model rows as JSON values, as every command with ``--json`` shows them."""

from dataclasses import asdict

from blazar_store.types import ModelRow


def as_plain(row: ModelRow) -> dict[str, object]:
    """Return a row as JSON values."""
    plain = asdict(row)
    plain["path"] = str(row.path)
    plain["shards"] = [str(path) for path in row.shards]
    plain["mmproj_path"] = str(row.mmproj_path) if row.mmproj_path is not None else None
    plain["capabilities"] = list(row.capabilities)
    plain["overlay"] = {**plain["overlay"], "adapters": [str(path) for path in row.overlay.adapters]}
    return plain
