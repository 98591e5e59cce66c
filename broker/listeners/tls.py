"""TLS of a listener: from its options to an `ssl.SSLContext`, with an error that names option and file.

Limits of Python's ssl module: only the first curve of `eccs` can be offered. Cipher names of TLS 1.3 have no effect;
its three ciphers are always on. The length of a chain (`depth`) is no option of the context, so it is checked after the
handshake (`check_depth`). TLS-PSK needs Python 3.13.
"""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ...configs import ListenerSettings
from .alerts import AlertingContext
from .psk import read_keys

_VERSIONS = {
    "tlsv1": ssl.TLSVersion.TLSv1,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}
_OFF = {
    "tlsv1": ssl.OP_NO_TLSv1,
    "tlsv1.1": ssl.OP_NO_TLSv1_1,
    "tlsv1.2": ssl.OP_NO_TLSv1_2,
    "tlsv1.3": ssl.OP_NO_TLSv1_3,
}
_CURVES = {"secp256r1": "prime256v1", "secp192r1": "prime192v1"}
"""Curves that OpenSSL knows under another name than Erlang."""


class TlsError(Exception):
    """The TLS options of a listener cannot be used. The text names the option and the file."""


class Reloading(Protocol):
    """A listener that can read its certificate, its key and its revocation list again."""

    @property
    def settings(self) -> ListenerSettings:
        """What the configuration says of it."""
        ...

    async def reload_tls(self) -> None:
        """Read them, for connections from now on. Raises `TlsError`; then the earlier ones stay in force."""
        ...


async def reload_each(listeners: Iterable[Reloading]) -> list[str]:
    """Let each listener read its files again. Returns a line for each listener that failed."""
    problems = []
    for listener in listeners:
        try:
            await listener.reload_tls()
        except TlsError as error:
            problems.append(f"{listener.settings.key}: {error}")
    return problems


def make_context(settings: ListenerSettings) -> ssl.SSLContext:
    """The server context of a listener; reads its files. Raises `TlsError`."""
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
    _set_versions(context, settings.tls_versions)
    if settings.ciphers:
        _set_ciphers(context, settings.ciphers)
    if settings.eccs:
        _set_curve(context, settings.eccs[0])
    if settings.psk_support:
        _set_psk(context, settings)
    if settings.certfile or not settings.psk_support:
        _load_certificate(context, settings)
    _load_authorities(context, settings)
    return context


def check_files(cafile: str, certfile: str, keyfile: str) -> None:
    """Check the files for a library that reads them itself and reports no reasons. Raises `TlsError`.

    An encrypted key is an error.
    """
    if b"ENCRYPTED" in _read(keyfile, "keyfile"):
        raise TlsError(f"keyfile: {keyfile}: the key is encrypted, which is not supported here")
    none = ListenerSettings(type="ssl", name="", host="", port=0)
    make_context(msgspec.structs.replace(none, cafile=cafile, certfile=certfile, keyfile=keyfile))


def notices(settings: ListenerSettings) -> list[str]:
    """Log lines for options that cannot be fulfilled completely."""
    found = []
    if len(settings.eccs) > 1:
        found.append(f"eccs: only one curve can be offered, it is {settings.eccs[0]}")
    if settings.uses_tls and settings.use_identity_as_username and not settings.require_certificate:
        found.append("use_identity_as_username has no effect without require_certificate = on")
    return found


def _set_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    chosen = [_VERSIONS[name] for name in _VERSIONS if name in names]
    if not chosen:
        raise TlsError("tls_version: no version is given")
    with warnings.catch_warnings():
        # the operator may choose old versions; OpenSSL may still refuse them at its security level
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = chosen[0]
        context.maximum_version = chosen[-1]
        for name, version in _VERSIONS.items():
            if name not in names and chosen[0] < version < chosen[-1]:
                context.options |= _OFF[name]


def _set_ciphers(context: ssl.SSLContext, text: str) -> None:
    names = [name for name in text.split(":") if not name.startswith("TLS_")]
    if not names:
        return
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise TlsError(f"ciphers: OpenSSL knows none of these ciphers: {text}") from None


def _set_curve(context: ssl.SSLContext, name: str) -> None:
    try:
        context.set_ecdh_curve(_CURVES.get(name, name))
    except (ValueError, ssl.SSLError):
        raise TlsError(f"eccs: unknown curve {name}") from None


def _set_psk(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    """Keys by identity. An unknown identity gets an empty key, which fails the handshake."""
    if not getattr(ssl, "HAS_PSK", False):
        raise TlsError("psk_support = on needs Python 3.13 or newer")
    text = _read(settings.pskfile, "pskfile").decode("utf-8", "replace")
    try:
        keys = read_keys(text, settings.pskfile_separator)
    except ValueError as error:
        raise TlsError(f"pskfile: {settings.pskfile}: {error}") from None
    context.set_psk_server_callback(  # type: ignore[attr-defined,unused-ignore]
        lambda identity: keys.get(identity or "", b""), settings.psk_identity_hint
    )
    if not settings.ciphers:
        _set_ciphers(context, "DEFAULT:PSK")


def _read(path: str, option: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TlsError(f"{option}: {path}: {error.strerror or error}") from None


def _load_certificate(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    for option, path in (("certfile", settings.certfile), ("keyfile", settings.keyfile)):
        if not path:
            raise TlsError(f"{option} is not set")
        if b"-----BEGIN " not in _read(path, option):
            raise TlsError(f"{option}: {path}: not a PEM file")
    asked = False

    def password() -> bytes:
        nonlocal asked
        asked = True
        return settings.keypasswd.encode()

    try:
        context.load_cert_chain(settings.certfile, settings.keyfile, password)
    except ssl.SSLError as error:
        if asked and not settings.keypasswd:
            raise TlsError(f"keyfile: {settings.keyfile}: the key is encrypted and keypasswd is not set") from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(f"keyfile: {settings.keyfile}: not the key of the certificate {settings.certfile}") from None
        if asked:
            raise TlsError(f"keypasswd: wrong password for the key {settings.keyfile}") from None
        said = error.reason or str(error)
        raise TlsError(f"certfile {settings.certfile}, keyfile {settings.keyfile}: not usable: {said}") from None
    except ValueError as error:
        raise TlsError(f"keypasswd: {error}") from None


def _load_authorities(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    if not settings.require_certificate:
        context.verify_mode = ssl.CERT_NONE
    elif not settings.cafile:
        raise TlsError("require_certificate = on needs a cafile")
    else:
        context.verify_mode = ssl.CERT_REQUIRED
    if settings.cafile:
        _load_trusted(context, settings.cafile, "cafile")
    if settings.crlfile:
        _load_trusted(context, settings.crlfile, "crlfile")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_trusted(context: ssl.SSLContext, path: str, option: str) -> None:
    kind = b"X509 CRL" if option == "crlfile" else b"CERTIFICATE"
    if b"-----BEGIN " + kind not in _read(path, option):
        raise TlsError(f"{option}: {path}: no {kind.decode()} in it")
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise TlsError(f"{option}: {path}: not usable: {error.reason or error}") from None


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The common name of a verified certificate's subject; None unless there is exactly one."""
    subject = (certificate or {}).get("subject", ())
    found = [value for relative_name in subject for key, value in relative_name if key == "commonName"]
    return found[0] or None if len(found) == 1 else None


def chain_length(peer: ssl.SSLObject) -> int | None:
    """Number of certificates from the peer's to the trust anchor, both counted; None if Python does not provide it."""
    verified = getattr(peer, "get_verified_chain", None)
    if verified is None:
        # public since Python 3.13; there before, one level down
        verified = getattr(getattr(peer, "_sslobj", None), "get_verified_chain", None)
    return None if verified is None else len(verified())


def check_depth(peer: ssl.SSLObject, depth: int) -> bool:
    """Whether at most `depth` certificates are between the peer's and the trust anchor.

    This is checked after the handshake, so a client of TLS 1.3 sees a connection that is closed at once.
    """
    length = chain_length(peer)
    return length is None or length - 2 <= depth


def facts(peer: ssl.SSLObject, settings: ListenerSettings) -> dict[str, Any]:
    """The TLS facts of a peer, as in `ConnectionOrigin.tls`; the name only from a verified certificate."""
    cipher = peer.cipher()
    return {
        "version": peer.version(),
        "cipher": cipher[0] if cipher else None,
        "subject": common_name(peer.getpeercert()) if settings.require_certificate else None,
        "certificate": peer.getpeercert(True) if settings.forward_connection_opts else None,
    }
