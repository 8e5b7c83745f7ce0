"""What the program becomes without a model: a router over many, which a supervisor must never start by accident.

Only enough to be found out: health is good at once, and ``/props`` names the role (llamacpp.md, section 3.7).
"""

import json
import socketserver
from http.server import BaseHTTPRequestHandler

from blazar_stubs.llama_server.settings import Settings

_ANSWERS: dict[str, object] = {
    "/health": {"status": "ok"},
    "/v1/health": {"status": "ok"},
    "/models": {"object": "list", "data": []},
    "/v1/models": {"object": "list", "data": []},
    "/props": {"role": "router", "max_instances": 4, "models_autoload": True, "is_sleeping": False},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer from the table."""
        found = _ANSWERS.get(self.path.partition("?")[0])
        missing = {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}
        body = json.dumps(found if found is not None else missing).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def run_router(settings: Settings) -> int:
    """Serve until killed."""
    with socketserver.ThreadingTCPServer((settings.host, settings.port), _Handler) as server:
        server.serve_forever()
    return 0
