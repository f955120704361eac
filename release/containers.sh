# Sourced after environment.sh: containers by buildah, with a storage of their own in the folder for temporary files.
# shellcheck shell=bash disable=SC2154

need_containers() {
    command -v buildah >/dev/null || die "'buildah' is not found: install its package"
}

containers() {
    buildah --root "$work/containers" --runroot "$work/containers-run" --storage-driver vfs "$@"
}

# The storage contains files of other users, which rm cannot remove without privileges.
remove_containers() {
    if [ -d "$work/containers" ]; then
        containers rm --all >/dev/null 2>&1 || true
        containers rmi --all --force >/dev/null 2>&1 || true
    fi
}
trap 'remove_containers; rm -rf "$work"' EXIT

# The size of the content of an image in MB, such as 16.9.
megabytes() { # IMAGE
    containers images --json "$1" | python3 -c '
import json, sys
[image] = json.load(sys.stdin)
number, unit = image["size"].split()
print(round(float(number) * {"B": 1e-6, "KB": 1e-3, "MB": 1, "GB": 1e3}[unit], 1))'
}
