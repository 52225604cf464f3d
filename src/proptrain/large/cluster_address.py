"""Whether a Ray cluster answers at an address, asked without Ray."""

from __future__ import annotations

import os
import socket
import time
from ipaddress import ip_address

from proptrain.errors import ClusterError, InvalidInputError

REACH_SECONDS = 5.0
"""How long to wait for an answer."""
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""What a client of HTTP/2 says first, with a frame of no settings."""
_FRAME_TYPE, _SETTINGS = 3, b"\4"
"""Where the type of a frame stands, and that of settings."""


def check_answers(address: str) -> None:
    """Raise soon unless a cluster's head is there; Ray itself would try for long."""
    if address.startswith("ray://"):
        raise InvalidInputError(
            f"The address must be host:port of a cluster's head, or auto; got {address!r}. From "
            "outside of a cluster have it run the command: ray job submit -- proptrain fit …"
        )
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):
        raise InvalidInputError(
            f"The address must be host:port of a cluster's head, or auto; got {address!r}."
        )
    try:
        with socket.create_connection((host, int(port)), REACH_SECONDS) as there:
            said = _greeted(there)
    except (OSError, UnicodeError, OverflowError) as error:  # the last two: no name, no port
        why = getattr(error, "strerror", None) or error
        raise ClusterError(
            f"No Ray cluster answers at {address}: {why}. Start one with ray "
            "start --head, or give the address that it printed."
        ) from error
    if said is not None and said[_FRAME_TYPE : _FRAME_TYPE + 1] != _SETTINGS:
        raise ClusterError(
            f"What listens at {address} must be a Ray cluster, but it "
            f"{'speaks otherwise' if said else 'said nothing when it was spoken to'}. "
            "Give the address that ray start --head printed (its port is 6379 unless told "
            "otherwise, not the dashboard's), or start a cluster with that."
        )


def _greeted(there: socket.socket) -> bytes | None:
    """Return the head of the first frame that is said to an HTTP/2 greeting, or what there is.

    Ray's services speak gRPC, so HTTP/2, in which both sides begin with a frame of settings
    (RFC 9113, 3.4). None if Ray was told to use TLS, by which it would be another greeting.
    """
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return None
    end, said = time.monotonic() + REACH_SECONDS, b""
    try:
        there.sendall(_GREETING)
        while len(said) <= _FRAME_TYPE and (left := end - time.monotonic()) > 0:
            there.settimeout(left)
            if not (more := there.recv(_FRAME_TYPE + 1)):
                break
            said += more
    except OSError:  # nothing more in time, or hung up
        pass
    return said


def is_same_address(one: str, other: str) -> bool:
    """Tell whether two addresses are of one cluster: the same port of the same machine.

    A head has many names, so it is what they stand for that is compared. What stands for this
    machine alone is taken for any: who is connected to a cluster runs on one of its machines.

    >>> is_same_address("localhost:6379", "10.0.0.1:6379"), is_same_address("::1:1", "::1:2")
    (True, False)
    """
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    if port != other_port:
        return False
    found, others = _stands_for(host), _stands_for(other_host)
    return bool(found & others) or any(ip_address(ip).is_loopback for ip in found | others)


def _stands_for(host: str) -> set[str]:
    """Return the IP addresses of a host; none if nobody knows it."""
    try:
        return {str(told[4][0]) for told in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return set()
