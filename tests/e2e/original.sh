#!/usr/bin/env bash
# Runs the end-to-end tests and examples of the original Kopf, unmodified, from its published source
# distribution, with the package `kopf` of a given Python on a given cluster.
# Usage: original.sh KUBECONFIG KUBECTL PYTHON [PYTEST-ARGUMENTS…]
#   PYTHON: an interpreter that has kopf-rs (or kopf), pytest, kubernetes and pykube-ng.
# The source distribution is downloaded once, into $KOPF_CACHE.
set -euo pipefail

[ $# -ge 3 ] || { echo "usage: original.sh KUBECONFIG KUBECTL PYTHON [PYTEST-ARGUMENTS…]" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${KOPF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kopf}"
kubeconfig="$(realpath "$1")" kubectl="$(realpath "$2")" python="$3"
shift 3

version=1.45.2
source="$cache/original-$version"

say() { echo "original: $*" >&2; }
die() { say "$*"; exit 1; }

for module in kopf pytest kubernetes pykube; do
    "$python" -c "import $module" || die "$python has no module '$module' (see above)"
done

if [ ! -e "$source/complete" ]; then
    say "downloading the source distribution of kopf $version"
    rm -rf "$source"
    mkdir -p "$source"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps \
        --no-binary :all: --dest "$source" "kopf==$version" ||
        die "cannot download the source distribution (see above)"
    # Without the package itself: pytest would import it instead of the installed one.
    tar -xzf "$source/kopf-$version.tar.gz" -C "$source" --strip-components=1 \
        "kopf-$version/examples" "kopf-$version/tests/e2e" "kopf-$version/peering.yaml"
    touch "$source/complete"
fi

work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-original.XXXXXX")"
trap 'rm -rf "$work"' EXIT
cp -r "$source/examples" "$source/tests" "$source/peering.yaml" "$work"
cp "$kubeconfig" "$work/kubeconfig"
mkdir "$work/bin"
ln -s "$kubectl" "$work/bin/kubectl"
cat >"$work/pytest.ini" <<'END'
[pytest]
addopts = --strict-markers -p no:cacheprovider
log_level = DEBUG
END

# A crashed run leaves the object behind, with the finalizer of its operator.
export KUBECONFIG="$work/kubeconfig" KUBECACHEDIR="$work/cache" PATH="$work/bin:$PATH"
kubectl patch -n default kopfexample kopf-example-1 --type merge \
    -p '{"metadata": {"finalizers": []}}' >/dev/null 2>&1 || true
kubectl delete --ignore-not-found -n default kopfexample kopf-example-1 >/dev/null 2>&1 || true

cd "$work"
say "kopf of $("$python" -c 'import kopf; print(kopf.__file__)')"
# Not `exec`: the trap removes the folder.
PYTHONPATH="$here/plugins${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 "$python" -P -m pytest \
    -c "$work/pytest.ini" --rootdir "$work" --confcutdir "$work/tests/e2e" -p kopf_original \
    tests/e2e examples "$@"
