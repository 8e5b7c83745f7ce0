"""``/openapi.json``: every operation, with bodies from the tables that check them and answers as they are sent."""
