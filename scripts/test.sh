#!/usr/bin/env bash
# Everything that must hold before a commit, in one command. CI runs nothing else.
#
# Needs: a Rust toolchain. Whatever else the tests need is installed by scripts/install-test-deps.sh.
# Starts: one PostgreSQL and one RabbitMQ for the whole run, on free ports, in directories of their own; they are gone
# afterwards.
# Ends: at the first stage that fails, with that stage's exit code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target_dir="${CARGO_TARGET_DIR:-target}"
started_at=$SECONDS

# stage HEADING COMMAND... runs the command under a heading and says how long it took.
stage() {
  local heading="$1" begun=$SECONDS code=0
  shift
  printf '\n==> %s\n' "$heading"
  "$@" || code=$?
  if ((code != 0)); then
    printf '==> FAILED: %s, after %d s (exit code %d)\n' "$heading" $((SECONDS - begun)) "$code" >&2
    exit "$code"
  fi
  printf '==> done: %s, %d s\n' "$heading" $((SECONDS - begun))
}

# Build and tests are two stages, so that a slow compiler is not mistaken for slow tests. The build names all targets of
# the whole workspace, as the tests do: for another selection cargo would choose other features and compile twice.
build=(cargo build --workspace --all-targets --locked)
if cargo nextest --version >/dev/null 2>&1; then
  with_nextest=yes
  runner=(cargo nextest run --workspace --locked --no-fail-fast)
else
  with_nextest=no
  runner=(cargo test --workspace --locked --no-fail-fast)
fi

# The keepers of the servers are started as programs, not through `cargo run`: that would set cargo's own variables for
# everything below it, and build scripts that watch them would run again.
with_servers() {
  "$target_dir/debug/with-postgres" "$target_dir/debug/with-rabbitmq" "$@"
}

stage "test dependencies" scripts/install-test-deps.sh
stage "format" cargo fmt --all --check
stage "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
stage "build" "${build[@]}"
stage "tests, on SQLite and PostgreSQL" with_servers "${runner[@]}"
# A test that cannot fail proves nothing: builds with known mistakes in them must be found out.
planted=(--locked -p bowline-sim -p bowline-store-sql --features bowline-sim/planted,bowline-store-sql/planted)
stage "planted mistakes are found" cargo test "${planted[@]}" --test planted --test planted_mistakes --test fail_at_every_operation
# Alone, because its whole process makes the mistake.
stage "a turn that is added twice is seen by two engines" cargo test --locked -p bowline-engine --features planted --test flows planted_
if [[ $with_nextest == yes ]]; then
  # nextest does not run the examples in the documentation; plain `cargo test` above does.
  stage "documentation examples" cargo test --doc --workspace --locked
fi

printf '\n==> everything holds, %d s\n' $((SECONDS - started_at))
