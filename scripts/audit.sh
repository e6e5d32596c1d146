#!/usr/bin/env bash
# What we are made of: licences, banned and doubled crates, sources; and a bill of materials.
#
# Needs: a Rust toolchain; the network on the first run only, to install the two tools.
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

cat <<'NOTE'

==> NOT checked: known vulnerabilities.
    The advisory database lives on the network, and this audit must give the same answer without it.
    Where there is a network, ask it with:  cargo deny check advisories
    (the tool is in <target>/tools/bin if it was installed by this script)
NOTE
