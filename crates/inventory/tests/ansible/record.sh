#!/bin/sh
# Asks Ansible what it makes of the inventories in this folder, and keeps the answers beside them.
# Only needed when an inventory here changes: tests read the answers. Give it the folder of ansible-core's programs.
set -eu
cd "$(dirname "$0")"
export LC_ALL=C.UTF-8 ANSIBLE_DEPRECATION_WARNINGS=false ANSIBLE_INVENTORY_UNPARSED_FAILED=true
script=$(mktemp)
trap 'rm -f "$script"' EXIT
for file in datacenter.ini precedence.ini fleet.yml script.json; do
  source=$file
  if [ "$file" = script.json ]; then
    printf '#!/bin/sh\ncat "%s"\n' "$PWD/script.json" >"$script"
    chmod +x "$script"
    source=$script
  fi
  "$1/ansible-inventory" -i "$source" --list --export >"$file.exported"
  "$1/ansible-inventory" -i "$source" --list >"$file.merged"
done
