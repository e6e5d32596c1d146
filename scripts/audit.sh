#!/usr/bin/env bash
# What we are made of: licences, banned and doubled crates, sources, known vulnerabilities; and a bill of materials.
#
# Needs: a Rust toolchain; the network on the first run, to install the two tools, and for the list of vulnerabilities.
# Writes: the tools under <target>/tools, the bills of materials to sbom/ (CycloneDX, JSON).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target_dir="${CARGO_TARGET_DIR:-target}"
mkdir -p "$target_dir/tools"
tools="$(cd "$target_dir/tools" && pwd)"
export PATH="$tools/bin:$PATH"

# need TOOL installs a cargo subcommand unless it is there already.
need() {
  command -v "$1" >/dev/null && return
  printf '==> installing %s into %s (once)\n' "$1" "$tools"
  cargo install --locked --root "$tools" "$1"
}

need cargo-deny
need cargo-cyclonedx

printf '\n==> bans, licences, sources (deny.toml)\n'
cargo deny --locked check --hide-inclusion-graph bans licenses sources

printf '\n==> bill of materials\n'
mkdir -p sbom
# The tool writes one file beside each manifest; they are collected, so that the source tree stays clean.
trap 'find crates -maxdepth 2 -name "*.cdx.json" -delete' EXIT
cargo cyclonedx --format json --quiet
rm -f sbom/*.cdx.json
find crates -maxdepth 2 -name '*.cdx.json' -exec mv -t sbom {} +
ls -1 sbom/*.cdx.json

printf '\n==> known vulnerabilities (advisories of deny.toml)\n'
databases="${CARGO_HOME:-$HOME/.cargo}/advisory-dbs"
if cargo deny --locked fetch db; then
  # The answer depends on the day it was asked, so the day is part of it.
  for database in "$databases"/*/; do
    printf 'advisory database of %s\n' "$(git -C "$database" log -1 --format=%cs 2>/dev/null || echo 'an unknown day')"
  done
  cargo deny --locked check --disable-fetch --hide-inclusion-graph advisories
else
  cat <<'NOTE'
NOT checked: the advisory database cannot be fetched from here. Everything above gives the same answer without a network;
this does not. Where there is one, run `make audit` again, or:  cargo deny check advisories
(the tool is in <target>/tools/bin if it was installed by this script)
NOTE
fi
