#!/usr/bin/env bash
# Checks the images of dist/images: builds operators on them, the two of examples/deploy in Rust and one in Python, and
# starts these as containers. They must handle objects.
# Usage: release/operators.sh [KUBECONFIG]; by default, on a sandbox that runs in a container, too
# The static programs tenant-nats and tenant-onboarding must be built: see release/check.sh.
set -euo pipefail

kubeconfig="${1:+$(realpath "$1")}"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
source release/containers.sh
# In MB. The operators in Rust are programs on an almost empty image.
declare -A limits=([kopf]=30 [kopf-static]=2 [kopf-python]=150 [tenant-nats]=30 [tenant-onboarding]=30)
started=()

finish() {
    trap - EXIT
    local group
    for group in "${started[@]}"; do kill -TERM -- "-$group" 2>/dev/null || true; done
    wait
    remove_containers
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

load() { # NAME
    containers pull --quiet "oci-archive:$dist/images/$1-$version-$this_arch.oci.tar" >/dev/null
    containers tag "localhost/$1:$version" "$1"
    inspect "$1"
}

# Checks the user and the size of an image.
inspect() { # NAME
    local user found
    user="$(containers inspect --type image --format '{{.OCIv1.Config.User}}' "$1")"
    [ "$user" = 65532:65532 ] || die "$1 runs as '$user' instead of an unprivileged user"
    found="$(megabytes "$1")"
    [ "${found%.*}" -lt "${limits[$1]}" ] || die "$1 has $found MB, more than ${limits[$1]} MB"
    say "$1: $found MB"
}

# Builds the image of an operator on one of the images.
build() { # NAME DOCKERFILE CONTEXT
    containers build --quiet --isolation chroot --pull-never --build-arg VERSION="$version" --file "$2" --tag "$1" "$3" \
        >/dev/null
}

# Starts a container in the background, in a process group of its own.
start() { # IMAGE COMMAND…
    local container
    container="$(containers from --pull-never "$1")"
    shift
    setsid buildah --root "$work/containers" --runroot "$work/containers-run" --storage-driver vfs \
        run --isolation chroot --volume "$work/shared:/shared" \
        --env KUBECONFIG=/shared/kubeconfig "$container" -- "$@" >"$work/$container.log" 2>&1 &
    started+=("$!")
}

# Waits for a file that a container writes.
await() { # FILE
    local _
    for _ in $(seq 100); do
        [ ! -s "$1" ] || return 0
        sleep 0.2
    done
    cat "$work"/*.log >&2
    die "$1 does not appear"
}

need_containers
for name in kopf kopf-static kopf-python; do load "$name"; done
for name in tenant-nats tenant-onboarding; do
    mkdir "$work/$name"
    cp "$(built "$this_arch" "$name")" "$work/$name/operator"
    build "$name" examples/deploy/Dockerfile.static "$work/$name"
    inspect "$name"
done
build greeter examples/deploy/Dockerfile.python examples/python/01-minimal

# Written by the user of the containers.
install -d -m 777 "$work/shared"
chmod 711 "$work"
if [ -n "$kubeconfig" ]; then
    install -m 644 "$kubeconfig" "$work/shared/kubeconfig"
else
    start kopf /usr/bin/kopf sandbox --simulate all --kubeconfig /shared/kubeconfig
    await "$work/shared/kubeconfig"
fi
start tenant-onboarding /operator run --all-namespaces --standalone
start tenant-nats /operator run --all-namespaces --standalone
start greeter /usr/local/bin/kopf run --all-namespaces --standalone handlers.py

python3 -m venv "$work/client"
"$work/client/bin/pip" install --quiet --disable-pip-version-check "$dist"/python/*-manylinux*_"$this_arch".whl
(cd "$work" && "$work/client/bin/python" "$root/release/operators.py" "$work/shared/kubeconfig" "$root/examples") ||
    { tail -n 20 "$work"/*.log >&2; die "the operators do not handle objects (see above)"; }
say "the operators of the images work"
