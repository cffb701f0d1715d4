"""Certificates for tests of TLS."""

from pathlib import Path

import trustme

from flightllm.config import ServerConfig


def certified_config(folder: Path, authority: trustme.CA) -> ServerConfig:
    """Return the configuration of a server with TLS and a port for client certificates; the files are in `folder`."""
    own = authority.issue_cert("localhost", "127.0.0.1")
    own.private_key_pem.write_to_path(folder / "key.pem")
    own.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    return ServerConfig(
        "127.0.0.1:0",
        tls_certificate=folder / "certificate.pem",
        tls_key=folder / "key.pem",
        client_listen="127.0.0.1:0",
        client_authority=folder / "authority.pem",
    )
