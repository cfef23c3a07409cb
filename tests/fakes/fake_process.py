"""A stand-in for a worker or the router: the same command line, signals and HTTP, no model.

What it does is read, before every step that matters, from a JSON file named by FAKE_SCRIPT, under
its own name: {"NAME": {"exit": 3, "error": {...}, "ready": false, "ignore_term": true, ...}}.
Every start and signal is appended to FAKE_EVENTS, one JSON object a line.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def script(name: str) -> dict[str, Any]:
    """How this process is to behave now."""
    text = Path(os.environ["FAKE_SCRIPT"]).read_text()
    return dict(json.loads(text).get(name, {}))


def note(name: str, what: str, **more: object) -> None:
    """Tell the test, in one write."""
    line = json.dumps({"name": name, "what": what, "pid": os.getpid(), **more}) + "\n"
    with Path(os.environ["FAKE_EVENTS"]).open("a") as events:
        events.write(line)


def server(name: str, host: str, port: int) -> ThreadingHTTPServer:
    """Answers /health and /ready as the real programs do."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            behaviour = script(name)
            if behaviour.get("silent"):
                threading.Event().wait()
            ready = self.path == "/health" or behaviour.get("ready", True)
            body = json.dumps({"ready": ready}).encode()
            self.send_response(200 if ready else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    return ThreadingHTTPServer((host, port), Handler)


def main() -> None:
    """Start as told, serve, and end as told by a signal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="router")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    options, rest = parser.parse_known_args()
    name = options.name
    secrets = {k: v for k, v in os.environ.items() if k.startswith("SPLITPOOL_")}
    note(name, "start", port=options.port, rest=rest, secrets=secrets, parent=os.getppid())
    behaviour = script(name)
    print(f"{name} says hello", flush=True)
    if "exit" in behaviour:
        if "error" in behaviour:
            print("it cannot work", file=sys.stderr)
            print(json.dumps({"error": behaviour["error"]}), file=sys.stderr, flush=True)
        sys.exit(behaviour["exit"])
    if behaviour.get("grandchild"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        note(name, "grandchild", child=child.pid)
    http = server(name, options.host, options.port)

    def told(number: int, _frame: object) -> None:
        note(name, signal.Signals(number).name)
        if number == signal.SIGTERM and script(name).get("ignore_term"):
            return
        threading.Thread(target=http.shutdown).start()

    signal.signal(signal.SIGTERM, told)
    signal.signal(signal.SIGINT, told)
    http.serve_forever()
    note(name, "end")


if __name__ == "__main__":
    main()
