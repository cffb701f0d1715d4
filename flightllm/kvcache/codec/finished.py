"""Wait until a device has finished decoding, to measure how long decoding takes."""

from __future__ import annotations


def wait_until_decoded(device: str) -> None:
    """Wait for the work that this thread gave to a GPU, which continues after the call; do nothing on a CPU.

    Only the thread's current stream counts, not the engine's work in other streams.
    """
    if device.startswith("cuda"):
        import torch

        torch.cuda.current_stream(device).synchronize()
