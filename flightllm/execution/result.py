"""Yield the rows of a running query, and keep the query's record."""

from collections.abc import Iterator

import pyarrow as pa
import structlog

from flightllm.common.limits import over_limit
from flightllm.datafusion.errors import panics_mapped
from flightllm.datafusion.run import Batches
from flightllm.errors import CancelledError, FlightLLMError, InternalError
from flightllm.observe.query_record import QueryRecord
from flightllm.storage.folder import Reader

_log = structlog.get_logger(__name__)


class ResultBatches(Iterator[pa.RecordBatch]):
    """The rows of a query, at most `most_bytes`; it also keeps the record. One thread at a time pulls or closes."""

    def __init__(self, batches: Batches, record: QueryRecord, reader: Reader, most_bytes: int | None = None) -> None:
        self._batches = batches
        self._record = record
        self._most = most_bytes
        self._reader = reader
        """Keeps the old files of changed tables until this object is closed, exhausted or garbage-collected."""

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch; raise every failure as one of the package's errors."""
        with self._record.bound():
            return self._next()

    def _next(self) -> pa.RecordBatch:
        self._record.begin()
        try:
            with panics_mapped():
                batch = next(self._batches)
            self._check_size(self._record.bytes + batch.nbytes)
        except StopIteration:
            self._reader.close()
            self._record.finish("done")
            raise
        except CancelledError as error:
            self._record.finish("cancelled")
            if self._record.reason is not None:
                raise self._record.reason from error
            raise
        except FlightLLMError as error:
            self._record.finish("failed", error=str(error))
            raise
        except Exception as error:
            self._record.finish("failed", error="internal error")
            _log.exception("query failed", query_id=self._record.query_id)
            raise InternalError(f"internal error, query_id={self._record.query_id}: see the server's log") from error
        self._record.add_rows(batch.num_rows, batch.nbytes)
        return batch

    def _check_size(self, size: int) -> None:
        if self._most is not None and size > self._most:
            found = f"the rows come to {size:,} bytes or more"
            raise over_limit("result_bytes", self._most, found, "ask for fewer rows or columns")

    def close(self) -> None:
        """Stop the query if it still runs. Idempotent."""
        with self._record.bound():
            self._record.finish("cancelled")
            self._batches.close()
            self._reader.close()
