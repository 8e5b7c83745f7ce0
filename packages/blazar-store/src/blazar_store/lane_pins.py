"""The engine builds that models were moved to, because an earlier one did not know their architecture."""

import json

from blazar_store.database import Database
from blazar_store.types import LanePin


class LanePins:
    """The ``lane_pins`` table."""

    _database: Database

    def pin_lane(self, pin: LanePin) -> None:
        """Remember where a model was moved to, in the place of what was remembered before."""
        with self._database.write():
            self._database.connection.execute(
                "INSERT INTO lane_pins (model, digest, engine, refused_by, pinned_at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (model) DO UPDATE SET digest = excluded.digest, engine = excluded.engine,"
                " refused_by = excluded.refused_by, pinned_at = excluded.pinned_at",
                (pin.model, pin.digest, pin.engine, json.dumps(pin.refused_by), pin.pinned_at),
            )

    def list_lane_pins(self) -> tuple[LanePin, ...]:
        """Return what is remembered, by model."""
        rows = self._database.rows(
            "SELECT model, digest, engine, refused_by, pinned_at FROM lane_pins ORDER BY model", ()
        )
        return tuple(LanePin(row[0], row[1], row[2], _tags(row[3]), row[4]) for row in rows)

    def forget_lane(self, model: str) -> bool:
        """Forget where a model was moved to; return whether anything was remembered."""
        with self._database.write():
            cursor = self._database.connection.execute("DELETE FROM lane_pins WHERE model = ?", (model,))
            return cursor.rowcount > 0


def _tags(text: str) -> tuple[str, ...]:
    try:
        tags = json.loads(text)
    except ValueError:
        return ()
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
