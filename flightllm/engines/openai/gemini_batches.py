"""Gemini's batches: jobs of its OpenAI-compatible API over files of its own API.

The compatible API makes, shows and cancels jobs, and has no files; the guide uploads and downloads them with Gemini's
own API. Sources: the guide to this API, and the requests of the package `google-genai`, autumn 2026.
"""

from __future__ import annotations

from secrets import token_hex
from typing import Any, Final

from flightllm.engines.openai.batches import OpenAIBatches
from flightllm.errors import EngineError

_TYPE: Final = "application/jsonl"
_PAGE: Final = 100


class GeminiBatches(OpenAIBatches):
    """The batches of Gemini's API; see `BatchEndpoint` for the methods. A job is known by the name of its file."""

    quota_passes = True

    @property
    def _root(self) -> str:
        """Return the address of Gemini's own API, which is above that of the compatible one."""
        return self._address.rstrip("/").removesuffix("/openai")

    @property
    def _own(self) -> dict[str, str]:
        """Return the header with the key, as Gemini's own API takes it."""
        return {"x-goog-api-key": self._client.api_key}

    def find(self, name: str, since: float) -> str | None:
        """Return the id of the job whose file has this name."""
        del since

        async def found() -> str | None:
            query: dict[str, Any] = {"pageSize": _PAGE}
            while True:
                document = await self._get(f"{self._root}/batches", headers=self._own, **query)
                for one in document.get("operations") or []:
                    job = one.get("metadata") or {}
                    file = str((job.get("inputConfig") or {}).get("fileName", ""))
                    if file.startswith(f"files/{name}-x"):
                        return str(one["name"])
                if not document.get("nextPageToken"):
                    return None
                query["pageToken"] = document["nextPageToken"]

        return self._asked(found)

    async def _upload(self, name: str, content: bytes) -> str:
        own = f"files/{name}-x{token_hex(3)}"  # a name can be used once, and a refused job is sent again
        version = self._root.rpartition("/")[2]
        host = self._root.removesuffix(f"/{version}")
        begun = await self._raw(
            "POST",
            f"{host}/upload/{version}/files",
            {"file": {"name": own, "displayName": name, "mimeType": _TYPE}},
            {
                **self._own,
                "X-Goog-Upload-Protocol": "resumable",
                "X-Goog-Upload-Command": "start",
                "X-Goog-Upload-Header-Content-Length": str(len(content)),
                "X-Goog-Upload-Header-Content-Type": _TYPE,
            },
        )
        target = begun.headers.get("x-goog-upload-url", "")
        if not target:
            raise EngineError(f"the engine {self._engine.name} returned no address for the file of a batch")
        command = {"X-Goog-Upload-Command": "upload, finalize", "X-Goog-Upload-Offset": "0"}
        kept = await self._raw("POST", target, content, {**self._own, **command})
        return str(kept.json()["file"]["name"])

    async def _create(self, name: str, file: str) -> str:
        del name
        job = {"input_file_id": file, "endpoint": self._path, "completion_window": "24h"}
        return str((await self._post("/batches", job))["id"])

    async def _retrieved(self, job: str) -> Any:
        return await self._get_batch(job)

    async def _content(self, file: str) -> bytes:
        path = f"{self._root}/{file}:download"
        found: bytes = (await self._raw("GET", path, None, self._own, {"alt": "media"})).content
        return found
