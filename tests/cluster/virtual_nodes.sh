# Virtual nodes on one machine, as root: each has a network, processes, host name, /tmp and /dev/shm of its own.
# slurm_nodes.sh and ssh_nodes.sh source this and define `run_node N`, which starts what runs on a node.
#
#   unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc tests/cluster/ssh_nodes.sh up FOLDER
#   nsenter --target PID --all tests/cluster/ssh_nodes.sh unplug 2     # PID: of the child of unshare
#   nsenter --target PID --all tests/cluster/ssh_nodes.sh plug 2
#
# All nodes see FOLDER as /srv/shared. When the child of unshare dies everything dies with it, the networks too.
set -euo pipefail

plug() { # start node $1; its process 1 adopts and reaps orphans
  export -f run_node
  unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc bash -c '
    mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm && hostname "node$0"
    until ip link show eth0 &>/dev/null; do sleep 0.05; done
    ip link set lo up && ip link set eth0 up && ip address add "10.77.0.$0/24" dev eth0
    run_node "$0"
    exit' "$1" </dev/null >>"/srv/shared/log/node$1.out" 2>&1 &
  local process
  until process=$(pgrep -P $!); do sleep 0.05; done
  ip link add "veth$1" type veth peer name eth0 netns "$process"
  ip link set "veth$1" up master cluster
  echo "$process" >"/srv/node$1.pid"
}

unplug() { # first the network, so that nobody hears of the end of the node
  ip link delete "veth$1"
  kill -KILL "$(<"/srv/node$1.pid")"
}

make_network() { # share folder $1, and connect this machine, `control`, to nodes that do not exist yet
  mount --make-rprivate /
  mount -t tmpfs tmpfs /srv
  mkdir -p /srv/shared "$1/log"
  mount --bind "$1" /srv/shared
  hostname control
  ip link set lo up
  ip link add cluster type bridge
  ip address add 10.77.0.254/24 dev cluster
  ip link set cluster up
  printf '127.0.0.1 localhost\n10.77.0.254 control\n' >/srv/hosts
  printf '10.77.0.%d node%d\n' 1 1 2 2 3 3 4 4 >>/srv/hosts
  mount --bind /srv/hosts /etc/hosts
}
