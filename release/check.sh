#!/usr/bin/env bash
# Proves the files of dist/, each by using it as its users do: see `parts` below.
# Usage: release/check.sh [PART…]; all parts by default
# Files of other architectures run under qemu (qemu-user-static) if it is installed; they are only inspected otherwise.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
source release/containers.sh
parts=(papers checksums sbom python sdist programs images projects crates)

# The changelog and the metadata of registries.
check_papers() {
    python3 release/changelog.py CHANGELOG.md "$version"
    python3 release/address.py
    cargo metadata --no-deps --format-version 1 | python3 release/order.py >/dev/null
}

# All files are intact, and none is missing from the list.
check_checksums() {
    (cd "$dist" && sha256sum --quiet --check SHA256SUMS)
    diff <(cd "$dist" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort) \
        <(cut -c67- "$dist/SHA256SUMS") || die "SHA256SUMS does not list the files of $dist"
}

check_sbom() {
    "$tools/bin/python" release/check_sbom.py "$dist"/sbom/*.json
}

# Wheels: size, content, and an operator on a sandbox in a new environment of each installed Python.
check_python() {
    local wheel name arch
    for wheel in "$dist"/python/*.whl; do
        inspect_wheel "$wheel"
    done
    wheel="$(ls "$dist"/python/*-manylinux*_"$this_arch".whl)"
    for name in python3.11 python3.12 python3.13 python3.14; do
        if "$name" --version >/dev/null 2>&1; then
            try_wheel "$name" "$wheel"
        else
            say "$name is not installed: skipped"
        fi
    done
    for wheel in "$dist"/python/*-manylinux*.whl; do
        # One of several tags; all of them end with it.
        arch="$(grep --only-matching --extended-regexp '(x86_64|aarch64)\.whl$' <<<"$wheel")"
        arch="${arch%.whl}"
        [ "$arch" = "$this_arch" ] || try_foreign_wheel "$arch" "$wheel"
    done
}

inspect_wheel() { # WHEEL
    # 13 MB are expected: see docs/start/installation.md.
    local bytes files max=$((14 * 1000 * 1000))
    bytes="$(stat -c %s "$1")"
    [ "$bytes" -le "$max" ] || die "$1 has $bytes bytes, more than $max"
    # The whole list is read: a closed pipe would be an error of zipfile.
    files="$(python3 -m zipfile -l "$1")"
    grep -q THIRD-PARTY <<<"$files" || die "$1: the licence texts of linked crates are missing"
    grep -q kopf/_core/actions/execution.pyi <<<"$files" || die "$1: the stubs of historical paths are missing"
    if [[ "$1" == *musllinux* ]]; then
        python3 -m zipfile -e "$1" "$work/musl"
        if grep -q GLIBC_ "$work"/musl/kopf/*.so; then die "$1 needs glibc"; fi
        rm -rf "$work/musl"
    fi
    say "$(basename "$1"): $bytes bytes"
}

try_wheel() { # PYTHON WHEEL
    local venv="$work/try-$1"
    "$1" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$2"
    # From another folder: the sources of the package must not be imported.
    (cd "$work" && "$venv/bin/python" "$root/release/try_wheel.py" "$root/examples") ||
        die "the package does not work with $1 (see above)"
    say "the wheel works with $("$venv/bin/python" --version)"
}

# The same with Debian's Python of another architecture, under qemu.
try_foreign_wheel() { # ARCH WHEEL
    local folder="$work/$1" debian
    if ! command -v "qemu-$1-static" >/dev/null || ! command -v mmdebstrap >/dev/null; then
        say "qemu-$1-static or mmdebstrap is not installed: the wheel for $1 is not run"
        return 0
    fi
    debian="$(sed 's/aarch64/arm64/; s/x86_64/amd64/' <<<"$1")"
    mmdebstrap --quiet --variant=extract --architectures="$debian" --include=python3-minimal,libpython3-stdlib \
        bookworm "$folder"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --no-compile --implementation cp --python-version 3.11 \
        --only-binary :all: --platform "manylinux2014_$1" --platform "manylinux_2_17_$1" --platform "manylinux_2_28_$1" \
        --target "$folder/usr/local/lib/python3.11/dist-packages" "$2"
    cp "$(command -v "qemu-$1-static")" "$folder/qemu"
    cp -r release/try_wheel.py examples "$folder/"
    unshare --map-root-user --root "$folder" /qemu /usr/bin/python3.11 /try_wheel.py /examples ||
        die "the package does not work on $1 (see above)"
    say "the wheel for $1 works under qemu"
}

# The source distribution, built in another folder, results in the same wheel.
check_sdist() {
    local folder wheel
    wheel="$(ls "$dist"/python/*-manylinux*_"$this_arch".whl)"
    tar --extract --file "$dist"/python/*.tar.gz --directory "$work"
    folder="$(ls -d "$work"/kopf_rs-*)"
    reproducibly "$folder"
    (cd "$folder" && CARGO_TARGET_DIR="$folder/target" build_wheel "$this_arch" gnu "$work/again")
    python3 release/compare.py "$wheel" "$work"/again/*.whl
}

# Static programs: size, an empty root, completions and manual pages.
check_programs() {
    local arch archive folder
    for archive in "$dist"/kopf/*.tar.gz; do
        folder="$work/$(basename "$archive" .tar.gz)"
        tar --extract --file "$archive" --directory "$work"
        arch="$(sed 's/.*-\([^-]*\)-linux$/\1/' <<<"$folder")"
        inspect_program "$folder"
        mkdir -p "$folder.root/tmp"
        cp "$folder/kopf" "$folder.root/"
        try_program "$arch" "$folder.root" || die "kopf does not work on $arch (see above)"
    done
}

inspect_program() { # FOLDER
    local bytes max=$((20 * 1000 * 1000))
    bytes="$(stat -c %s "$1/kopf")"
    [ "$bytes" -le "$max" ] || die "$1/kopf has $bytes bytes, more than $max"
    if readelf --program-headers "$1/kopf" | grep -q INTERP; then die "$1/kopf is not static"; fi
    bash -c 'source "$1" && complete -p kopf' _ "$1/completions/kopf.bash" >/dev/null || die "invalid completions of bash"
    grep -q simulate "$1/man/kopf-sandbox.1" || die "the manual page of kopf sandbox is missing"
    grep -q 'ring 0' "$1/THIRD-PARTY.txt" || die "the licence texts of linked crates are missing"
    say "$(basename "$1"): $bytes bytes"
}

try_program() { # ARCH ROOT
    local run=(unshare --map-root-user --root "$2")
    if [ "$1" != "$this_arch" ]; then
        command -v "qemu-$1-static" >/dev/null || { say "qemu-$1-static is not installed: kopf is not run"; return 0; }
        cp "$(command -v "qemu-$1-static")" "$2/qemu"
        run+=(/qemu)
    fi
    [ "$("${run[@]}" /kopf --version)" = "kopf $version" ] || return 1
    "${run[@]}" /kopf demo --once >"$2.log" 2>&1 || { cat "$2.log" >&2; return 1; }
    say "kopf for $1 works in an empty root"
}

# Images: unprivileged users, sizes, and operators that handle objects on a sandbox.
check_images() {
    need_containers
    build_program "$this_arch" kopf-examples tenant-nats tenant-onboarding
    release/operators.sh
}

# `kopf new` with these files: the tests, the chart and the image of a project in Python. tests/scaffold.sh does the same
# for the sources of this tree.
check_projects() {
    need_containers
    local kopf="$work/kopf-$version-$this_arch-linux/kopf" project="$work/my-operator" wheel
    [ -x "$kopf" ] || tar --extract --file "$dist/kopf/kopf-$version-$this_arch-linux.tar.gz" --directory "$work"
    wheel="$(ls "$dist"/python/*-manylinux*_"$this_arch".whl)"
    "$kopf" new my-operator --python --path "$project" --kopf-path "$wheel"
    python3 -m venv "$work/project"
    (
        cd "$project"
        "$work/project/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt pytest
        "$work/project/bin/pytest" --quiet
        "$work/project/bin/kopf" manifests --name my-operator --image my-operator:latest --namespace my-operator handlers.py |
            diff deploy/operator.yaml -
        "$work/project/bin/kopf" manifests --helm "$project/chart" handlers.py >/dev/null
    )
    # The base of the Dockerfile is in a registry; this one has the same programs.
    containers pull --quiet "oci-archive:$dist/images/kopf-python-$version-$this_arch.oci.tar" >/dev/null
    local base
    base="$(containers from --pull-never "localhost/kopf-python:$version")"
    containers config --user 0 --entrypoint '[]' --workingdir / "$base"
    containers commit --quiet "$base" docker.io/library/python:3.13-slim >/dev/null
    containers build --quiet --isolation chroot --pull-never --tag my-operator "$project" >/dev/null
    base="$(containers from --pull-never my-operator)"
    containers run --isolation chroot "$base" -- kopf crd handlers.py | grep -q "name: greetings.example.com" ||
        die "the image of the project does not work"
    say "a new project in Python works: tests, manifests, chart, image"
}

# The crates compile from their packages.
check_crates() {
    local crates target="${CARGO_TARGET_DIR:-target}/release-check" crate
    # Packages are compiled as libraries; k8s-openapi requires programs to select the version of Kubernetes.
    export K8S_OPENAPI_ENABLED_VERSION="${K8S_OPENAPI_ENABLED_VERSION:-1.37}"
    mapfile -t crates <"$dist/crates/ORDER"
    say "compiling the packages of ${#crates[@]} crates (a few minutes)"
    # cargo recognises packages by their versions, so it would compile those of an earlier run.
    rm -rf "$target"
    for crate in "${crates[@]}"; do
        [ -e "$dist/crates/$crate-$version.crate" ] || die "the package of $crate is missing"
        rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/"$crate-$version"
    done
    cargo package --quiet --locked --allow-dirty --target-dir "$target" "${crates[@]/#/--package=}"
    if command -v cargo-semver-checks >/dev/null && git describe --tags --abbrev=0 >/dev/null 2>&1; then
        say "the public API against $(git describe --tags --abbrev=0)"
        cargo semver-checks --baseline-rev "$(git describe --tags --abbrev=0)" --package kopf
    else
        say "the public API is not compared: no release exists, or cargo-semver-checks is not installed"
    fi
    rm -rf "$target"
}

[ $# -gt 0 ] || set -- "${parts[@]}"
for part in "$@"; do
    [[ " ${parts[*]} " == *" $part "* ]] || die "unknown part '$part': use some of ${parts[*]}"
done
[ -d "$dist" ] || die "$dist does not exist: run 'make release' first"
use_tools
reproducibly
for part in "$@"; do
    say "checking: $part"
    "check_$part"
done
say "all checks passed: $*"
