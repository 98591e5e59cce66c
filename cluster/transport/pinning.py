"""Checks the certificate of an address before gRPC connects there.

gRPC verifies authority, date and host name, but does not show the certificate to a dialer. So this module opens a
connection first and checks the certificate. Then it makes gRPC trust only this certificate.
"""

from __future__ import annotations

import asyncio
import ssl

from .grpc_settings import Tls
from .wire import TransportError


async def trusted(address: str, tls: Tls, within_s: float) -> bytes:
    """Returns the certificate that gRPC may trust at an address, as PEM. Raises `TransportError` if it does not belong
    to a node."""
    rules = tls.rules()
    if not rules.names and not rules.fingerprints and tls.crlfile is None:
        return tls.authorities()
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        context = ssl.create_default_context(cafile=str(tls.cafile))
        context.load_cert_chain(tls.certfile, tls.keyfile)
        context.set_alpn_protocols(["h2"])
        async with asyncio.timeout(within_s):
            _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=tls.name or host)
    except TimeoutError:
        raise TransportError(f"no answer from {address} in {within_s:g} s") from None
    except (OSError, ValueError) as error:
        raise TransportError(f"cannot connect to {address} with TLS, as listener.vmqs does: {error}") from error
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    if problem := rules.objection(shown):
        raise TransportError(f"{address} is not accepted as a node: {problem}")
    return ssl.DER_cert_to_PEM_cert(shown).encode()
