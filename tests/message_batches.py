"""Batches of messages for the stand-in of Anthropic's API, by the documented rules and wire format."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Body = dict[str, Any]
Reply = tuple[int, Body | bytes, dict[str, str]]
PATH = "/v1/messages/batches"


@dataclass
class MessageBatches:
    """The batches that a server has. A batch ends after `looks` looks at its state."""

    looks: int = 1
    expires_after: int | None = None
    """The first batch answers so many requests, and then expires; None: it answers all."""
    untidy: bool = False
    """Results come twice, and between lines that belong to no request."""
    busy: int = 0
    """So many requests for a batch are rejected with status 429."""
    most: int = 100_000
    """A batch of more requests is rejected with status 413."""
    drops_replies: int = 0
    """So many batches are made without a reply."""
    after_end: Callable[[], None] = lambda: None
    """Called after the requests of a batch were answered."""
    made: dict[str, Body] = field(default_factory=dict)
    requests: dict[str, list[Body]] = field(default_factory=dict)
    lines: dict[str, list[bytes]] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)

    def post(self, path: str, body: Body, answer: Callable[[Body], Reply]) -> Reply:
        """Make or cancel a batch."""
        if path == PATH:
            return self._make(body)
        name, _, verb = path.removeprefix(f"{PATH}/").partition("/")
        if verb != "cancel" or name not in self.made:
            return _error(404, "not_found_error", "Not found")
        if self.made[name]["processing_status"] == "in_progress":
            self._end(name, 1, "canceled", answer)
        return 200, self.made[name], {}

    def _make(self, body: Body) -> Reply:
        requests = body.get("requests") or []
        ids = [one.get("custom_id") for one in requests]
        if not requests or len(requests) > 100_000 or set(body) != {"requests"}:
            return _error(400, "invalid_request_error", "requests: between 1 and 100000 items are required")
        if len(set(ids)) < len(ids) or not all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one) for one in ids):
            return _error(400, "invalid_request_error", "requests.0.custom_id: not unique or not ^[a-zA-Z0-9_-]{1,64}$")
        if any(one["params"].get("stream") or set(one) != {"custom_id", "params"} for one in requests):
            return _error(400, "invalid_request_error", "requests.0: Extra inputs are not permitted")
        if self.busy:
            self.busy -= 1
            return _error(429, "rate_limit_error", "Number of requests in the processing queue exceeds your limit")
        if len(requests) > self.most:
            return _error(413, "request_too_large", "Request exceeds the maximum size")
        now, name = datetime.now(UTC), f"msgbatch_{len(self.made) + 1}"
        counts = dict.fromkeys(("succeeded", "errored", "canceled", "expired"), 0) | {"processing": len(requests)}
        self.made[name] = {
            "id": name, "type": "message_batch", "processing_status": "in_progress", "request_counts": counts,
            "created_at": now.isoformat(), "expires_at": (now + timedelta(days=1)).isoformat(), "ended_at": None,
            "archived_at": None, "cancel_initiated_at": None, "results_url": None,
        }  # fmt: skip
        self.requests[name] = requests
        if self.drops_replies:
            self.drops_replies -= 1
            return _error(500, "api_error", "Internal server error")
        return 200, self.made[name], {}

    def get(self, path: str, answer: Callable[[Body], Reply]) -> Reply:
        """Return the list of batches, a batch, or its results."""
        if path == PATH:
            for name in self.made:
                self._look(name, answer)
            found = list(reversed(self.made.values()))
            return 200, {"data": found, "has_more": False, "first_id": None, "last_id": None}, {}
        name, _, verb = path.removeprefix(f"{PATH}/").partition("/")
        batch = self.made.get(name)
        if batch is None or (verb and batch["processing_status"] != "ended"):
            return _error(404, "not_found_error", "Not found")
        if verb:
            return 200, b"\n".join(self.lines[name]) + b"\n", {"Content-Type": "application/x-jsonl"}
        self._look(name, answer)
        return 200, batch, {}

    def _look(self, name: str, answer: Callable[[Body], Reply]) -> None:
        """Let time pass for a batch."""
        self.looked[name] = self.looked.get(name, 0) + 1
        if self.made[name]["processing_status"] == "in_progress" and self.looked[name] >= self.looks:
            self._end(name, self.expires_after if name == "msgbatch_1" else None, "expired", answer)

    def _end(self, name: str, most: int | None, word: str, answer: Callable[[Body], Reply]) -> None:
        """End a batch; its results come in another order than its requests."""
        batch, lines = self.made[name], list[bytes]()
        counts = dict.fromkeys(batch["request_counts"], 0)
        for number, request in enumerate(self.requests[name]):
            if most is not None and number >= most:
                result: Body = {"type": word}
            else:
                status, body, _ = answer(request["params"])
                good = {"type": "succeeded", "message": body}
                result = good if status == 200 else {"type": "errored", "error": body}
            counts[result["type"]] += 1
            lines.append(json.dumps({"custom_id": request["custom_id"], "result": result}).encode())
        self.after_end()
        if self.untidy:
            stranger = {"custom_id": f"{requests_name(self.requests[name])}-999999", "result": {"type": "expired"}}
            lines += [*lines[:3], json.dumps(stranger).encode(), b'{"custom_id": "x"}', b"not JSON", b"", b"[]"]
        self.lines[name] = lines[::-1]
        batch |= {
            "processing_status": "ended",
            "ended_at": datetime.now(UTC).isoformat(),
            "request_counts": counts,
            "results_url": "https://elsewhere.invalid/",
        }


def requests_name(requests: list[Body]) -> str:
    """Return what the ids of a batch's requests have in common."""
    return str(requests[0]["custom_id"]).rpartition("-")[0]


def _error(status: int, kind: str, message: str) -> Reply:
    return status, {"type": "error", "error": {"type": kind, "message": message}}, {}
