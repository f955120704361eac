#!/usr/bin/env bash
# Checks the features of the crates, each alone and all together, and the oldest supported version of Rust.
# Usage: tests/release/features.sh [CRATE…]; all published crates by default
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
oldest="$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)"
# k8s-openapi requires programs to select the version of Kubernetes. This is the one of the feature `latest`.
export K8S_OPENAPI_ENABLED_VERSION="${K8S_OPENAPI_ENABLED_VERSION:-1.37}"

list() {
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] == [] or package["name"] not in sys.argv[1:] and sys.argv[1:]:
        continue
    features = sorted(set(package["features"]) - {"default"})
    print(package["name"], *features)
' "$@"
}

check() { # CRATE FEATURES…
    local crate="$1"
    shift
    echo "features: $crate with ${*:-none}" >&2
    cargo check --quiet --package "$crate" --no-default-features --features "$*"
}

list "$@" | while read -r crate features; do
    check "$crate"
    for feature in $features; do check "$crate" "$feature"; done
    # shellcheck disable=SC2086
    if [ -n "$features" ]; then check "$crate" $features; fi
done

echo "features: kopf with the oldest types of Kubernetes" >&2
K8S_OPENAPI_ENABLED_VERSION=1.33 cargo check --quiet --package kopf

if rustup toolchain list 2>/dev/null | grep -q "^$oldest"; then
    echo "features: Rust $oldest" >&2
    cargo "+$oldest" check --quiet --workspace
else
    echo "error: Rust $oldest is not installed: run 'rustup toolchain install $oldest --profile minimal'" >&2
    exit 1
fi
