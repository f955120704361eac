#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-controller-manager and kubectl from their
# published Go modules, once, into a cache outside of the source tree.
# The last (and only) line of stdout is the folder of the binaries;
# everything for people goes to stderr.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}/control-plane"
mkdir -p "$cache"
cache="$(cd "$cache" && pwd)"
cd "$here"

say() { echo "control-plane: $*" >&2; }
die() { say "$*"; exit 1; }

k8s_version="$(sed -nE 's|^\tk8s\.io/kubernetes (v[0-9.]+).*|\1|p' go.mod)"
go_needed="$(sed -nE 's|^go ([0-9.]+).*|\1|p' go.mod)"
[ -n "$k8s_version" ] && [ -n "$go_needed" ] ||
    die "cannot read the versions of Kubernetes and Go in $here/go.mod"

# Everything that decides what comes out is in the name of the cache folder,
# so a change of any of it builds anew and never overwrites what runs.
# Other programs of this module, such as the recorder of types, are no inputs of these binaries.
inputs="$(cat go.mod go.sum build.sh cmd/{etcd,kube-apiserver,kube-controller-manager,kubectl}/main.go \
    | sha256sum | cut -c1-12)"
target="$cache/$k8s_version-$inputs"
# The API server is the first: it has most of the packages which the others
# share, so the time to wait is mostly its time, and is announced with it.
binaries=(kube-apiserver kube-controller-manager kubectl etcd)

# The folder appears by one rename when all four are built, so if it exists,
# it is complete, and it is usable without Go.
if [ -d "$target/bin" ]; then
    echo "$target/bin"
    exit 0
fi

install_hint="Install Go $go_needed or newer (https://go.dev/doc/install) and put 'go' on PATH."
command -v go >/dev/null || die "'go' is not found. $install_hint"
# Never a download of another toolchain: the version is either enough or not.
export GOTOOLCHAIN=local
# The query is made outside of the module: in it, a too old Go only complains.
go_version="$(cd / && go env GOVERSION)"
go_version="${go_version#go}"
go_version="${go_version%% *}"
if [ "$(printf '%s\n%s\n' "$go_needed" "$go_version" | sort -V | head -n1)" != "$go_needed" ]; then
    die "Go $go_version is too old: $here/go.mod needs $go_needed. $install_hint"
fi

export CGO_ENABLED=0
export GOFLAGS="-buildvcs=false -mod=readonly"
export GOWORK=off

# /version, "kubectl version" and the user agents report these. They are facts
# of a checkout, so the modules do not have them, and say "v0.0.0-master".
minor="${k8s_version#v1.}"
minor="${minor%%.*}"
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ldflags+=" -X $package.gitVersion=$k8s_version"
    ldflags+=" -X $package.gitMajor=1 -X $package.gitMinor=$minor"
    ldflags+=" -X $package.gitTreeState=clean -X $package.gitCommit="
done

work="$(mktemp -d "$cache/.building.XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/bin"

say "Kubernetes $k8s_version is built once into $target"
say "downloading the modules"
go mod download >&2 || die "the Go modules cannot be downloaded (see above)"

# The garbage collector looks for new kinds every 30 seconds, and no flag
# changes that: a test which makes its own CRD would wait that long until its
# objects are collected. So Kubernetes is compiled from a copy of its module in
# which this one number is different. (Go's overlays would do it without a copy,
# but they are not allowed for downloaded modules.)
gc_file="cmd/kube-controller-manager/app/core.go"
gc_before="c.Sync(ctx, c.discoveryClient, syncPeriod)"
gc_after="c.Sync(ctx, c.discoveryClient, time.Second)"
cp -r --no-preserve=mode "$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)" "$work/kubernetes"
[ "$(grep -cF "$gc_before" "$work/kubernetes/$gc_file")" = 1 ] ||
    die "$gc_file of Kubernetes $k8s_version is not as expected: correct gc_before in build.sh"
sed -i "s/$gc_before/$gc_after/" "$work/kubernetes/$gc_file"
cp go.mod go.sum "$work"
go mod edit -replace="k8s.io/kubernetes=$work/kubernetes" "$work/go.mod"

number=0
for name in "${binaries[@]}"; do
    number=$((number + 1))
    note=""
    [ "$number" = 1 ] && note="… this takes some ten minutes on two cores, once"
    say "building $name ($number/${#binaries[@]})$note"
    go build -modfile="$work/go.mod" -trimpath -ldflags "$ldflags" -o "$work/bin/$name" "./cmd/$name" >&2 ||
        die "$name cannot be built (see above)"
done
rm -r "$work/kubernetes" "$work/go.mod" "$work/go.sum"

# When two builds run at once, the first to finish wins, and the other's
# result is the same. "mv -T" refuses to replace a folder with content.
if ! mv -T "$work" "$target" 2>/dev/null; then
    [ -d "$target/bin" ] || die "cannot move the binaries to $target"
fi
say "built in $SECONDS seconds"
echo "$target/bin"
