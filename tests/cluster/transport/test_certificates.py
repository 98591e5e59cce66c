"""Reading certificates and revocation lists, compared with another library."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.transport.certificates import (
    CertificateError,
    Rules,
    fingerprint,
    from_pem,
    read_certificate,
    read_expiry,
    read_revoked,
)

from .authority import Authority, Node


def test_a_certificate(tmp_path: Path) -> None:
    """Issuer, serial number, names and fingerprint are those of the other library."""
    authority = Authority()
    node = Node(tmp_path / "n", authority, "n1.example", "*.cluster.example")
    read, other = read_certificate(node.der), x509.load_pem_x509_certificate(node.pem)
    assert (read.issuer, read.serial) == (other.issuer.public_bytes(), other.serial_number)
    assert read.names == ("127.0.0.1", "n1.example", "*.cluster.example")
    assert read.fingerprint == sha256(node.der).hexdigest()


@pytest.mark.parametrize("year", [1999, 2027, 2049, 2050, 2150, 9999])
def test_the_end_of_a_certificate(year: int) -> None:
    """Years up to 2049 have two digits, later ones four."""
    end = datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)
    cert = trustme.CA().issue_cert("n1.example", not_before=datetime(1998, 1, 1, tzinfo=UTC), not_after=end)
    (der,) = from_pem(cert.cert_chain_pems[0].bytes(), "CERTIFICATE")
    assert read_expiry(der) == int(end.timestamp())


def test_the_end_of_what_is_no_certificate_is_an_error() -> None:
    (der,) = from_pem(Authority().ca.issue_cert("n1.example").cert_chain_pems[0].bytes(), "CERTIFICATE")
    for wrong in (b"", b"x", der[:60], der[:200]):
        with pytest.raises(CertificateError, match="cannot be read"):
            read_expiry(wrong)


def test_a_common_name_is_a_name() -> None:
    (der,) = from_pem(Authority().ca.issue_cert(common_name="n1@10.0.0.1").cert_chain_pems[0].bytes(), "CERTIFICATE")
    assert read_certificate(der).names == ("n1@10.0.0.1",)


def test_revocation_lists(tmp_path: Path) -> None:
    """Of several authorities in one file; an empty list revokes nothing."""
    one, two = Authority(), Authority()
    mine, his, good = Node(tmp_path / "1", one), Node(tmp_path / "2", two), Node(tmp_path / "3", one)
    text = one.revoke(tmp_path / "a", mine).read_bytes() + two.revoke(tmp_path / "b", his).read_bytes()
    rules = Rules(revoked=read_revoked(text))
    assert ["revoked" in rules.objection(each.der) for each in (mine, his, good)] == [True, True, False]
    assert read_revoked(one.revoke(tmp_path / "c").read_bytes()) == frozenset()


def test_the_serial_number_of_another_authority_is_not_revoked(tmp_path: Path) -> None:
    one, two = Authority(), Authority()
    node = Node(tmp_path / "1", one)
    assert Rules(revoked=read_revoked(two.revoke(tmp_path / "a", node).read_bytes())).objection(node.der) == ""


@pytest.mark.parametrize(
    ("names", "well"),
    [
        ((), True),
        (("n1.example",), True),
        (("N1.Example",), True),
        (("other", "127.0.0.1"), True),
        (("*.example",), True),
        (("*.cluster.example",), False),
        (("1.example",), False),
        (("example",), False),
        (("*.n1.example",), False),
    ],
)
def test_names(tmp_path: Path, names: tuple[str, ...], well: bool) -> None:
    objection = Rules(names).objection(Node(tmp_path / "n", Authority(), "n1.example").der)
    assert (objection == "") == well
    if not well:
        assert "the certificate of 127.0.0.1, n1.example, fingerprint" in objection


def test_fingerprints(tmp_path: Path) -> None:
    """In the format of openssl or of sha256sum. A revoked one does not count."""
    authority = Authority()
    node, other = Node(tmp_path / "1", authority), Node(tmp_path / "2", authority)
    digits = sha256(node.der).hexdigest()
    printed = ":".join(digits[at : at + 2] for at in range(0, 64, 2)).upper()
    rules = Rules((), (fingerprint(printed),))
    assert rules.objection(node.der) == "" and fingerprint(digits) == digits
    assert "is not one of cluster.peer_names or cluster.peer_fingerprints" in rules.objection(other.der)
    revoked = rules._replace(revoked=read_revoked(authority.revoke(tmp_path / "c", node).read_bytes()))
    assert "is revoked" in revoked.objection(node.der)


@pytest.mark.parametrize("text", ["", "ab", "x" * 64, "a" * 63, "a" * 65])
def test_malformed_fingerprints(text: str) -> None:
    with pytest.raises(CertificateError, match="64 hexadecimal digits"):
        fingerprint(text)


@given(data=st.binary(max_size=60))
def test_random_bytes_raise_one_kind_of_error(data: bytes) -> None:
    with pytest.raises(CertificateError):
        read_certificate(data)
    assert Rules().objection(data) != ""
    with pytest.raises(CertificateError):
        read_revoked(data)


def test_certificates_that_are_cut_off(tmp_path: Path) -> None:
    """There is an error wherever the data ends, or, if only unread data is missing, another fingerprint."""
    der = Node(tmp_path / "n", Authority()).der
    for end in range(0, len(der) - 1, 7):
        with pytest.raises(CertificateError):
            read_certificate(der[:end])


@pytest.mark.parametrize("text", [b"", b"-----BEGIN X509 CRL-----\nQUJD\n", b"-----BEGIN X509 CRL-----\n!\n"])
def test_files_without_a_list(text: bytes) -> None:
    with pytest.raises(CertificateError):
        read_revoked(text)
