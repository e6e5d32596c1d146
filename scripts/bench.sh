#!/usr/bin/env bash
# How fast Bowline is, beside what this machine can do at best.
#
# The raw ceiling is a program of its own that keeps the smallest durable job ledger one can think of, with nothing else
# in the way. It is measured in the same run, before and after Bowline, on the same disk, with the same database settings;
# only ratios travel from one machine to another. The method is explained in bench/README.md.
#
# Variables:
#   LIMIT_DIR    where the source of the raw ceiling lives (default ../shared/limit); without it there are no ratios
#   JOBS_SINGLE  jobs for the ceiling at batch 1   (default 5000)
#   JOBS_BATCH   jobs for the ceiling at batch 500 (default 200000)
#   SCALE        finished and scheduled jobs that a full ledger has (default 1000000; 0 leaves that part out)
#   PEERS        other systems to measure in the same run, by name, such as "graphile bullmq" (default: none)
#   PEERS_RUN    the program that measures them (default ../shared/peers/run.sh)
#
#   FLEET        1 measures commands on many hosts as well, on both engines and over SSH (default 1; 0 leaves that out)
#
# Writes: bench/results/<date>.{limit.txt,sqlite.json,postgres.json,sqlite.fleet.json,postgres.fleet.json,ssh.txt,peers.txt}. Everything else stays in the target directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target_dir="${CARGO_TARGET_DIR:-target}"
limit_dir="${LIMIT_DIR:-../shared/limit}"
jobs_single="${JOBS_SINGLE:-5000}"
jobs_batch="${JOBS_BATCH:-200000}"

scale="${SCALE:-1000000}"
fleet="${FLEET:-1}"
peers="${PEERS:-}"
peers_run="${PEERS_RUN:-../shared/peers/run.sh}"

# The variable in which with-postgres hands the address of its database to the command it runs.
database_variable=BOWLINE_TEST_POSTGRES

results=bench/results
stamp="$(date -u +%Y-%m-%dT%H%M%SZ)"
limit_out="$results/$stamp.limit.txt"
sqlite_out="$results/$stamp.sqlite.json"
postgres_out="$results/$stamp.postgres.json"
sqlite_scale_out="$results/$stamp.sqlite.scale.json"
postgres_scale_out="$results/$stamp.postgres.scale.json"
sqlite_fleet_out="$results/$stamp.sqlite.fleet.json"
postgres_fleet_out="$results/$stamp.postgres.fleet.json"
ssh_out="$results/$stamp.ssh.txt"
# What is measured in one ledger; `scale` fills one of its own.
parts=memory,latency,remote,batched,single
peers_out="$results/$stamp.peers.txt"

heading() { printf '\n==> %s\n' "$*"; }

# with_postgres COMMAND... runs the command beside a fresh PostgreSQL. The ceiling and Bowline each get one of their own:
# both call their tables `job` and `event`, and neither should meet the other's dead tuples.
with_postgres() { "$target_dir/release/with-postgres" "$@"; }

build() {
  heading "build"
  cargo build --release --locked -p bowline
  cargo build --release --locked -p bowline-testkit --bin with-postgres
  [[ -d $limit_dir ]] || return 0
  # A copy, so that nothing outside is written; a workspace of its own; our lock file, so that both use the same drivers.
  mkdir -p "$target_dir/limit"
  cp -rp "$limit_dir/." "$target_dir/limit/"
  cp Cargo.lock "$target_dir/limit/Cargo.lock"
  grep -q '^\[workspace\]' "$target_dir/limit/Cargo.toml" || printf '\n[workspace]\n' >>"$target_dir/limit/Cargo.toml"
  cargo build --release --manifest-path "$target_dir/limit/Cargo.toml" --target-dir "$target_dir/limit/target"
}

measure_limit() {
  if [[ ! -d $limit_dir ]]; then
    heading "raw ceiling: left out, LIMIT_DIR=$limit_dir is not there"
    return 0
  fi
  heading "raw ceiling"
  local limit="$target_dir/limit/target/release/limit" pair
  for pair in "$jobs_single 1" "$jobs_batch 500"; do
    # shellcheck disable=SC2086 # two words on purpose: jobs and batch
    "$limit" sqlite "$scratch" $pair | tee -a "$limit_out"
    # shellcheck disable=SC2016,SC2086 # the address is known only inside
    with_postgres bash -c 'exec "$1" postgres "${!2:?with-postgres gave no address}" "$3" "$4"' \
      limit "$limit" "$database_variable" $pair | tee -a "$limit_out"
  done
}

measure_bowline() {
  local bowline="$target_dir/release/bowline"
  export BOWLINE_BENCH_DIR="$scratch" # the ceiling's disk
  heading "Bowline on SQLite"
  "$bowline" bench jobs --only "$parts" --json --out "$sqlite_out"
  ((scale == 0)) || "$bowline" bench jobs --only scale --scale "$scale" --json --out "$sqlite_scale_out"
  heading "Bowline on PostgreSQL"
  # shellcheck disable=SC2016
  with_postgres bash -c 'exec "$1" bench jobs --only "$4" --json --out "$3" --database-url "${!2:?no address}"' \
    bowline "$bowline" "$database_variable" "$postgres_out" "$parts"
  ((scale == 0)) && return
  # shellcheck disable=SC2016
  with_postgres bash -c 'exec "$1" bench jobs --only scale --scale "$4" --json --out "$3" --database-url "${!2:?no address}"' \
    bowline "$bowline" "$database_variable" "$postgres_scale_out" "$scale"
}

measure_fleet() {
  ((fleet == 0)) && return
  local bowline="$target_dir/release/bowline"
  heading "the fleet on SQLite"
  "$bowline" bench fleet --json --out "$sqlite_fleet_out"
  heading "the fleet on PostgreSQL"
  # shellcheck disable=SC2016
  with_postgres bash -c 'exec "$1" bench fleet --json --out "$3" --database-url "${!2:?no address}"' \
    bowline "$bowline" "$database_variable" "$postgres_fleet_out"
  heading "hosts over SSH"
  OUT="$ssh_out" scripts/bench-ssh.sh
}

measure_peers() {
  [[ -n $peers ]] || return 0
  heading "peers: $peers"
  # shellcheck disable=SC2086 # names, separated by spaces
  PEERS_DIR="$(realpath "$target_dir")/peers" "$peers_run" $peers | tee "$peers_out"
}

# Which figure of Bowline's stands beside which figure of the ceiling.
compare() {
  [[ -s $limit_out ]] || return 0
  heading "ratios (Bowline / raw ceiling)"
  python3 - "$limit_out" "$sqlite_out" "$postgres_out" <<'PYTHON'
import json, re, sys

limit_path, sqlite_path, postgres_path = sys.argv[1:]
rates = {}
for line in open(limit_path):
    engine, batch = re.match(r"(\w+) batch=(\d+)", line).groups()
    for name, rate in re.findall(r"(\S+)=(\d+)/s", line):
        rates.setdefault((engine, int(batch), name), []).append(float(rate))
ours = {"sqlite": json.load(open(sqlite_path)), "postgres": json.load(open(postgres_path))}

# name, engine, path in Bowline's report, batch and figure of the ceiling
ROWS = [
    ("batched, end to end", "sqlite", "batched.end_to_end_per_s", 500, "end_to_end"),
    ("batched, end to end", "postgres", "batched.end_to_end_per_s", 500, "end_to_end"),
    ("single, accepted", "sqlite", "single.accepted_per_s", 1, "enqueue"),
    ("single, end to end", "sqlite", "single.end_to_end_per_s", 1, "enqueue"),
]
for name, engine, path, batch, figure in ROWS:
    value = ours[engine]
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    measured = rates[engine, batch, figure]
    top = sum(measured) / len(measured)
    told = "not measured" if value is None else f"{value:>9,.0f}/s of {top:>9,.0f}/s = {value / top:.2f}"
    print(f"  {engine:9} {name:20} {told}")
PYTHON
}

mkdir -p "$results" "$target_dir"
scratch="$(mktemp -d "$target_dir/bench.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT

build
heading "machine: $(nproc) cores, $(uname -srm), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
measure_limit
measure_bowline
measure_limit
measure_fleet
measure_peers
compare
heading "results: $results/$stamp.*"
