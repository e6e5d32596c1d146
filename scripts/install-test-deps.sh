#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: PostgreSQL (the programs, not a running cluster), sshd and
# RabbitMQ (the programs, not running services), libfaketime, python3, curl,
# openssl (for certificates of brokers).
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

# The same places as crates/testkit/src/sshd/binaries.rs.
has_sshd() { [[ -x /usr/sbin/sshd ]] || has sshd; }

# The same places as crates/testkit/src/rabbitmq/binaries.rs. What lies in /usr/sbin only becomes another user and calls
# this one.
has_rabbitmq() { [[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]] || has rabbitmq-server; }

# The same places as crates/testkit/src/wrong_clock.rs.
has_faketime() { compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null ||
  [[ -e /usr/lib/faketime/libfaketimeMT.so.1 || -e /usr/local/lib/faketime/libfaketimeMT.so.1 ]]; }

packages=()
has_faketime || packages+=(libfaketime)
has python3 || packages+=(python3)
has curl || packages+=(curl)
has openssl || packages+=(openssl)
has ssh-keygen || packages+=(openssh-client)
needs_postgres=false
has_postgres || needs_postgres=true
needs_sshd=false
has_sshd || needs_sshd=true
needs_rabbitmq=false
has_rabbitmq || needs_rabbitmq=true

if [[ ${#packages[@]} -eq 0 && $needs_postgres == false && $needs_sshd == false && $needs_rabbitmq == false ]]; then
  echo "test dependencies: all there"
  exit 0
fi

has apt-get || {
  echo "test dependencies: missing ${packages[*]} $($needs_postgres && echo "postgresql >= $postgres_min")" \
    "$($needs_sshd && echo openssh-server) $($needs_rabbitmq && echo rabbitmq-server), and there is no apt-get here to install them with" >&2
  exit 1
}

as_root() {
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

install() {
  echo "test dependencies: installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Whatever is installed while this holds is not started. A policy that is there already and says the same stays;
# another one comes back in the end, however we end.
policy=/usr/sbin/policy-rc.d
forbid_starting() {
  local answer=0
  if [[ -x $policy ]]; then
    "$policy" ssh start >/dev/null 2>&1 || answer=$?
    [[ $answer -ne 101 ]] || return 0
    as_root mv "$policy" "$policy.aside"
  fi
  trap allow_starting EXIT
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
  as_root chmod 755 "$policy"
}
allow_starting() {
  as_root rm -f "$policy"
  [[ ! -e $policy.aside ]] || as_root mv "$policy.aside" "$policy"
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

# These packages would start servers that everybody can reach, now and at every boot. Tests start their own.
if [[ $needs_sshd == true || $needs_rabbitmq == true ]]; then
  forbid_starting
fi
[[ $needs_sshd == false ]] || packages+=(openssh-server)
[[ $needs_rabbitmq == false ]] || packages+=(rabbitmq-server)

install "${packages[@]}"

keep_from_boot() {
  echo "test dependencies: keeping the system's own $1 from starting at boot"
  as_root systemctl --quiet disable "${@:2}" 2>/dev/null ||
    echo "test dependencies: $2 could not be disabled; see whether you want it at boot" >&2
}
if has systemctl; then
  [[ $needs_sshd == false ]] || keep_from_boot sshd ssh.service ssh.socket
  # Erlang's own name service comes with it, and listens everywhere too.
  [[ $needs_rabbitmq == false ]] || keep_from_boot RabbitMQ rabbitmq-server.service epmd.service epmd.socket
fi

has_postgres || {
  echo "test dependencies: this distribution's PostgreSQL is older than $postgres_min; see https://apt.postgresql.org" >&2
  exit 1
}
echo "test dependencies: done"
