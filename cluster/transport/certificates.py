"""Decides whether a certificate belongs to a node (RFC 5280): its names, its fingerprint, and whether it was revoked.

TLS has already verified the signature and the dates of the certificate. This module reads only verified certificates
and files of the operator.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from datetime import UTC, datetime
from hashlib import sha256
from ipaddress import ip_address
from typing import NamedTuple

Revoked = frozenset[tuple[bytes, int]]
"""Issuer, as it is encoded, and serial number."""

_COMMON_NAME = bytes((0x55, 0x04, 0x03))
_ALTERNATIVE_NAMES = bytes((0x55, 0x1D, 0x11))
_INTEGER, _SEQUENCE, _EXTENSIONS = 0x02, 0x30, 0xA3
_UTC_TIME = 0x17
_TEXT_NAMES = (0x81, 0x82, 0x86)
"""Mail address, DNS name, URI."""
_IP = 0x87


class CertificateError(Exception):
    """A certificate or a revocation list cannot be read; the text says what."""


class Certificate(NamedTuple):
    """`names` are the alternative names and the common name, `fingerprint` is SHA-256 in hexadecimal digits."""

    issuer: bytes
    serial: int
    names: tuple[str, ...]
    fingerprint: str


class Rules(NamedTuple):
    """The certificates that belong to nodes. Without names and fingerprints, these are all that are not revoked.

    A name may begin with `*.`, for any one label; a fingerprint is as in `Certificate`.
    """

    names: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    revoked: Revoked = frozenset()

    def objection(self, der: bytes) -> str:
        """Returns the reason why this certificate does not belong to a node; "" if it does."""
        try:
            shown = read_certificate(der)
        except CertificateError as error:
            return str(error)
        who = ", ".join(shown.names) or "nobody"
        if (shown.issuer, shown.serial) in self.revoked:
            return f"the certificate of {who}, serial number {shown.serial:x}, is revoked"
        if not self.names and not self.fingerprints:
            return ""
        if shown.fingerprint in self.fingerprints or any(_fits(name, shown.names) for name in self.names):
            return ""
        return (
            f"the certificate of {who}, fingerprint {shown.fingerprint}, is not one of cluster.peer_names or "
            "cluster.peer_fingerprints"
        )


def _fits(wanted: str, names: tuple[str, ...]) -> bool:
    wanted = wanted.lower()
    found = [name.lower() for name in names]
    if wanted.startswith("*."):
        return any(name.partition(".")[2] == wanted[2:] for name in found)
    return wanted in found


def fingerprint(text: str) -> str:
    """Convert a fingerprint from the form that tools print to the form of `Certificate`. Raises `CertificateError`."""
    digits = text.replace(":", "").lower()
    if len(digits) != 64 or any(digit not in "0123456789abcdef" for digit in digits):
        raise CertificateError(f"{text}: a fingerprint is 64 hexadecimal digits, of SHA-256")
    return digits


def read_certificate(der: bytes) -> Certificate:
    """Decode a certificate. Raises `CertificateError`."""
    try:
        parts = _parts(_parts(_parts(der)[0].content)[0].content)
        at = 0 if parts[0].tag == _INTEGER else 1  # the version may be missing
        serial, issuer, subject = parts[at], parts[at + 2], parts[at + 4]
        names = [*_alternative_names(parts), *_common_names(subject.content)]
        return Certificate(
            issuer.whole, int.from_bytes(serial.content, "big"), tuple(dict.fromkeys(names)), sha256(der).hexdigest()
        )
    except (IndexError, ValueError) as error:
        raise CertificateError(f"a certificate of {len(der)} bytes cannot be read") from error


def read_expiry(der: bytes) -> int:
    """The end of a certificate's validity, in seconds since 1970. Raises `CertificateError`."""
    try:
        parts = _parts(_parts(_parts(der)[0].content)[0].content)
        at = 0 if parts[0].tag == _INTEGER else 1  # the version may be missing
        end = _parts(parts[at + 3].content)[1]
        digits = end.content.decode("ascii")
        if end.tag == _UTC_TIME:  # two digits of the year, from 1950 to 2049 (RFC 5280 section 4.1.2.5.1)
            digits = ("19" if digits >= "50" else "20") + digits
        return int(datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())
    except (IndexError, ValueError) as error:
        raise CertificateError(f"a certificate of {len(der)} bytes cannot be read") from error


def read_revoked(pem: bytes) -> Revoked:
    """Returns the certificates that the revocation lists in a file revoke. Raises `CertificateError`."""
    lists = from_pem(pem, "X509 CRL")
    if not lists:
        raise CertificateError("there is no revocation list in it")
    found: set[tuple[bytes, int]] = set()
    for der in lists:
        try:
            parts = _parts(_parts(_parts(der)[0].content)[0].content)
            at = 1 if parts[0].tag == _INTEGER else 0  # the version may be missing
            issuer, rest = parts[at + 1].whole, parts[at + 2 :]
            entries = next((part for part in rest if part.tag == _SEQUENCE), None)
            for entry in _parts(entries.content) if entries is not None else ():
                found.add((issuer, int.from_bytes(_parts(entry.content)[0].content, "big")))
        except (IndexError, ValueError) as error:
            raise CertificateError(f"a revocation list of {len(der)} bytes cannot be read") from error
    return frozenset(found)


def from_pem(pem: bytes, kind: str) -> list[bytes]:
    """Returns the blocks of one kind. Raises `CertificateError`."""
    found = []
    for block in pem.split(f"-----BEGIN {kind}-----".encode())[1:]:
        body, mark, _ = block.partition(f"-----END {kind}-----".encode())
        try:
            found.append(a2b_base64(body))
        except Base64Error as error:
            raise CertificateError(f"a {kind} cannot be read: {error}") from error
        if not mark:
            raise CertificateError(f"a {kind} has no end")
    return found


class _Part(NamedTuple):
    """One value of DER: `whole` with its tag and length."""

    tag: int
    content: bytes
    whole: bytes


def _parts(data: bytes) -> list[_Part]:
    """Split bytes into consecutive values. Raises `IndexError` or `ValueError` if they are not DER."""
    found, at = [], 0
    while at < len(data):
        tag, size, begin = data[at], data[at + 1], at + 2
        if size & 0x80:
            begin += size & 0x7F
            size = int.from_bytes(data[at + 2 : begin], "big")
        end = begin + size
        if end > len(data):
            raise ValueError("cut off")
        found.append(_Part(tag, data[begin:end], data[at:end]))
        at = end
    return found


def _common_names(subject: bytes) -> list[str]:
    pairs = [_parts(each.content) for group in _parts(subject) for each in _parts(group.content)]
    return [pair[1].content.decode(errors="replace") for pair in pairs if pair[0].content == _COMMON_NAME]


def _alternative_names(parts: list[_Part]) -> list[str]:
    names: list[str] = []
    for block in parts:
        for extension in _parts(_parts(block.content)[0].content) if block.tag == _EXTENSIONS else ():
            fields = _parts(extension.content)
            if fields[0].content == _ALTERNATIVE_NAMES:
                for name in _parts(_parts(fields[-1].content)[0].content):
                    if name.tag in _TEXT_NAMES:
                        names.append(name.content.decode(errors="replace"))
                    elif name.tag == _IP:
                        names.append(str(ip_address(name.content)))
    return names
