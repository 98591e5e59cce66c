"""Files for the tests: a vernemq.conf from a text, and certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from strogoff import configs


@pytest.fixture
def conf(tmp_path: Path) -> Callable[[str], configs.Settings]:
    """Loads a text as vernemq.conf."""

    def load(text: str) -> configs.Settings:
        path = tmp_path / "vernemq.conf"
        path.write_text(text, encoding="utf-8")
        return configs.load(path)

    return load


@pytest.fixture
def complaint(tmp_path: Path) -> Callable[[str], str]:
    """Loads a text that is wrong and returns the whole error, the path left out."""

    def load(text: str) -> str:
        path = tmp_path / "vernemq.conf"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(configs.ConfigError) as caught:
            configs.load(path)
        return str(caught.value).replace(str(tmp_path), "ETC")

    return load


@pytest.fixture(scope="session")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with cert.pem, key.pem and ca.pem."""
    directory = tmp_path_factory.mktemp("pem")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    certificate.private_key_pem.write_to_path(directory / "key.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    return directory
