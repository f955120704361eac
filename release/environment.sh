# Sourced by the scripts of this folder: paths, the version, the tools, and the environment of reproducible builds.
# shellcheck shell=bash disable=SC2034
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
dist="${DIST:-$root/dist}"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}"
version="$(sed -n 's/^version = "\([0-9.]*\)".*/\1/p' Cargo.toml | head -n1)"
repository="$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml | head -n1)"
# Architectures and C libraries of wheels and programs.
read -ra arches <<<"${ARCHES:-x86_64 aarch64}"
read -ra libcs <<<"${LIBCS:-gnu musl}"
this_arch="$(uname -m)"

say() { echo "release: $*" >&2; }
die() { say "$*"; exit 1; }

work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-release.XXXXXX")"
trap 'rm -rf "$work"' EXIT

# Installs the tools of release/requirements.txt into the cache, once, and puts them into the path.
use_tools() {
    tools="$cache/release-$(cat release/requirements.txt <(python3 --version) | sha256sum | cut -c1-12)"
    if [ ! -e "$tools/complete" ]; then
        say "installing tools into $tools"
        rm -rf "$tools"
        python3 -m venv "$tools" || die "the module 'venv' of Python is missing: install python3-venv"
        "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement release/requirements.txt ||
            die "the tools cannot be installed (see above)"
        touch "$tools/complete"
    fi
    export PATH="$tools/bin:$PATH"
}

# Files get the time of the commit, and no path of this machine. Paths in FOLDER, by default that of the tree, are replaced.
reproducibly() { # [FOLDER]
    export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" LC_ALL=C.UTF-8 TZ=UTC CARGO_INCREMENTAL=0
    local cargo="${CARGO_HOME:-$HOME/.cargo}" separator=$'\x1f'
    # Only for wheels and programs: other flags would compile the checks of the tree again.
    rust_flags="--remap-path-prefix=${1:-$root}=/kopf$separator--remap-path-prefix=$cargo=/cargo"
    umask 022
}

# Fails with advice if the standard library of a target is not installed.
need_target() { # TARGET
    local sysroot
    sysroot="$(rustc --print sysroot)"
    [ -d "$sysroot/lib/rustlib/$1" ] || die "the target $1 is missing: run 'rustup target add $1'"
}

# Builds the wheel of the sources in the current folder.
build_wheel() { # ARCH LIBC OUT
    local target="$1-unknown-linux-$2" compatibility=manylinux2014
    [ "$2" = gnu ] || compatibility=musllinux_1_2
    need_target "$target"
    say "the wheel for $compatibility on $1 (a few minutes)"
    CARGO_ENCODED_RUSTFLAGS="$rust_flags" maturin build --quiet --locked --profile dist --zig --target "$target" --compatibility "$compatibility" \
        --out "$3" || die "the wheel cannot be built (see above)"
}

# Builds static programs.
build_program() { # ARCH PACKAGE BINARY…
    local target="$1-unknown-linux-musl" package="$2"
    shift 2
    need_target "$target"
    say "static programs for $target: $* (a few minutes)"
    CARGO_ENCODED_RUSTFLAGS="$rust_flags" cargo zigbuild --quiet --locked --profile program --target "$target" \
        --package "$package" "${@/#/--bin=}" ||
        die "the program cannot be built (see above)"
}

# The path of a static program.
built() { # ARCH BINARY
    echo "${CARGO_TARGET_DIR:-$root/target}/$1-unknown-linux-musl/program/$2"
}
