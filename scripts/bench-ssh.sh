#!/usr/bin/env bash
# How long `true` takes on many hosts without an agent: Bowline, Ansible and parallel-ssh, one after the other, against
# one sshd of its own that plays all hosts (127.0.0.1, 127.0.0.2, …). Each logs in with the same key, checks the same host
# keys and starts with no connection open.
#
# Variables:
#   HOSTS   how many hosts (default 200)
#   FORKS   how many at once, for the two others (default 50)
#   ROUNDS  how often all of it is measured (default 3)
#   OUT     also write the lines there
#
# Needs: sshd, ansible (installed by pip into the target directory), parallel-ssh (Debian package pssh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target_dir="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
hosts="${HOSTS:-200}"
forks="${FORKS:-50}"
rounds="${ROUNDS:-3}"
out="${OUT:-/dev/null}"
venv="$target_dir/peers/ansible"

as_root() { if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi; }

if ! command -v parallel-ssh >/dev/null; then
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends pssh openssh-client >/dev/null
fi
if [[ ! -x $venv/bin/ansible ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet ansible-core
fi
cargo build --release --locked -p bowline
cargo build --release --locked -p bowline-ssh --example fanout

facts="$(mktemp -d)"
# The server lives as long as our end of this pipe is open.
coproc SERVER { exec "$target_dir/release/examples/fanout" --serve "$facts" --targets "$hosts"; }
trap 'exec {SERVER[1]}>&-; wait "$SERVER_PID" 2>/dev/null || true; rm -rf "$facts"' EXIT
read -r line <&"${SERVER[0]}"
echo "$line"
mapfile -t fact <"$facts/facts"
user="${fact[0]}" port="${fact[1]}" key="${fact[2]}" known="${fact[3]}"

# A configuration of their own, so that the machine's plays no part.
printf '[defaults]\nhost_key_checking = True\n' >"$facts/ansible.cfg"
export ANSIBLE_CONFIG="$facts/ansible.cfg" ANSIBLE_HOME="$facts/ansible"
ssh_options=(-F /dev/null -i "$key" -o "UserKnownHostsFile=$known" -o StrictHostKeyChecking=yes -o BatchMode=yes)

seconds() { # seconds NAME COMMAND...: says how long it took; its output only if it failed
  local name=$1 begun ended
  shift
  begun=$(date +%s%N)
  "$@" >"$facts/said" 2>&1 || { tail -n 20 "$facts/said" >&2; return 1; }
  ended=$(date +%s%N)
  printf '%s: {"hosts": %d, "seconds": %d.%03d}\n' "$name" "$hosts" $(((ended - begun) / 1000000000)) \
    $(((ended - begun) / 1000000 % 1000))
}

for ((round = 1; round <= rounds; round++)); do
  "$target_dir/release/bowline" bench fleet --only ssh --ssh "$facts" | sed -n 's/^ssh/bowline/p'
  # Without its own persistent connections, as they would outlive the round.
  seconds ansible "$venv/bin/ansible" all -i "$facts/hosts" -m raw -a true -f "$forks" -u "$user" \
    -e "ansible_port=$port ansible_ssh_private_key_file=$key" \
    --ssh-common-args "-F /dev/null -o UserKnownHostsFile=$known -o ControlMaster=no -o ControlPath=none"
  seconds parallel-ssh parallel-ssh -h "$facts/hosts" -l "$user" -p "$forks" -t 120 -x "${ssh_options[*]} -p $port" true
done | tee "$out"
