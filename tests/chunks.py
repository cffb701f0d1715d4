"""Keys and bitstreams to keep in stores of KV chunks."""

from hashlib import blake2b


def key_of(number: int) -> str:
    """Return the key of some chunk."""
    return blake2b(str(number).encode(), digest_size=20).hexdigest()


def bitstream(number: int, size: int) -> bytes:
    """Return `size` bytes, whole only if they are those of this number and size."""
    seed = blake2b(f"{number} {size}".encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]
