"""An S3 server in a process of its own, and before it a proxy that answers some requests with errors."""

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from s3fs import S3FileSystem

BUCKET = "studies"
Fault = Callable[[str, str], tuple[int, str] | None]
"""Return the status and the S3 code with which a request (method, path) is answered; None lets it pass."""


class Server:
    """`environment` leads to it; `fault` may be set at any time; `requests` are those that came: (method, path)."""

    def __init__(self, port: int, target: int) -> None:
        self.fault: Fault = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "2",
        }
        self._target = target

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Pass a request on to the server and its answer back."""
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        self.requests.append((request.command, request.path))
        if fault := self.fault(request.command, request.path):
            status, code = fault
            content = f"<Error><Code>{code}</Code><Message>{code} it is</Message></Error>".encode()
            headers = [("Content-Type", "application/xml")]
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self._target)
            connection.request(request.command, request.path, body, dict(request.headers))
            answer = connection.getresponse()
            status, content, headers = answer.status, answer.read(), answer.getheaders()
            connection.close()
        request.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "server", "date"):
                request.send_header(name, value)
        length = dict(headers).get("Content-Length") if request.command == "HEAD" else None
        request.send_header("Content-Length", length or str(len(content)))
        request.end_headers()
        request.wfile.write(content)


@contextmanager
def s3_server() -> Iterator[Server]:
    """Start the two, with an empty bucket. Connections of this process to earlier servers are forgotten."""
    S3FileSystem.clear_instance_cache()
    started = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert started.stderr is not None
    line = next(line for line in started.stderr if "Running on http" in line)
    threading.Thread(target=lambda: [None for _ in started.stderr or ()], daemon=True).start()
    target = int(line.split(":")[-1].split()[0].strip("/"))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        log_message = lambda *_: None  # noqa: E731
        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = lambda self: server.answer(self)

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    server = Server(proxy.server_address[1], target)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", target)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()
        yield server
    finally:
        proxy.shutdown()
        proxy.server_close()
        started.kill()
        started.wait()
        started.stderr.close()
