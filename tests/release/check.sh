#!/usr/bin/env bash
# Checks a release without publishing it: the changelog, the metadata, and the packages of all crates in the order of
# publishing; also the public API, if cargo-semver-checks is installed and a release exists.
# Usage: tests/release/check.sh [CRATE…]; all published crates by default
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# Packages are compiled as libraries; k8s-openapi requires programs to select the version of Kubernetes.
export K8S_OPENAPI_ENABLED_VERSION="${K8S_OPENAPI_ENABLED_VERSION:-1.37}"
version="$(sed -n 's/^version = "\([0-9.]*\)".*/\1/p' Cargo.toml | head -n1)"

echo "release: the changelog" >&2
python3 tests/release/changelog.py CHANGELOG.md "$version"

echo "release: the order of publishing" >&2
order="$(cargo metadata --no-deps --format-version 1 | python3 tests/release/order.py "$@")"
mapfile -t crates <<<"$order"
printf '  %s\n' "${crates[@]}" >&2

# A single call packages all crates, so that unpublished ones can depend on each other.
echo "release: packaging (a dry run that compiles all crates: a few minutes)" >&2
dirty=()
if [ -n "$(git status --porcelain)" ]; then
    echo "release: the tree has uncommitted changes" >&2
    dirty=(--allow-dirty)
fi
# cargo recognises packages by their versions, so it would compile those of an earlier run.
target="${CARGO_TARGET_DIR:-target}/release-check"
rm -rf "$target"
for crate in "${crates[@]}"; do
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/"$crate-$version"
done
cargo package --quiet --target-dir "$target" "${dirty[@]}" "${crates[@]/#/--package=}"

if command -v cargo-semver-checks >/dev/null && git describe --tags --abbrev=0 >/dev/null 2>&1; then
    echo "release: the public API against $(git describe --tags --abbrev=0)" >&2
    cargo semver-checks --baseline-rev "$(git describe --tags --abbrev=0)" --package kopf
else
    echo "release: skipping the public API: no release exists, or cargo-semver-checks is not installed" >&2
fi
echo "release: $version can be published with 'cargo publish' in this order" >&2
