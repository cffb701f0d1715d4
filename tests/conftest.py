"""What all tests share."""

import os

# DataFusion starts its threads once per process, at its first use, which may come before a database chooses how many.
os.environ.setdefault("TOKIO_WORKER_THREADS", "64")
