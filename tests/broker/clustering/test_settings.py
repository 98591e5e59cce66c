"""The settings of vernemq.conf about the links between nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff.broker.clustering.settings import ClusterLinks, cluster_links
from strogoff.cluster.transport.wire import TransportError
from strogoff.configs import ConfigError, load

COOKIE = "distributed_cookie = 5f0c"


def links_of(tmp_path: Path, *lines: str, cookie: str = COOKIE) -> tuple[ClusterLinks | None, list[str]]:
    conf = tmp_path / "vernemq.conf"
    conf.write_text("\n".join([*lines, cookie]))
    said: list[str] = []
    return cluster_links(load(conf), lambda level, text: said.append(f"{level}: {text}")), said


def certain(found: tuple[ClusterLinks | None, list[str]]) -> ClusterLinks:
    links, said = found
    assert links is not None
    assert said == []
    return links


def test_without_a_cluster_listener_the_node_stays_alone(tmp_path: Path) -> None:
    assert links_of(tmp_path, "listener.tcp.default = 127.0.0.1:1883") == (None, [])


def test_a_specific_listener_address_is_advertised(tmp_path: Path) -> None:
    links = certain(links_of(tmp_path, "nodename = n1@broker.example", "listener.vmq.clustering = 10.0.0.1:44053"))
    assert (links.listen, links.host, links.tls) == ("10.0.0.1:44053", "10.0.0.1", None)
    assert not links.discovery.wanted


def test_a_wildcard_listener_advertises_the_host_of_the_node_name(tmp_path: Path) -> None:
    links = certain(links_of(tmp_path, "nodename = n1@broker.example", "listener.vmq.clustering = 0.0.0.0:44053"))
    assert (links.listen, links.host) == ("0.0.0.0:44053", "broker.example")


def test_the_advertised_address_can_be_configured(tmp_path: Path) -> None:
    lines = ("nodename = n1@here", "cluster.address = there.example", "listener.vmq.clustering = 0.0.0.0:44053")
    assert certain(links_of(tmp_path, *lines)).host == "there.example"


@pytest.mark.parametrize(("given", "host"), [("[::1]:44053", "::1"), ("[::]:44053", "broker.example")])
def test_ipv6(tmp_path: Path, given: str, host: str) -> None:
    links = certain(links_of(tmp_path, "nodename = n1@broker.example", f"listener.vmq.clustering = {given}"))
    assert (links.listen, links.host) == (given, host)


@pytest.mark.parametrize("cookie", ["", "distributed_cookie = vmq"])
@pytest.mark.parametrize("address", ["10.0.0.1:44053", "0.0.0.0:44053", "[::]:44053"])
def test_a_reachable_port_does_not_open_with_the_default_cookie(tmp_path: Path, address: str, cookie: str) -> None:
    """The error names the line, the reason, and both remedies."""
    with pytest.raises(TransportError) as caught:
        links_of(tmp_path, f"listener.vmq.clustering = {address}", cookie=cookie)
    said = str(caught.value)
    assert said.startswith(f"listener.vmq.clustering = {address} can be reached from other machines")
    assert "distributed_cookie" in said and "cluster.allow_default_cookie = on" in said


@pytest.mark.parametrize("address", ["127.0.0.1:44053", "127.9.9.9:44053", "[::1]:44053"])
def test_a_loopback_port_opens_with_the_default_cookie(tmp_path: Path, address: str) -> None:
    assert certain(links_of(tmp_path, f"listener.vmq.clustering = {address}", cookie="")).cookie == "vmq"


def test_an_operator_can_allow_the_default_cookie_and_is_warned(tmp_path: Path) -> None:
    lines = ("listener.vmq.clustering = 10.0.0.1:44053", "cluster.allow_default_cookie = on")
    links, said = links_of(tmp_path, *lines, cookie="")
    assert links is not None and links.cookie == "vmq"
    assert len(said) == 1 and "everybody who reaches this port can act as a node" in said[0]


def test_certificates_with_the_default_cookie_give_a_warning(tmp_path: Path) -> None:
    """The authority of the nodes may also sign certificates of clients."""
    lines = ("listener.vmqs.clustering = 10.0.0.1:44053", *_certificates(tmp_path))
    links, said = links_of(tmp_path, *lines, cookie="")
    assert links is not None
    assert len(said) == 1 and "everybody with a certificate of its cafile can act as a node" in said[0]


def test_the_cookie_comes_from_the_configuration(tmp_path: Path) -> None:
    assert certain(links_of(tmp_path, "listener.vmq.clustering = 10.0.0.1:44053")).cookie == "5f0c"


def _certificates(tmp_path: Path) -> list[str]:
    lines = []
    for option, mark in (("cafile", "CERTIFICATE"), ("certfile", "CERTIFICATE"), ("keyfile", "PRIVATE KEY")):
        path = tmp_path / option
        path.write_text(f"-----BEGIN {mark}-----\n-----END {mark}-----\n")
        lines.append(f"listener.vmqs.clustering.{option} = {path}")
    return lines


def test_a_listener_with_certificates_is_preferred(tmp_path: Path) -> None:
    links = certain(
        links_of(
            tmp_path,
            "listener.vmq.clustering = 127.0.0.1:44053",
            "listener.vmqs.clustering = 127.0.0.1:44054",
            *_certificates(tmp_path),
        )
    )
    assert links.listen == "127.0.0.1:44054"
    assert links.tls is not None
    assert [path.name for path in (links.tls.cafile, links.tls.certfile, links.tls.keyfile)] == [
        "cafile",
        "certfile",
        "keyfile",
    ]


def test_certificates_are_valid_for_the_address_or_for_one_name(tmp_path: Path) -> None:
    lines = ("listener.vmqs.clustering = 10.0.0.1:44053", *_certificates(tmp_path))
    for more, name in (((), ""), (("cluster.certificate_name = nodes.mqtt.example",), "nodes.mqtt.example")):
        links = certain(links_of(tmp_path, *lines, *more))
        assert links.tls is not None and links.tls.name == name


def test_tls_options_without_effect_between_nodes_give_a_notice(tmp_path: Path) -> None:
    """Before, these options were accepted without a notice: a revoked certificate opened the cluster."""
    conf = tmp_path / "vernemq.conf"
    options = {"keypasswd": "x", "depth": 0, "ciphers": "AES256-SHA"}
    conf.write_text("\n".join([f"listener.vmqs.clustering.{name} = {value}" for name, value in options.items()]))
    notices = load(conf).notices
    for name in options:
        said = f"listener.vmqs.clustering.{name} is not implemented in this version and does nothing"
        assert any(notice.endswith(said) for notice in notices), name


def test_buffer_sizes_and_discovery_addresses_are_read(tmp_path: Path) -> None:
    links = certain(
        links_of(
            tmp_path,
            "listener.vmq.clustering = 127.0.0.1:44053",
            "outgoing_clustering_buffer_size = 10000000",
            "incoming_clustering_buffer_size = 2097152",
            "discovery.nodes = n1@10.0.0.1, 10.0.0.2:7000  [::1]:7001",
        )
    )
    assert (links.settings.links.buffer_bytes, links.settings.links.max_frame_bytes) == (10_000_000, 2 << 20)
    assert links.discovery.nodes == ("n1@10.0.0.1", "10.0.0.2:7000", "[::1]:7001")


def test_a_frame_limit_that_nodes_cannot_work_with_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="an integer, 2097152 or more"):
        links_of(tmp_path, "incoming_clustering_buffer_size = 2097151")


def test_the_zone_of_the_node_is_read(tmp_path: Path) -> None:
    listener = "listener.vmq.clustering = 127.0.0.1:44053"
    assert certain(links_of(tmp_path, listener, "node.zone = rack 1")).settings.zone == "rack 1"
    assert certain(links_of(tmp_path, listener)).settings.zone == ""


def test_a_vmqs_listener_without_certificates_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a TLS listener needs a certificate"):
        links_of(tmp_path, "listener.vmqs.clustering = 127.0.0.1:44054")


def test_a_vmqs_listener_needs_a_cafile(tmp_path: Path) -> None:
    lines = [line for line in _certificates(tmp_path) if "cafile" not in line]
    with pytest.raises(TransportError, match=r"listener\.vmqs\.clustering has no cafile: nodes must show"):
        links_of(tmp_path, "listener.vmqs.clustering = 127.0.0.1:44054", *lines)


def test_an_unusable_vmqs_listener_beside_a_vmq_listener_gives_a_warning(tmp_path: Path) -> None:
    lines = [line for line in _certificates(tmp_path) if "cafile" not in line]
    links, said = links_of(
        tmp_path, "listener.vmq.clustering = 127.0.0.1:44053", "listener.vmqs.clustering = 127.0.0.1:44054", *lines
    )
    assert links is not None
    assert (links.listen, links.tls) == ("127.0.0.1:44053", None)
    assert len(said) == 1
    assert "listener.vmq.clustering is used" in said[0]
