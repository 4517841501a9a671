"""A small hub server on localhost that supports downloads of files and uploads of folders by huggingface_hub."""

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class Hub(ThreadingHTTPServer):
    """repositories: owner/name -> revision -> file name -> content. A revision's commit is the hash of its name."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.repositories: dict[str, dict[str, dict[str, bytes]]] = {}
        self.requests: list[str] = []
        self.tokens: set[str] = set()
        self.closed = ""
        """The name of a repository that requires a token."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextlib.contextmanager
def local_hub() -> Iterator[Hub]:
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


def commit_of(revision: str) -> str:
    return hashlib.sha1(revision.encode()).hexdigest()


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self._resolve(body=False)

    def do_GET(self) -> None:
        self._resolve(body=True)

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self._note()
        path = self.path.split("?")[0]
        if path == "/api/repos/create":
            wanted = json.loads(sent)
            name = f"{wanted['organization']}/{wanted['name']}"
            known = name in self.server.repositories
            self.server.repositories.setdefault(name, {"main": {}})
            self._json({"url": f"{self.server.endpoint}/{name}"}, status=409 if known else 200)
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(sent)["files"]
            answers = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]
            self._json({"files": answers})
        elif "/commit/" in path:
            name, _, revision = path.removeprefix("/api/models/").partition("/commit/")
            for line in sent.splitlines():
                operation = json.loads(line)
                if operation["key"] == "file":
                    content = base64.b64decode(operation["value"]["content"])
                    self.server.repositories[name][revision][operation["value"]["path"]] = content
            commit = commit_of(revision)
            self._json({"commitUrl": f"{self.server.endpoint}/{name}/commit/{commit}", "commitOid": commit})
        else:
            self._refuse(404, "RepoNotFound")

    def _resolve(self, *, body: bool) -> None:
        """Answer a request for /owner/name/resolve/REVISION/FILE."""
        self._note()
        name, _, rest = self.path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        revision = unquote(revision)
        revisions = self.server.repositories.get(name)
        if name == self.server.closed and self.headers.get("Authorization") != "Bearer sesame":
            self._refuse(403, "GatedRepo")
        elif revisions is None:
            self._refuse(404, "RepoNotFound")
        elif revision not in revisions:
            self._refuse(404, "RevisionNotFound")
        elif file not in revisions[revision]:
            self._refuse(404, "EntryNotFound", {"X-Repo-Commit": commit_of(revision)})
        else:
            content = revisions[revision][file]
            headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": commit_of(revision)}
            self._send(200, content, headers, body=body)

    def _note(self) -> None:
        self.server.requests.append(f"{self.command} {self.path.split('?')[0]}")
        if token := self.headers.get("Authorization"):
            self.server.tokens.add(token)

    def _json(self, content: Any, *, status: int = 200) -> None:
        self._send(status, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self._send(status, b"", {"X-Error-Code": code, **(headers or {})})

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool = True) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
