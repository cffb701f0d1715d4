"""Stand-ins for the batches of Mistral, Together, Gemini and Azure's older API over real HTTP, by their wire formats.

Sources: the packages `mistralai`, `together` and `google-genai`, and Azure's and Together's API references. The jobs
and answers are those of `tests.batch_endpoint`.
"""

import email
import email.policy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.batch_endpoint import BatchProvider

Reply = tuple[int, Any]
_MISTRAL = {
    "validating": "QUEUED",
    "in_progress": "RUNNING",
    "completed": "SUCCESS",
    "failed": "FAILED",
    "expired": "TIMEOUT_EXCEEDED",
    "cancelling": "CANCELLATION_REQUESTED",
    "cancelled": "CANCELLED",
}
FORMS = {"mistral": "/v1", "together": "/v1", "gemini": "/v1beta/openai", "azure": ""}
"""The forms, with the path of their addresses."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: BatchProvider
    names: dict[str, str]
    """The names of files, by their ids."""
    looked: set[str]
    headers_out: dict[str, str]

    def do_GET(self) -> None:
        self._do(b"")

    def do_POST(self) -> None:
        self._do(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def _do(self, given: bytes) -> None:
        self.headers_out = {}
        with self.provider.lock:
            parts = urlsplit(self.path)
            self.query = {name: found[0] for name, found in parse_qs(parts.query).items()}
            status, document = self.handle_path(f"{self.command} {parts.path}", given)
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.provider.before_reply(self.path)
        self.send_response(status)
        for name, value in {"content-length": str(len(data)), **self.headers_out}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def handle_path(self, path: str, given: bytes) -> Reply:
        raise NotImplementedError

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def form(self, body: bytes) -> dict[str, tuple[str | None, bytes]]:
        """Return the fields of a form: their file names and contents."""
        head = f"content-type: {self.headers['content-type']}\n\n".encode()
        found = {}
        for part in email.message_from_bytes(head + body, policy=email.policy.HTTP).iter_parts():
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            found[str(part.get_param("name", header="content-disposition"))] = part.get_filename(), content
        return found

    def keep(self, name: str, content: bytes) -> str:
        """Keep a file; return its id."""
        made = str(self.provider.add_file(content)["id"])
        self.names[made] = name
        return made

    def make(self, file: str, **more: Any) -> dict[str, Any]:
        """Make a job of a file."""
        for line in self.provider.files[file].split(b"\n"):
            if line.strip():
                self.check_line(json.loads(line))
        asked = {"input_file_id": file, "endpoint": "x", "completion_window": "24h", **more}
        return self.provider.add_job(asked)

    def check_line(self, line: dict[str, Any]) -> None:
        assert set(line) == {"custom_id", "body"}, line

    def chat(self, given: bytes) -> Reply:
        return self.provider.answer(json.loads(given), self.provider.chats)

    def tail(self, path: str) -> str:
        return path.rpartition("/")[2]


_MISSING: Reply = (404, {"error": {"message": "not found"}})


class _Mistral(_Handler):
    def handle_path(self, path: str, given: bytes) -> Reply:
        provider = self.provider
        match path.removeprefix("GET /v1/").removeprefix("POST /v1/").split("/"):
            case ["chat", "completions"]:
                return self.chat(given)
            case ["files"]:
                form = self.form(given)
                assert form["purpose"][1] == b"batch"
                name, content = form["file"]
                return 200, {"id": self.keep(str(name), content), "object": "file", "purpose": "batch"}
            case ["files", file, "content"]:
                return 200, provider.files[file]
            case ["batch", "jobs"] if path.startswith("POST"):
                asked = json.loads(given)
                assert set(asked) == {"input_files", "endpoint", "model", "metadata", "timeout_hours"}
                assert asked["endpoint"] == "/v1/chat/completions"
                [file] = asked["input_files"]
                return 200, self.shown(self.make(file, metadata=asked["metadata"]))
            case ["batch", "jobs"]:
                jobs = [self.shown(job) for job in reversed(provider.jobs.values())]
                begin, size = int(self.query["page"]), int(self.query["page_size"])
                page = jobs[begin * size : (begin + 1) * size]
                return 200, {"object": "list", "total": len(jobs), "data": page}
            case ["batch", "jobs", job]:
                found = provider.look(job)
                return (200, self.shown(found)) if found else _MISSING
            case ["batch", "jobs", job, "cancel"]:
                provider.jobs[job]["status"] = "cancelling"
                return 200, self.shown(provider.jobs[job])
        return _MISSING

    def shown(self, job: dict[str, Any]) -> dict[str, Any]:
        errors = [{"message": one["message"], "count": 1} for one in (job.get("errors") or {}).get("data", [])]
        counts: dict[str, Any] = dict.fromkeys(
            ("total_requests", "completed_requests", "succeeded_requests", "failed_requests"), 1
        )
        return counts | {
            "id": job["id"],
            "object": "batch",
            "created_at": job["created_at"],
            "metadata": job["metadata"],
            "input_files": [job["input_file_id"]],
            "endpoint": "/v1/chat/completions",
            "model": "gpt-test",
            "errors": errors,
            "status": _MISTRAL[job["status"]],
            "output_file": job.get("output_file_id"),
            "error_file": job.get("error_file_id"),
        }


class _Together(_Handler):
    def handle_path(self, path: str, given: bytes) -> Reply:
        provider = self.provider
        match path.removeprefix("GET /v1/").removeprefix("POST /v1/").split("/"):
            case ["chat", "completions"]:
                return self.chat(given)
            case ["files", "upload"]:
                form = self.form(given)
                assert (form["purpose"][1], form["file_type"][1]) == (b"batch-api", b"jsonl")
                return 200, {"id": self.keep(form["file_name"][1].decode(), form["file"][1]), "object": "file"}
            case ["files", file, "content"]:
                return 200, provider.files[file]
            case ["files", file]:
                return 200, {"id": file, "object": "file", "filename": self.names[file]}
            case ["batches"] if path.startswith("POST"):
                asked = json.loads(given)
                assert set(asked) == {"input_file_id", "endpoint"}
                return 201, {"job": self.shown(self.make(asked["input_file_id"]))}
            case ["batches"]:
                return 200, [self.shown(job) for job in provider.jobs.values()]
            case ["batches", job]:
                found = provider.look(job)
                return (200, self.shown(found)) if found else _MISSING
            case ["batches", job, "cancel"]:
                provider.jobs[job]["status"] = "cancelling"
                return 200, self.shown(provider.jobs[job])
        return _MISSING

    def shown(self, job: dict[str, Any]) -> dict[str, Any]:
        status = job["status"].replace("cancelling", "in_progress").upper()
        made = datetime.fromtimestamp(job["created_at"], UTC).isoformat().replace("+00:00", "Z")
        files: dict[str, Any] = {
            name: job[name] for name in ("input_file_id", "output_file_id", "error_file_id") if name in job
        }
        error = "; ".join(one["message"] for one in (job.get("errors") or {}).get("data", []))
        return {"id": job["id"], "status": status, "created_at": made, **files, **({"error": error} if error else {})}


class _Gemini(_Handler):
    def handle_path(self, path: str, given: bytes) -> Reply:
        if "/openai/" not in path and not self.headers.get("x-goog-api-key"):
            return 403, {
                "error": {"message": "Method doesn't allow unregistered callers", "status": "PERMISSION_DENIED"}
            }
        return self.own_api(path, given) if "/openai/" not in path else self.compatible_api(path, given)

    def own_api(self, path: str, given: bytes) -> Reply:
        provider = self.provider
        match path.split("/"):
            case ["POST ", "upload", "v1beta", "files"]:
                name = json.loads(given)["file"]["name"]
                assert self.headers["x-goog-upload-protocol"] == "resumable"
                assert self.headers["x-goog-upload-command"] == "start"
                self.headers_out["x-goog-upload-url"] = f"{provider.url}/upload/v1beta/files/{self.tail(name)}"
                return 200, {}
            case ["POST ", "upload", "v1beta", "files", name]:
                assert self.headers["x-goog-upload-command"] == "upload, finalize"
                self.headers_out["x-goog-upload-status"] = "final"
                own = f"files/{name}"
                if own in self.names.values():
                    return 409, {"error": {"message": "already exists", "status": "ALREADY_EXISTS"}}
                self.keep(own, given)
                return 200, {"file": {"name": own, "state": "ACTIVE"}}
            case ["GET ", "v1beta", "batches"]:
                jobs = provider.jobs.values()
                return 200, {
                    "operations": [{"name": f"batches/{job['id']}", "metadata": self.own(job)} for job in jobs]
                }
            case ["GET ", "v1beta", "files", file] if file.endswith(":download") and self.query["alt"] == "media":
                return 200, provider.files[file.removesuffix(":download")]
        return _MISSING

    def compatible_api(self, path: str, given: bytes) -> Reply:
        provider = self.provider
        match path.split("/"):
            case ["POST ", "v1beta", "openai", "chat", "completions"]:
                return self.chat(given)
            case ["POST ", "v1beta", "openai", "batches"] if provider.busy:
                provider.busy -= 1
                said = "You exceeded your current quota, please check your plan and billing details."
                return 429, {"error": {"code": 429, "message": said, "status": "RESOURCE_EXHAUSTED"}}
            case ["POST ", "v1beta", "openai", "batches"]:
                asked = json.loads(given)
                file = next(one for one, name in self.names.items() if name == asked["input_file_id"])
                return 200, self.shown(self.make(file))
            case ["GET ", "v1beta", "openai", "batches", "batches", job]:
                found = provider.look(job)
                return (200, self.shown(found)) if found else _MISSING
            case ["POST ", "v1beta", "openai", "batches", "batches", job, "cancel"]:
                provider.jobs[job]["status"] = "cancelling"
                return 200, self.shown(provider.jobs[job])
        return _MISSING

    def check_line(self, line: dict[str, Any]) -> None:
        assert set(line) == {"custom_id", "method", "url", "body"}, line

    def own(self, job: dict[str, Any]) -> dict[str, Any]:
        return {"state": "BATCH_STATE_RUNNING", "inputConfig": {"fileName": self.names[job["input_file_id"]]}}

    def shown(self, job: dict[str, Any]) -> dict[str, Any]:
        outputs: dict[str, Any] = {
            name: f"files/{job[name]}" for name in ("output_file_id", "error_file_id") if name in job
        }
        return {
            "id": f"batches/{job['id']}",
            "object": "batch",
            "status": job["status"],
            "errors": job.get("errors"),
            **outputs,
        }


class _Azure(_Handler):
    def handle_path(self, path: str, given: bytes) -> Reply:
        provider = self.provider
        if "api-version" not in self.query:
            return _MISSING
        match path.split("/"):
            case ["POST ", "openai", "deployments", "gpt-test", "chat", "completions"]:
                return self.chat(given)
            case ["POST ", "openai", "files"]:
                name, content = self.form(given)["file"]
                return 201, {"id": self.keep(str(name), content), "object": "file", "status": "pending"}
            case ["GET ", "openai", "files", file]:
                self.looked.add(file)
                return 200, {"id": file, "object": "file", "status": "processed"}
            case ["GET ", "openai", "files", file, "content"]:
                return 200, provider.files[file]
            case ["POST ", "openai", "batches"]:
                asked = json.loads(given)
                if asked["input_file_id"] not in self.looked:
                    return 400, {"error": {"message": "The file is not ready."}}
                assert asked["endpoint"] == "/chat/completions"
                return 200, self.make(asked["input_file_id"], metadata=asked["metadata"])
            case ["GET ", "openai", "batches"]:
                return 200, {"object": "list", "data": list(reversed(provider.jobs.values())), "has_more": False}
            case ["GET ", "openai", "batches", job]:
                found = provider.look(job)
                return (200, found) if found else _MISSING
        return _MISSING

    def check_line(self, line: dict[str, Any]) -> None:
        assert line["url"] == "/chat/completions", line


_HANDLERS: dict[str, type[_Handler]] = {"mistral": _Mistral, "together": _Together, "gemini": _Gemini, "azure": _Azure}


@contextmanager
def provider_batches(form: str, **how: Any) -> Iterator[tuple[BatchProvider, dict[str, Any]]]:
    """Run the stand-in of a provider on a free port; yield it with the options of an engine for it."""
    provider = BatchProvider(**how)
    more = {"provider": provider, "names": {}, "looked": set()}
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_HANDLERS[form],), more)) as server:
        server.daemon_threads = True
        provider.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        options = {"base_url": provider.url + FORMS[form], "provider": form, "api_key_env": ""}
        try:
            yield provider, {**options, "api_version": "2024-10-21"} if form == "azure" else options
        finally:
            server.shutdown()
