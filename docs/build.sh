#!/usr/bin/env bash
# Builds the guide with mdBook. Pages link to sources outside of docs/: the site has copies of them.
# Usage: docs/build.sh MDBOOK OUTPUT
set -euo pipefail

mdbook="$1"
output="$(realpath -m "$2")"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-book.XXXXXX")"
trap 'rm -rf "$work"' EXIT

cp -r docs/. "$work"
# The reference of the Python API is made from the docstrings; the tree has copies, which tests compare.
python3 python/api_reference.py "$work/reference/python"
# Links that leave docs/ begin with one `../` more than the depth of the page.
(cd "$work" && find . -name '*.md' -printf '%P\n') | while read -r page; do
    up="$(dirname "$page" | sed -E 's@[^/.]+@..@g; s@^\.$@@; s@(.)$@\1/@')"
    grep -ohE "\]\($up\.\./[^)#]+" "docs/$page" | sed "s@^](${up//./\\.}\.\./@@" >>"$work/targets" || true
    # Copies have the suffix .txt, so that browsers show them as they are. Without .md: mdBook would make it .html.
    sed -E -i "s@\]\(${up//./\\.}\.\./([^)#]+)\.md(#[^)]*)?\)@](${up}sources/\1.txt)@g
        s@\]\(${up//./\\.}\.\./([^)#]+[^)#/])/?(#[^)]*)?\)@](${up}sources/\1.txt)@g" "$work/$page"
done
sort -u "$work/targets" | while read -r target; do
    copy="${target%/}"
    copy="$work/sources/${copy%.md}.txt"
    mkdir -p "$(dirname "$copy")"
    if [ -d "$target" ]; then
        git ls-files "$target" >"$copy"
    else
        cp "$target" "$copy"
    fi
done
rm "$work/targets" "$work/build.sh"
# The documentation of the crates is a part of the site, if `cargo doc` has built it.
crates="${CARGO_TARGET_DIR:-target}/doc"
if [ -e "$crates/kopf/index.html" ]; then
    printf '\n%s\n' 'This site contains [all items of the crate](../rust/kopf/index.html).' >>"$work/reference/rust-api.md"
fi

"$mdbook" build --dest-dir "$output" "$work"
if [ -e "$crates/kopf/index.html" ]; then
    rm -rf "$output/rust"
    cp -r "$crates" "$output/rust"
fi
