"""Conventions of annotations: the keys, the markers of managed prefixes, the cleanup."""

from __future__ import annotations

import base64
import hashlib
import warnings
from collections.abc import Collection, Iterable
from typing import Any, cast

from kopf._front.objects.bodies import Body, BodyEssence
from kopf._front.objects.patches import Patch

KNOWN_PREFIX = "kopf.zalando.org"
MARKER = "kopf-managed"
MAX_PREFIX = 189


class CollisionEvadingConvention:
    """Keys of objects that inherit annotations from other objects of the same operator."""

    def mark_key(self, key: str, *, body: Body) -> str:
        """Returns the key for the object.

        Deployments copy their annotations to ReplicaSets, which therefore have different keys.
        """
        owners = body.get("metadata", {}).get("ownerReferences") or ()
        is_deployed = any(owner.get("kind") == "Deployment" for owner in owners)
        return f"{key}-ofDRS" if body.get("kind") == "ReplicaSet" and is_deployed else key


class StorageKeyFormingConvention(CollisionEvadingConvention):
    """Keys of annotations: the prefix, a slash, and a name of at most 63 characters.

    ``v1`` also writes and reads the older keys, where 63 characters included the prefix.
    """

    def __init__(
        self,
        *args: Any,
        prefix: str,
        v1: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not prefix:
            raise ValueError("Annotations storages must be prefixed: pass prefix=, such as 'my-operator.example.com'.")
        if len(prefix) > MAX_PREFIX:
            warnings.warn("The annotations prefix is too long. It can cause errors when PATCHing.",
                          stacklevel=3)
        self.prefix = prefix
        self.v1 = v1

    def make_keys(self, key: str, *, body: Body | None = None) -> Iterable[str]:
        """Returns all keys of the annotations, in the order of reading."""
        if body is not None:
            key = self.mark_key(key, body=body)
        v2 = self.make_v2_key(key)
        v1 = self.make_v1_key(key) if self.v1 else v2
        return [v2] if v1 == v2 else [v2, v1]

    def make_v1_key(self, key: str, max_length: int = 63) -> str:
        """Returns the older key, limited together with its prefix."""
        safe = self.make_safe_key(key)
        room = max_length - len(self.prefix) - 1
        if len(safe) > room:
            suffix = self.make_suffix(safe)
            safe = f"{safe[:room - len(suffix)]}{suffix}"
        return f"{self.prefix}/{safe}"

    def make_v2_key(self, key: str, max_length: int = 63) -> str:
        """Returns the key, whose name without the prefix is limited."""
        safe = self.make_safe_key(key)
        if len(key) > max_length:
            suffix = self.make_suffix(key)
            safe = f"{safe[:max_length - len(suffix)]}{suffix}"
        return f"{self.prefix}/{safe}"

    @staticmethod
    def make_safe_key(key: str) -> str:
        """Replaces the characters of ids that are invalid in annotations."""
        return key.replace("/", ".").replace("<", "_").replace(">", "_")

    def make_suffix(self, key: str) -> str:
        """Returns a hash of the key that makes a shortened name unique."""
        digest = hashlib.blake2b(key.encode("utf-8"), digest_size=4).digest()
        text = base64.b64encode(digest, altchars=b"-.").decode("ascii")
        return f"-{text}".rstrip("=-.")


class StorageKeyMarkingConvention:
    """Markers of the prefixes that belong to operators, so that other operators ignore them."""

    def _detect_marked_prefixes(self, keys: Collection[str]) -> Collection[str]:
        found: set[str] = set()
        for prefix, _, name in (key.partition("/") for key in keys if "/" in key):
            known = prefix == KNOWN_PREFIX or prefix.endswith(f".{KNOWN_PREFIX}")
            if name == MARKER or known:
                found.add(prefix)
        return frozenset(found)

    def _store_marker(self, prefix: str, patch: Patch, body: Body) -> None:
        key = f"{prefix}/{MARKER}"
        if prefix.startswith("kopf."):
            return
        if key not in body.metadata.annotations and key not in patch.metadata.annotations:
            patch.metadata.annotations[key] = "yes"


class StorageStanzaCleaner:
    """Removal of insignificant parts of essences."""

    @staticmethod
    def remove_annotations(essence: BodyEssence, keys_to_remove: Collection[str]) -> None:
        """Removes the annotations with these keys."""
        annotations = cast(dict[str, Any], essence.get("metadata", {})).get("annotations", {})
        for key in list(annotations):
            if key in keys_to_remove:
                del annotations[key]

    @staticmethod
    def remove_empty_stanzas(essence: BodyEssence) -> None:
        """Removes the empty labels, annotations, metadata and status."""
        raw = cast(dict[str, Any], essence)
        for name in ("annotations", "labels"):
            if name in raw.get("metadata", {}) and not raw["metadata"][name]:
                del raw["metadata"][name]
        for name in ("metadata", "status"):
            if name in raw and not raw[name]:
                del raw[name]
