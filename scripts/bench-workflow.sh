#!/usr/bin/env bash
# Workflows beside n8n in one run: the same graph, the same machine, one after the other.
#   PEERS_DIR=…  where the peers' programs are (n8n/run.sh); without it only Bowline is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-bench/results}
STAMP=$(date -u +%Y-%m-%dT%H%M%SZ)
mkdir -p "$OUT"
cargo build --release -p bowline
BOWLINE=target/release/bowline
"$BOWLINE" bench workflow --json --out "$OUT/$STAMP.workflow-sqlite.json"
if command -v target/release/with-postgres >/dev/null || cargo build --release -p bowline-testkit --bin with-postgres; then
  # shellcheck disable=SC2016
  target/release/with-postgres bash -c '"$0" bench workflow --json --database-url "$BOWLINE_TEST_POSTGRES" --out "$1"' \
    "$BOWLINE" "$OUT/$STAMP.workflow-postgres.json"
fi
if [ -n "${PEERS_SOURCE:-}" ]; then
  "$PEERS_SOURCE/run.sh" n8n | tee "$OUT/$STAMP.n8n.txt"
  "$BOWLINE" bench workflow --only webhook --json --out "$OUT/$STAMP.workflow-beside-n8n.json"
fi
