#!/usr/bin/env bash
# Four machines with sshd and a core each, and one from which `ray up` is typed; virtual_nodes.sh says how to start them.
# The user `lengthwise` has a home of his own on each, which a machine keeps when it is started again. His number is that of
# the owner of this checkout, so that he can read it. LENGTHWISE_VENV is the virtual environment of all machines.
source "$(dirname "${BASH_SOURCE[0]}")/virtual_nodes.sh"

run_node() {
  mkdir -p "/srv/disk$1" && mount --bind "/srv/disk$1" /srv/home && mount -t tmpfs tmpfs /run
  if [[ ! -e /srv/home/lengthwise ]]; then
    mkdir -p /srv/home/lengthwise/.ssh /srv/home/lengthwise/lengthwise
    ln -s "$LENGTHWISE_VENV" /srv/home/lengthwise/lengthwise/venv
    cp /srv/key.pub /srv/home/lengthwise/.ssh/authorized_keys
    # What tests set in workers (tests/startup), and one core, so that a pack is alone on its machine.
    echo "export PYTHONPATH=$PWD/tests/startup HOLD=/srv/shared/hold RAY_OVERRIDE_RESOURCES='{\"CPU\": 1}'" \
      >/srv/home/lengthwise/.bashrc
    chown -R lengthwise: /srv/home/lengthwise && chmod -R go= /srv/home/lengthwise
  fi
  mkdir /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f /run/sshd/host_key
  "$(command -v sshd)" -D -e -f /dev/null -h /run/sshd/host_key -o PidFile=none
}

as_user() { # run a command as the user `lengthwise`, here or on the node whose namespaces this process is in
  exec setpriv --reuid lengthwise --regid "$(id --group lengthwise)" --clear-groups env --ignore-environment \
    HOME=/srv/home/lengthwise USER=lengthwise PATH="$LENGTHWISE_VENV/bin:/usr/bin:/bin:/usr/sbin:/sbin" "$@"
}

up() {
  make_network "$1"
  mount -t tmpfs tmpfs /tmp
  { echo "lengthwise:*:$(stat --format=%u:%g .)::/srv/home/lengthwise:/bin/bash"; cat /etc/passwd; } >/srv/passwd
  mount --bind /srv/passwd /etc/passwd
  mkdir -p /srv/home/lengthwise/.ssh /srv/shared/sweeps /srv/lengthwise
  ssh-keygen -q -t ed25519 -N '' -f /srv/home/lengthwise/.ssh/id_ed25519
  cp /srv/home/lengthwise/.ssh/id_ed25519.pub /srv/key.pub
  chown -R lengthwise: /srv/home/lengthwise /srv/shared/sweeps
  mount --bind /srv/shared/sweeps /srv/lengthwise
  for n in 1 2 3 4; do plug "$n"; done
  wait
}

"$@"
