#!/usr/bin/env bash
# Workflows on both ledgers and, in the same run, the peers: n8n with the same graph, and others that run steps.
#   PEERS_SOURCE=DIR  where the peers' run.sh is; without it only Bowline is measured.
#   PEERS="A B"       which of them, besides n8n; restate avtomatika prefect unless given.
#   OUT=DIR           where the figures go; bench/results unless given.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-bench/results}
stamp=$(date -u +%Y-%m-%dT%H%M%SZ)
mkdir -p "$out"
cargo build --release --locked -p bowline
cargo build --release --locked -p bowline-testkit --bin with-postgres
bowline=target/release/bowline
"$bowline" bench workflow --json --out "$out/$stamp.workflow-sqlite.json"
# shellcheck disable=SC2016
target/release/with-postgres bash -c '"$0" bench workflow --json --database-url "$BOWLINE_TEST_POSTGRES" --out "$1"' \
  "$bowline" "$out/$stamp.workflow-postgres.json"
if [ -n "${PEERS_SOURCE:-}" ]; then
  # The machine is faster and slower by the minute, so each peer stands between two measurements of the same thing.
  "$bowline" bench workflow --only webhook --json --out "$out/$stamp.workflow-before-n8n.json"
  "$PEERS_SOURCE/run.sh" n8n | tee "$out/$stamp.workflow-peers.txt"
  "$bowline" bench workflow --only webhook,tasks --json --out "$out/$stamp.workflow-after-n8n.json"
  # shellcheck disable=SC2086
  "$PEERS_SOURCE/run.sh" ${PEERS:-restate avtomatika prefect} | tee -a "$out/$stamp.workflow-peers.txt"
  "$bowline" bench workflow --only pure,tasks --json --out "$out/$stamp.workflow-after-peers.json"
fi
