#!/usr/bin/env bash
# Are the tests able to fail? Puts one small bug at a time into a sample of the code and looks whether a test notices.
#
#   scripts/mutants.sh                   all crates below
#   scripts/mutants.sh model auth        only these
#   SEED=7 SAMPLE=100 scripts/mutants.sh another sample, a larger one
#
# A mutant is tried against the tests of its own crate first and, if it survives them, against the conformance suite of
# the ledger, because that is where the rules of the model are really kept or broken. Both together get MINUTES a crate;
# what was not tried in time is counted apart and is neither killed nor survived.
#
# A survivor needs a test, or a sentence in scripts/mutants.txt saying why no test can tell the difference.
#
# Needs: a Rust toolchain; the network on the first run, to install cargo-mutants and cargo-nextest.
# Writes: under <target>/mutants only (a copy of the sources, a build of it, and the reports). The tree stays untouched.
# Ends: with 1 if a crate kills fewer than its target, a survivor has no sentence, or less than three quarters of the
# sample were tried in time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seed="${SEED:-13}"
sample="${SAMPLE:-40}"
minutes="${MINUTES:-30}"
all_crates=(model auth workflow store-sql engine execute)
crates=("$@")
((${#crates[@]})) || crates=("${all_crates[@]}")

# Percent of the mutants tried that a test must notice.
target_of() {
  case $1 in
    model | auth | workflow) echo 90 ;;
    *) echo 80 ;;
  esac
}

# The tests that a mutant is tried against first. The slow fault tests are left out: they fill disks and kill processes for
# minutes, and none is about one line. The keeper of a run and its control groups are tested by fault tests only; those are quick.
tests_of() {
  case $1 in
    execute) echo 'not binary(/^faults_/) | binary(faults_keeper) | binary(faults_agent)' ;;
    *) echo 'not binary(/^faults_/)' ;;
  esac
}

for crate in "${crates[@]}"; do
  [[ " ${all_crates[*]} " == *" $crate "* ]] || {
    echo "mutants: no target is set for crate $crate; known: ${all_crates[*]}" >&2
    exit 2
  }
done

target_dir="${CARGO_TARGET_DIR:-target}"
mkdir -p "$target_dir/mutants/tree" "$target_dir/tools"
work="$(cd "$target_dir/mutants" && pwd)"
tools="$(cd "$target_dir/tools" && pwd)"
export PATH="$tools/bin:$PATH"
explained="$PWD/scripts/mutants.txt"

need() {
  command -v "$1" >/dev/null && return
  printf '==> installing %s into %s (once)\n' "$1" "$tools"
  cargo install --locked --root "$tools" "$1"
}
need cargo-mutants
need cargo-nextest
scripts/install-test-deps.sh

# Bugs are put into a copy, which has its own build directory, so that neither the sources nor their build are disturbed.
rm -rf "$work/tree" && mkdir -p "$work/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work/tree" 2>/dev/null || true
cd "$work/tree"
# A commit, so that a mutant that was left behind when time ran out can be taken back.
git init -q . && git add -A && git -c user.name=mutants -c user.email=mutants@localhost commit -q -m copy
export CARGO_TARGET_DIR="$work/build"
cargo build --quiet --locked -p bowline-testkit --bins

# The lines on which the mutants of a file begin, as a patch: cargo-mutants tries deleted fields whether a pattern names them or
# not, unless their lines are outside of the patch that it is asked about.
lines_of() {
  local file line
  cut -d: -f1,2 "$1" | sort -t: -u -k1,1 -k2,2n | while IFS=: read -r file line; do
    printf -- '--- a/%s\n+++ b/%s\n@@ -%d,0 +%d @@\n+%s\n' "$file" "$file" "$((line - 1))" "$line" "$(sed -n "${line}p" "$file")"
  done
}

# try REPORT DEADLINE NAMES_FILE MUTANTS_ARGUMENTS... -- TEST_ARGUMENTS...
# Tries the mutants named in a file, until the deadline. Names are matched as a whole, as cargo-mutants prints them.
try() {
  local report=$1 deadline=$2 names=$3 pattern file files=()
  shift 3
  rm -rf "$report" && mkdir -p "$report"
  while read -r file; do files+=(--file "$file"); done < <(cut -d: -f1 "$names" | sort -u)
  lines_of "$names" >"$report/lines.patch"
  pattern=$(sed -e 's/[][\.*^$+?(){}|]/\\&/g' -e 's/.*/^&$/' "$names" | paste -sd '|')
  timeout --kill-after=20 "$((deadline - SECONDS > 1 ? deadline - SECONDS : 1))" \
    "$CARGO_TARGET_DIR/debug/with-postgres" "$CARGO_TARGET_DIR/debug/with-rabbitmq" \
    cargo mutants --in-place --no-shuffle --test-tool nextest --colors never --output "$report" \
    --minimum-test-timeout 60 "${files[@]}" --re "$pattern" --in-diff "$report/lines.patch" "$@" >"$report/log" 2>&1 || true
  git checkout -q .
}

# sampled NAMES_FILE REPORT KIND... prints the mutants of some kinds: caught, missed, timeout, unviable.
sampled() {
  local names=$1 report=$2 kind
  shift 2
  for kind; do cat "$report/mutants.out/$kind.txt" 2>/dev/null || true; done | grep -xFf "$names" | sort || true
}

# A mutant without its line and column: what mutants.txt names must outlive an edit above it.
without_position() { sed -E 's/^([^:]+):[0-9]+:[0-9]+: /\1: /'; }

failed=0
printf '==> mutants: seed %s, %s of each crate, at most %s minutes a crate\n' "$seed" "$sample" "$minutes"
for crate in "${crates[@]}"; do
  begun=$SECONDS
  deadline=$((SECONDS + minutes * 60))
  mkdir -p "$work/$crate"
  cargo mutants --list --colors never -p "bowline-$crate" >"$work/$crate/all"
  shuf -n "$sample" --random-source=<(yes "$seed" 2>/dev/null) "$work/$crate/all" | sort >"$work/$crate/sample"

  try "$work/$crate/own" "$deadline" "$work/$crate/sample" -p "bowline-$crate" -- -E "$(tests_of "$crate")"
  sampled "$work/$crate/sample" "$work/$crate/own" missed >"$work/$crate/survivors"
  if [[ $crate != store-sql && -s $work/$crate/survivors ]]; then
    try "$work/$crate/ledger" "$deadline" "$work/$crate/survivors" -p "bowline-$crate" \
      --test-package bowline-store-sql --baseline skip --timeout 300 -- -E 'binary(/^conformance_/)'
    sampled "$work/$crate/survivors" "$work/$crate/ledger" caught timeout >"$work/$crate/caught-later"
    comm -23 "$work/$crate/survivors" "$work/$crate/caught-later" >"$work/$crate/left"
    mv "$work/$crate/left" "$work/$crate/survivors"
  fi

  unviable=$(sampled "$work/$crate/sample" "$work/$crate/own" unviable | wc -l)
  missed=$(wc -l <"$work/$crate/survivors")
  tried=$(sampled "$work/$crate/sample" "$work/$crate/own" caught missed timeout | wc -l)
  killed=$((tried - missed))
  if ((tried == 0)); then
    printf '\n%s: nothing was tried; see %s\n' "$crate" "$work/$crate/own/log"
    failed=1
    continue
  fi
  percent=$((100 * killed / tried))
  printf '\n%s: %d of %d mutants killed, %d %% (target %d %%); %d do not compile, %d not tried; %d s\n' "$crate" "$killed" "$tried" \
    "$percent" "$(target_of "$crate")" "$unviable" "$(($(wc -l <"$work/$crate/sample") - tried - unviable))" $((SECONDS - begun))
  ((percent >= $(target_of "$crate"))) || failed=1
  if ((4 * (tried + unviable) < 3 * $(wc -l <"$work/$crate/sample"))); then
    printf '  INCOMPLETE: too few were tried in %d minutes to say anything about the sample\n' "$minutes"
    failed=1
  fi
  while IFS= read -r mutant; do
    if grep -qF -- "$(without_position <<<"$mutant")" "$explained"; then
      printf '  survived, explained: %s\n' "$mutant"
    else
      printf '  SURVIVED: %s\n' "$mutant"
      failed=1
    fi
  done <"$work/$crate/survivors"
done
exit "$failed"
