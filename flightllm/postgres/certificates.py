"""The hash of a certificate by which a client knows that it talks to the certificate's server (RFC 5929)."""

import ssl
from collections.abc import Mapping

_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"
_HASHES: Mapping[str, str] = {
    "2a864886f70d010104": "sha256",
    "2a864886f70d010105": "sha256",
    "2a864886f70d01010b": "sha256",
    "2a864886f70d01010c": "sha384",
    "2a864886f70d01010d": "sha512",
    "2a8648ce3d0401": "sha256",
    "2a8648ce3d040302": "sha256",
    "2a8648ce3d040303": "sha384",
    "2a8648ce3d040304": "sha512",
}
"""The hash by the algorithm that signed the certificate, as in hex digits of its identifier: RSA, then ECDSA.

MD5 and SHA-1 count as SHA-256. Other algorithms, such as Ed25519, have no agreed hash.
"""
_LONG = 0x80


def end_point(pem: str) -> tuple[str | None, bytes]:
    """Return the name of the hash for the first certificate of a file, or None, and the certificate's bytes.

    Raises:
        ValueError: the file has no certificate.
    """
    begin = pem.find(_BEGIN)
    end = pem.find(_END, begin)
    if begin < 0 or end < 0:
        raise ValueError("the file has no certificate")
    certificate = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(_END)] + "\n")
    outer, _ = _content(certificate, 0)
    _, after = _content(certificate, outer)  # what is signed
    algorithm, _ = _content(certificate, after)
    start, stop = _content(certificate, algorithm)
    return _HASHES.get(certificate[start:stop].hex()), certificate


def _content(data: bytes, at: int) -> tuple[int, int]:
    """Return where the content of the DER element at `at` begins and ends."""
    size, start = data[at + 1], at + 2
    if size >= _LONG:
        count = size - _LONG
        size, start = int.from_bytes(data[start : start + count]), start + count
    return start, start + size
