#!/usr/bin/env bash
# Builds the guide with mdBook. Pages link to sources outside of docs/: the site has copies of them.
# Usage: docs/build.sh MDBOOK OUTPUT
set -euo pipefail

mdbook="$1"
output="$(realpath -m "$2")"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-book.XXXXXX")"
trap 'rm -rf "$work"' EXIT

cp docs/book.toml docs/*.md "$work"
if [ -d docs/images ]; then cp -r docs/images "$work"; fi

# Copies have the suffix .txt, so that browsers show them as they are. Without .md: mdBook would make it .html.
grep -ohE '\]\(\.\./[^)#]+' docs/*.md | sed 's/^](\.\.\///' | sort -u | while read -r target; do
    copy="${target%/}"
    copy="$work/sources/${copy%.md}.txt"
    mkdir -p "$(dirname "$copy")"
    if [ -d "$target" ]; then
        git ls-files "$target" >"$copy"
    else
        cp "$target" "$copy"
    fi
done
sed -E -i 's@\]\(\.\./([^)#]+)\.md(#[^)]*)?\)@](sources/\1.txt)@g' "$work"/*.md
sed -E -i 's@\]\(\.\./([^)#]+[^)#/])/?(#[^)]*)?\)@](sources/\1.txt)@g' "$work"/*.md

"$mdbook" build --dest-dir "$output" "$work"
