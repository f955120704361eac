#!/usr/bin/env bash
# Runs the cases of tests/alerts.yaml with promtool: every alert of deploy/prometheus/alerts.yaml fires when it should,
# and not for healthy operators or other processes. promtool is built from its Go module, once, into the cache.
# Usage: tests/alerts.sh
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
version=v0.315.0
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}/promtool-$version"
if [ ! -x "$cache/promtool" ]; then
    command -v go >/dev/null || { echo "alerts: 'go' is not found: install Go" >&2; exit 1; }
    echo "alerts: building promtool $version" >&2
    mkdir -p "$cache/building"
    # In a module of its own: `go install` refuses modules with replacements.
    (
        cd "$cache/building"
        [ -e go.mod ] || go mod init building
        go get "github.com/prometheus/prometheus/cmd/promtool@$version"
        # Without the clients of clouds, which would take minutes to compile.
        go build -tags remove_all_sd -o "$cache/promtool" github.com/prometheus/prometheus/cmd/promtool
    )
fi

work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-alerts.XXXXXX")"
trap 'rm -rf "$work"' EXIT
rules="$root/deploy/prometheus/alerts.yaml"
# All alerts but that of absent operators fire if everything is wrong.
firing="$(sed -n 's/^ *- alert: //p' "$rules" | grep -v KopfOperatorAbsent | sort |
    sed "s/.*/{labels: '{alertname=\"&\"}', value: 1}/" | paste -sd,)"
sed "s@RULES@$rules@; s@FIRING@[$firing]@" "$root/tests/alerts.yaml" >"$work/cases.yaml"
# Every alert must have been silent in the first case.
silent="$(grep -c 'eval_time: 115m, alertname' "$work/cases.yaml")"
[ "$silent" = "$(grep -c 'alert: ' "$rules")" ] || { echo "alerts: the first case misses an alert" >&2; exit 1; }
"$cache/promtool" check rules "$rules"
"$cache/promtool" test rules "$work/cases.yaml"
