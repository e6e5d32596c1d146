#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: PostgreSQL (the programs, not a running cluster), python3, curl.
# If everything is there it says so at once and touches nothing.
set -euo pipefail

postgres_min=15 # the oldest major version Bowline supports

# The same places, in the same order, as crates/testkit/src/postgres/binaries.rs.
has_postgres() {
  local directory major
  for directory in /usr/lib/postgresql/*/bin; do
    major=${directory#/usr/lib/postgresql/}
    major=${major%/bin}
    if [[ $major =~ ^[0-9]+$ && $major -ge $postgres_min && -x $directory/postgres && -x $directory/initdb ]]; then
      return 0
    fi
  done
  directory=$(command -v postgres) || return 1
  [[ -x ${directory%/*}/initdb && $(postgres --version) =~ \)\ ([0-9]+) && ${BASH_REMATCH[1]} -ge $postgres_min ]]
}

has() { command -v "$1" >/dev/null; }

packages=()
has python3 || packages+=(python3)
has curl || packages+=(curl)
needs_postgres=false
has_postgres || needs_postgres=true

if [[ ${#packages[@]} -eq 0 && $needs_postgres == false ]]; then
  echo "test dependencies: all there"
  exit 0
fi

has apt-get || {
  echo "test dependencies: missing ${packages[*]} $($needs_postgres && echo "postgresql >= $postgres_min")," \
    "and there is no apt-get here to install them with" >&2
  exit 1
}

as_root() {
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

install() {
  echo "test dependencies: installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

echo "test dependencies: updating the package lists"
as_root apt-get update -qq

if [[ $needs_postgres == true ]]; then
  # The package would create and start a cluster for the machine. Tests start their own, so we forbid that first,
  # unless somebody has already decided about it.
  settings=/etc/postgresql-common/createcluster.conf
  install postgresql-common
  if ! grep -Eqs '^\s*create_main_cluster\s*=' "$settings"; then
    echo "test dependencies: setting create_main_cluster = false in $settings"
    echo 'create_main_cluster = false' | as_root tee -a "$settings" >/dev/null
  fi
  packages+=(postgresql)
fi

install "${packages[@]}"

has_postgres || {
  echo "test dependencies: this distribution's PostgreSQL is older than $postgres_min; see https://apt.postgresql.org" >&2
  exit 1
}
echo "test dependencies: done"
