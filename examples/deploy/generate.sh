#!/usr/bin/env bash
# Writes the manifests of the two operators. With --check, compares them instead.
# Usage: generate.sh BINARIES [--check]
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
binaries="$1"
# manifests NAME PERMISSIONS…
manifests() {
    local name="$1" allowed=()
    shift
    for permissions in "$@"; do allowed+=(--allow "$permissions"); done
    # The types of the examples have no schema, so the CRDs are read from a file.
    "$binaries/$name" manifests --name "$name" --namespace tenants --image "$name:latest" -f "$here/crds.yaml" "${allowed[@]}" 2>/dev/null
}
# write NAME PERMISSIONS…
write() {
    if [ "${check:-}" = --check ]; then
        manifests "$@" | diff "$here/$1.yaml" - || { echo "$1.yaml is outdated: run generate.sh" >&2; exit 1; }
    else
        manifests "$@" >"$here/$1.yaml"
    fi
}
check="${2:-}"
write tenant-onboarding create,get:configmaps create,get:nats.kopf.dev patch:tenants.kopf.dev/status
write tenant-nats create:services
