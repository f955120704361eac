"""Identities of operators in peering."""

from __future__ import annotations

import datetime
import getpass
import os
import random
import socket
from typing import NewType

Identity = NewType("Identity", str)
"""A unique name of an operator's process, e.g. ``user@host/20201231235959/abc``."""

ALPHABET = "abcdefhijklmnopqrstuvwxyz0123456789"


def detect_own_id(*, manual: bool) -> Identity:
    """Returns the identity of this process: ``$POD_ID``, or the user and the host.

    Unless it is for a manual command, a timestamp and a random suffix make it unique.
    """
    pod = os.environ.get("POD_ID")
    if pod is not None:
        return Identity(pod)
    identity = f"{_get_user()}@{get_descriptive_hostname()}"
    if manual:
        return Identity(identity)
    now = datetime.datetime.now(datetime.timezone.utc)
    suffix = "".join(random.choices(ALPHABET, k=3))
    return Identity(f"{identity}/{now:%Y%m%d%H%M%S}/{suffix}")


def get_descriptive_hostname() -> str:
    """Returns the most descriptive name of this host, preferably a qualified one."""
    hostname = socket.gethostname()
    try:
        found, aliases, _ = socket.gethostbyaddr(hostname)
    except OSError:
        found, aliases = hostname, []
    names = [hostname, found, *aliases]
    candidates = [name for name in names if not _is_address(name)]
    qualified = [remove_useless_suffixes(name) for name in candidates]
    return max(qualified, key=lambda name: ("." in name, len(name))) if qualified else hostname


def remove_useless_suffixes(hostname: str) -> str:
    """Removes the suffixes of local networks."""
    for suffix in (".local", ".localdomain"):
        while hostname.endswith(suffix):
            hostname = hostname.removesuffix(suffix)
    return hostname


def _get_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _is_address(name: str) -> bool:
    return name.endswith(".arpa") or ":" in name or name.replace(".", "").isdigit()
