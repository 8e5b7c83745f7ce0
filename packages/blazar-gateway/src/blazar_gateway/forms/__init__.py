"""What request bodies look like: a table of fields a route, which checks them and which ``/openapi.json`` shows."""
