#!/usr/bin/env bash
# Builds e2e.test, Kubernetes' end-to-end suite, from its published Go module, once, into a cache outside of
# the source tree.
# The only line of stdout is the folder of the programs; messages go to stderr.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}/conformance"
mkdir -p "$cache"
cache="$(cd "$cache" && pwd)"
cd "$here"

say() { echo "conformance: $*" >&2; }
die() { say "$*"; exit 1; }

k8s_version="$(sed -nE 's|^\tk8s\.io/kubernetes (v[0-9.]+).*|\1|p' go.mod)"
go_needed="$(sed -nE 's|^go ([0-9.]+).*|\1|p' go.mod)"
[ -n "$k8s_version" ] && [ -n "$go_needed" ] ||
    die "cannot read the versions of Kubernetes and Go in $here/go.mod"

# The name of the folder contains a hash of all inputs, so that changes build a new one.
inputs="$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)"
target="$cache/$k8s_version-$inputs"
# The folder is created by a rename after the build: if it exists, it is complete.
if [ -d "$target/bin" ]; then
    echo "$target/bin"
    exit 0
fi

install_hint="Install Go $go_needed or newer (https://go.dev/doc/install) and put 'go' on PATH."
command -v go >/dev/null || die "'go' is not found. $install_hint"
export GOTOOLCHAIN=local
go_version="$(cd / && go env GOVERSION)"
go_version="${go_version#go}"
go_version="${go_version%% *}"
if [ "$(printf '%s\n%s\n' "$go_needed" "$go_version" | sort -V | head -n1)" != "$go_needed" ]; then
    die "Go $go_version is too old: $here/go.mod needs $go_needed. $install_hint"
fi

export CGO_ENABLED=0
export GOFLAGS="-buildvcs=false -mod=readonly"
export GOWORK=off

# The suite compares its own version with that of the server.
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ldflags+=" -X $package.gitVersion=$k8s_version"
done

work="$(mktemp -d "$cache/.building.XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/bin"

say "Kubernetes' tests ($k8s_version) are built once into $target"
say "downloading the modules"
go mod download >&2 || die "cannot download the Go modules (see above)"
say "building e2e.test… this takes about ten minutes on two cores, once"
go test -c -vet=off -trimpath -ldflags "$ldflags" -o "$work/bin/e2e.test" k8s.io/kubernetes/test/e2e >&2 ||
    die "cannot build e2e.test (see above)"

if ! mv -T "$work" "$target" 2>/dev/null; then
    [ -d "$target/bin" ] || die "cannot move the programs to $target"
fi
say "built in $SECONDS seconds"
echo "$target/bin"
