"""TLS options: the resulting contexts, and the error line that names the wrong file."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from strogoff.broker.listeners.tls import TlsError, check_depth, check_files, common_name, make_context, notices

from ...harness.listeners import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def refusal(settings: Any) -> str:
    with pytest.raises(TlsError) as error:
        make_context(settings)
    return str(error.value)


def encrypted(authority: Authority, password: bytes) -> str:
    path = authority.folder / "encrypted.pem"
    key = serialization.load_pem_private_key(Path(authority.keyfile).read_bytes(), None)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )
    )
    return str(path)


def test_versions_and_verification(authority: Authority) -> None:
    context = make_context(authority.settings(tls_versions=("tlsv1.2", "tlsv1.3")))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.maximum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode == ssl.CERT_NONE
    assert make_context(authority.settings(require_certificate=True)).verify_mode == ssl.CERT_REQUIRED
    only = make_context(authority.settings(tls_versions=("tlsv1.3",)))
    assert only.minimum_version == only.maximum_version == ssl.TLSVersion.TLSv1_3
    with_a_hole = make_context(authority.settings(tls_versions=("tlsv1.1", "tlsv1.3")))
    assert with_a_hole.options & ssl.OP_NO_TLSv1_2
    assert not with_a_hole.options & ssl.OP_NO_TLSv1_3
    assert refusal(authority.settings(tls_versions=())) == "tls_version: no version is given"


def test_key_files_that_other_users_can_read(authority: Authority) -> None:
    check_files(authority.cafile, authority.certfile, authority.keyfile)
    for cafile, certfile, keyfile, said in (
        (authority.cafile, authority.certfile, encrypted(authority, b"secret"), "the key is encrypted"),
        (authority.cafile, authority.certfile, authority.certfile, "not usable"),
        (authority.cafile, authority.keyfile, authority.keyfile, "not usable"),
        (authority.keyfile, authority.certfile, authority.keyfile, "no CERTIFICATE in it"),
        (authority.cafile, authority.certfile, "/nowhere", "No such file"),
    ):
        with pytest.raises(TlsError, match=said):
            check_files(cafile, certfile, keyfile)


def test_ciphers_and_curves(authority: Authority) -> None:
    chosen = make_context(authority.settings(ciphers="ECDHE-RSA-AES256-GCM-SHA384:TLS_AES_128_GCM_SHA256"))
    names = {cipher["name"] for cipher in chosen.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    assert names == {"ECDHE-RSA-AES256-GCM-SHA384"}
    make_context(authority.settings(ciphers="TLS_AES_128_GCM_SHA256"))
    assert refusal(authority.settings(ciphers="NONE-SUCH")) == "ciphers: OpenSSL knows none of these ciphers: NONE-SUCH"
    for curve in ("secp256r1", "secp384r1", "secp521r1"):
        make_context(authority.settings(eccs=(curve,)))
    assert refusal(authority.settings(eccs=("round",))) == "eccs: unknown curve round"
    assert notices(authority.settings(eccs=("secp384r1", "secp521r1"))) == [
        "eccs: only one curve can be offered, it is secp384r1"
    ]


def test_an_identity_needs_a_certificate(authority: Authority) -> None:
    assert notices(authority.settings(use_identity_as_username=True, require_certificate=True)) == []
    assert "no effect without require_certificate" in notices(authority.settings(use_identity_as_username=True))[0]


@pytest.mark.parametrize("option", ["cafile", "certfile", "keyfile", "crlfile"])
def test_missing_unreadable_and_wrong_files(authority: Authority, option: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    assert refusal(authority.settings(**{option: missing})) == f"{option}: {missing}: No such file or directory"
    assert refusal(authority.settings(**{option: str(tmp_path)})) == f"{option}: {tmp_path}: Is a directory"
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_bytes(b"\x30\x82")
    assert refusal(authority.settings(**{option: str(rubbish)})).startswith(f"{option}: {rubbish}: ")
    kind = "X509 CRL" if option == "crlfile" else "CERTIFICATE"
    rubbish.write_text(f"-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n")
    assert str(rubbish) in refusal(authority.settings(**{option: str(rubbish)}))


def test_options_that_are_not_set(authority: Authority) -> None:
    assert refusal(authority.settings(certfile="")) == "certfile is not set"
    assert refusal(authority.settings(keyfile="")) == "keyfile is not set"
    assert "needs a cafile" in refusal(authority.settings(cafile="", require_certificate=True))


def test_keys_that_do_not_fit(authority: Authority, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    authority.ca.issue_cert("example.org").private_key_pem.write_to_path(str(other))
    fits_not = f"keyfile: {other}: not the key of the certificate {authority.certfile}"
    assert refusal(authority.settings(keyfile=str(other))) == fits_not
    key = encrypted(authority, b"secret")
    make_context(authority.settings(keyfile=key, keypasswd="secret"))
    wrong = refusal(authority.settings(keyfile=key, keypasswd="wrong"))
    assert wrong == f"keypasswd: wrong password for the key {key}"
    unset = refusal(authority.settings(keyfile=key))
    assert unset == f"keyfile: {key}: the key is encrypted and keypasswd is not set"
    assert "keypasswd: " in refusal(authority.settings(keyfile=key, keypasswd="x" * 5000))


def test_psk_where_python_has_it(authority: Authority, tmp_path: Path) -> None:
    pskfile = tmp_path / "psk"
    settings = authority.settings(psk_support=True, pskfile=str(pskfile))
    if not getattr(ssl, "HAS_PSK", False):
        assert refusal(settings) == "psk_support = on needs Python 3.13 or newer"
        return
    assert refusal(settings) == f"pskfile: {pskfile}: No such file or directory"
    pskfile.write_text("client:xyz\n")
    assert refusal(settings) == f"pskfile: {pskfile}: line 1: the key is not hexadecimal"
    pskfile.write_text("client:00ff\n")
    make_context(settings)
    make_context(authority.settings(psk_support=True, pskfile=str(pskfile), certfile="", keyfile=""))


def test_names_in_certificates() -> None:
    subject = ((("organizationName", "o"),), (("commonName", "client-7"),))
    assert common_name({"subject": subject}) == "client-7"
    assert common_name({"subject": (*subject, (("commonName", "client-8"),))}) is None
    assert common_name({"subject": ((("commonName", "client-8"), ("commonName", "client-7")),)}) is None
    assert common_name({"subject": ((("commonName", ""),),)}) is None
    assert common_name({"subject": ((("organizationName", "o"),),)}) is None
    assert common_name({}) is None
    assert common_name(None) is None


class Peer:
    """A TLS peer with this number of certificates in its verified chain; None is a Python that does not tell."""

    def __init__(self, length: int | None) -> None:
        if length is not None:
            self.get_verified_chain = lambda: [b""] * length


def test_depth_counts_the_certificates_between_peer_and_anchor() -> None:
    def fits(length: int | None, depth: int) -> bool:
        return check_depth(Peer(length), depth)  # type: ignore[arg-type]

    assert fits(2, 0) and fits(3, 1) and fits(1, 0) and fits(None, 0)
    assert not fits(3, 0) and not fits(4, 1)
