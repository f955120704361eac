#!/usr/bin/env bash
# Builds the images of a release into dist/images, as OCI archives for the architecture of this machine:
#   kopf         the command, with the sandbox
#   kopf-static  the base of Rust operators: certificates and an unprivileged user, no program
#   kopf-python  the base of Python operators: Debian's Python and the wheel
# Needs buildah and mmdebstrap (packages of Debian), but no daemon, no registry of images and no privileges. The wheel
# and the program must be in dist/.
# Usage: release/images.sh
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
source release/containers.sh
suite=bookworm python=3.11
user=65532
libraries="/usr/local/lib/python$python/dist-packages"
# bookworm has glibc 2.36.
platforms=(manylinux2014 manylinux_2_17 manylinux_2_28)

# What all images have in common, in a folder: users, a folder for temporary files, certificates.
skeleton() { # FOLDER
    install -d -m 755 "$1"/{etc/ssl/certs,home/nonroot,app,usr/share/doc/kopf}
    install -d -m 1777 "$1/tmp"
    printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%s:%s:nonroot:/home/nonroot:/sbin/nologin\n' \
        "$user" "$user" >"$1/etc/passwd"
    printf 'root:x:0:\nnonroot:x:%s:\n' "$user" >"$1/etc/group"
    # The package creates this file when it is configured, which needs a running system.
    cat "$work/debian"/usr/share/ca-certificates/mozilla/*.crt >"$1/etc/ssl/certs/ca-certificates.crt"
    cp LICENSE "$1/usr/share/doc/kopf/"
}

debian() {
    say "packages of Debian $suite"
    mmdebstrap --quiet --variant=extract --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --include=base-files,ca-certificates,dash,libpython3-stdlib,netbase,python3-minimal,tzdata \
        "$suite" "$work/debian"
}

# commit CONTAINER NAME DESCRIPTION OPTIONS…: sets the user and the labels, and writes the archive.
commit() {
    local container="$1" name="$2" description="$3"
    shift 3
    containers config --user "$user:$user" --env HOME=/home/nonroot \
        --label org.opencontainers.image.title="$name" --label org.opencontainers.image.version="$version" \
        --label org.opencontainers.image.licenses=MIT --label org.opencontainers.image.source="$repository" \
        --label org.opencontainers.image.description="$description" "$@" "$container"
    containers commit --quiet --format oci --timestamp "$SOURCE_DATE_EPOCH" --rm "$container" "$name:$version" >/dev/null
    containers push --quiet "$name:$version" "oci-archive:$dist/images/$name-$version-$this_arch.oci.tar:$name:$version"
    say "$name: $(megabytes "$name:$version") MB"
}

# The container of a folder.
from_folder() { # FOLDER
    local container
    container="$(containers from scratch)"
    containers copy --quiet "$container" "$1" / >/dev/null
    echo "$container"
}

static_image() {
    skeleton "$work/static"
    commit "$(from_folder "$work/static")" kopf-static "The base of Kubernetes operators in Rust"
}

command_image() {
    local folder="kopf-$version-$this_arch-linux"
    tar --extract --file "$dist/kopf/$folder.tar.gz" --directory "$work"
    skeleton "$work/command"
    install -D -m 755 "$work/$folder/kopf" "$work/command/usr/bin/kopf"
    cp "$work/$folder/THIRD-PARTY.txt" "$work/command/usr/share/doc/kopf/"
    commit "$(from_folder "$work/command")" kopf "The kopf command: tools for operators, and a sandbox API server" \
        --entrypoint '["/usr/bin/kopf"]' --cmd --help
}

# A program of a Python package.
launcher() { # NAME MODULE
    printf '#!/usr/bin/python3\nimport sys\n\nfrom %s import main\n\nsys.exit(main())\n' "$2" >"$work/$1"
    install -D -m 755 "$work/$1" "$work/python/usr/local/bin/$1"
}

python_image() {
    local wheel container platform options=()
    wheel="$(ls "$dist"/python/*-manylinux*_"$this_arch".whl)"
    cp -a "$work/debian" "$work/python"
    skeleton "$work/python"
    for platform in "${platforms[@]}"; do options+=(--platform "${platform}_$this_arch"); done
    # Of the interpreter of the image, whichever runs here.
    "$tools/bin/pip" install --quiet --disable-pip-version-check --no-compile --target "$work/python$libraries" \
        --implementation cp --python-version "$python" --only-binary :all: "${options[@]}" "$wheel" pip
    rm -rf "$work/python$libraries/bin"
    launcher kopf kopf.cli
    launcher pip pip._internal.cli.main
    # Images of operators install their packages with pip.
    rm -f "$work/python/usr/lib/python$python/EXTERNALLY-MANAGED"
    container="$(from_folder "$work/python")"
    # The file system is read-only in clusters, so modules are compiled here.
    containers run --isolation chroot "$container" -- python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        "/usr/lib/python$python" "$libraries"
    commit "$container" kopf-python "The base of Kubernetes operators in Python" \
        --env PYTHONDONTWRITEBYTECODE=1 --env PYTHONUNBUFFERED=1 --workingdir /app \
        --entrypoint '["/usr/local/bin/kopf"]' --cmd '["run", "--all-namespaces", "handlers.py"]'
}

use_tools
reproducibly
need_containers
command -v mmdebstrap >/dev/null || die "'mmdebstrap' is not found: install its package"
rm -rf "$dist/images"
mkdir -p "$dist/images"
debian
static_image
command_image
python_image
