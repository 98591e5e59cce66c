"""Which values are hidden."""

from __future__ import annotations

import pytest

from strogoff.configs.schema import schema
from strogoff.configs.secret_keys import is_secret, names_a_secret

SECRETS = {
    "api_key",
    "distributed_cookie",
    "keyfile_password",
    "keypasswd",
    "mgmt_api.key",
    "obfuscation_secret",
    "password",
    "psk",
    "secret_key",
    "user_pwd",
}


def test_the_secrets_among_all_keys() -> None:
    """No key with another last word is one: `vmq-admin show` must say which password file counts."""
    found = {name for name in schema().keys if is_secret(name)}
    assert {name for name in found if not name.endswith(tuple(SECRETS))} == set()
    assert {word for word in SECRETS if not any(name.endswith(word) for name in found)} == set()


@pytest.mark.parametrize(
    "key",
    [
        "plugins.vmq_passwd",
        "vmq_passwd.password_file",
        "vmq_passwd.password_reload_interval",
        "vmq_diversity.mysql.password_hash_method",
        "cluster.allow_default_cookie",
        "queue_type",
    ],
)
def test_no_secret(key: str) -> None:
    assert not is_secret(key)
    assert not names_a_secret(f"{key} x")


@pytest.mark.parametrize(
    "line", ["distributed_cookie : x", "listener.ssl.a.keypasswd x", '"distributed_cookie" = x', "distributd_cookie:x"]
)
def test_a_line_that_may_hold_a_secret(line: str) -> None:
    assert names_a_secret(line)
