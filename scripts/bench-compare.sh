#!/usr/bin/env bash
# Is one build of Bowline slower than another? Measures both in one run, in alternating pairs, on both engines.
#
#   scripts/bench-compare.sh OLD NEW     two `bowline` programs
#
# A machine is faster and slower by the minute, so a figure of yesterday says nothing about today: each pair measures the
# old and the new build right after each other, every second pair in the other order, and the medians of all pairs are
# compared. A ratio above 1 is better, whatever the unit. The servers write an access log to a file, as in production.
# Ends with 1 if a median of the new build is below 0.95 of the old one.
#
# Variables:
#   PAIRS    how many pairs (default 5)
#   SECONDS_EACH  length of the timed parts (default 5)
#   ENGINES  which ledgers (default "sqlite postgres")
#   PARTS    what to measure (default "jobs fleet workflow")
#   OUT      where the table goes, too (default bench/results/<date>.compare.txt)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

(($# == 2)) || { echo "usage: scripts/bench-compare.sh OLD NEW" >&2; exit 2; }
old=$(realpath "$1")
new=$(realpath "$2")
pairs="${PAIRS:-5}"
seconds="${SECONDS_EACH:-5}"
engines="${ENGINES:-sqlite postgres}"
parts="${PARTS:-jobs fleet workflow}"
out="${OUT:-bench/results/$(date -u +%Y-%m-%dT%H%M%SZ).compare.txt}"
target_dir="${CARGO_TARGET_DIR:-target}"
with_postgres="$target_dir/release/with-postgres"
[[ -x $with_postgres ]] || cargo build --release --locked -p bowline-testkit --bin with-postgres

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

options() {
  case $1 in
    jobs) echo "--only batched,single,latency,remote,memory --seconds $seconds" ;;
    fleet) echo "--only job,events,output,agents --seconds $seconds --output-mib 256 --agents 500" ;;
    workflow) echo "--only pure,tasks,long,sleeping,webhook --seconds $seconds --sleepers 20000" ;;
  esac
}

# measure WHICH PROGRAM PAIR ENGINE PART
measure() {
  local file="$scratch/$4.$5.$3.$1.json"
  # shellcheck disable=SC2046 # options are words
  if [[ $4 == postgres ]]; then
    # shellcheck disable=SC2016 # the address is known only inside
    "$with_postgres" bash -c 'program=$1 file=$2 part=$3; shift 3; exec "$program" bench "$part" "$@" --database-url "$BOWLINE_TEST_POSTGRES" --json --out "$file"' \
      measure "$2" "$file" "$5" $(options "$5") >/dev/null 2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
  else
    "$2" bench "$5" $(options "$5") --json --out "$file" >/dev/null 2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
  fi
}

for engine in $engines; do
  for part in $parts; do
    for ((pair = 1; pair <= pairs; pair++)); do
      printf '%s %s, pair %d of %d\n' "$engine" "$part" "$pair" "$pairs" >&2
      if ((pair % 2)); then order=(old new); else order=(new old); fi
      for which in "${order[@]}"; do measure "$which" "${!which}" "$pair" "$engine" "$part"; done
    done
  done
done

mkdir -p "$(dirname "$out")"
{
  printf 'old %s\nnew %s\n%d alternating pairs, medians; ratio above 1: the new one is better\n' \
    "$("$old" --version)" "$("$new" --version)" "$pairs"
  python3 scripts/bench-compare.py "$scratch"
} | tee "$out"
