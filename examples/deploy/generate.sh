#!/usr/bin/env bash
# Writes the manifests of the operators. With --check, compares them instead.
# Usage: generate.sh BINARIES [--check]
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
binaries="$1"
# manifests NAME PROGRAM OPTIONS…
manifests() {
    local name="$1" program="$2"
    shift 2
    "$binaries/$program" manifests --name "$name" --namespace tenants --image "$name:latest" "$@" 2>/dev/null
}
# write NAME PROGRAM OPTIONS…
write() {
    if [ "${check:-}" = --check ]; then
        manifests "$@" | diff "$here/$1.yaml" - || { echo "$1.yaml is outdated: run generate.sh" >&2; exit 1; }
    else
        manifests "$@" >"$here/$1.yaml"
    fi
}
check="${2:-}"
# The types of the examples have no schema, so the CRDs are read from files.
write tenant-onboarding tenant-onboarding -f "$here/crds.yaml" --allow create,get:configmaps \
    --allow create,get:nats.kopf.dev --allow patch:tenants.kopf.dev/status
write tenant-nats tenant-nats -f "$here/crds.yaml" --allow create:services
write reviewer 17-admission -f "$here/../crd.yaml" --managed-webhooks auto.kopf.dev
