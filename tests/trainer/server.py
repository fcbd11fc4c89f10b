"""`Server`: an OpenAI-compatible server on loopback whose answers a test chooses."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any], int], Any]
"""(request, how many came before with this prompt) -> a JSON body, raw bytes, a status, or None to drop it."""


class Server:
    def __init__(self, answer: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self.name = "served"
        self.models: bytes | None = None
        """In place of every JSON body."""
        self.promised = 0
        """Bytes that a raw answer promises and does not send."""
        seen, outer = {}, self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send({"data": [{"id": outer.name}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body)
                number = seen[body["prompt"]] = seen.get(body["prompt"], -1) + 1
                found = answer(body, number)
                if isinstance(found, int):
                    self.send_error(found)
                elif isinstance(found, bytes):
                    self.send_text(found, promised=outer.promised)
                elif found is None:
                    self.connection.shutdown(socket.SHUT_RDWR)
                else:
                    self.send(found)

            def send(self, body: Any) -> None:
                self.send_text(json.dumps(body).encode() if outer.models is None else outer.models)

            def send_text(self, text: bytes, promised: int = 0) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(text) + promised))
                self.end_headers()
                self.wfile.write(text)
                if promised:
                    self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    server = Server(answer)
    try:
        yield server
    finally:
        server.close()
