"""Certificates for tests: an authority that signs and revokes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from strogoff.cluster.transport.certificates import from_pem
from strogoff.cluster.transport.grpc_settings import Tls

HOST = "127.0.0.1"


class Node:
    """The files of one node, for its host and further names."""

    def __init__(self, folder: Path, authority: Authority, *names: str) -> None:
        folder.mkdir()
        issued = authority.ca.issue_cert(HOST, *names)
        self.cafile, self.certfile, self.keyfile = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        authority.ca.cert_pem.write_to_path(str(self.cafile))
        issued.private_key_pem.write_to_path(str(self.keyfile))
        self.pem = issued.cert_chain_pems[0].bytes()
        self.certfile.write_bytes(self.pem)
        (self.der,) = from_pem(self.pem, "CERTIFICATE")

    def tls(self, names: tuple[str, ...] = (), fingerprints: tuple[str, ...] = (), crl: Path | None = None) -> Tls:
        """Returns the TLS settings of this node."""
        return Tls(self.cafile, self.certfile, self.keyfile, "", names, fingerprints, crl)


class Authority:
    """An authority that signs certificates and revocation lists."""

    def __init__(self) -> None:
        self.ca = trustme.CA()

    def revoke(self, path: Path, *nodes: Node) -> Path:
        """Write a revocation list with these certificates."""
        key = serialization.load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        issuer = x509.load_pem_x509_certificate(self.ca.cert_pem.bytes()).subject
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder(issuer, now, now + timedelta(days=1))
        for node in nodes:
            serial = x509.load_pem_x509_certificate(node.pem).serial_number
            builder = builder.add_revoked_certificate(x509.RevokedCertificateBuilder(serial, now).build())
        made = builder.sign(key, hashes.SHA256())  # type: ignore[arg-type]
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return path
