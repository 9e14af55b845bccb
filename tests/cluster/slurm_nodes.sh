#!/usr/bin/env bash
# Slurm on one machine, as root: three nodes, each with a network, processes, host name, /tmp and /dev/shm of its own.
#
#   unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc tests/cluster/slurm_nodes.sh up FOLDER
#   nsenter --target PID --all tests/cluster/slurm_nodes.sh unplug 2     # PID: of the child of unshare
#   nsenter --target PID --all tests/cluster/slurm_nodes.sh plug 2
#
# All nodes see FOLDER as /srv/shared. When the child of unshare dies everything dies with it, the networks too.
set -euo pipefail
conf=/srv/slurm.conf

plug() { # start node $1; its process 1 adopts and reaps orphans
  unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc bash -c '
    mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm && hostname "node$0"
    until ip link show eth0 &>/dev/null; do sleep 0.05; done
    ip link set lo up && ip link set eth0 up && ip address add "10.77.0.$0/24" dev eth0
    slurmd -D -N "node$0" -f "$1" -L "/srv/shared/log/node$0.log"
    exit' "$1" "$conf" </dev/null >>"/srv/shared/log/node$1.out" 2>&1 &
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

up() {
  mount --make-rprivate /
  mount -t tmpfs tmpfs /srv
  mkdir -p /srv/shared /srv/state /srv/munge "$1/log"
  mount --bind "$1" /srv/shared
  hostname control
  ip link set lo up
  ip link add cluster type bridge
  ip address add 10.77.0.254/24 dev cluster
  ip link set cluster up
  printf '127.0.0.1 localhost\n10.77.0.254 control\n10.77.0.1 node1\n10.77.0.2 node2\n10.77.0.3 node3\n' >/srv/hosts
  mount --bind /srv/hosts /etc/hosts

  (umask 077 && head -c 1024 /dev/urandom >/srv/munge/key)
  munged --force --key-file /srv/munge/key --socket /srv/munge/socket --pid-file /srv/munge/pid \
    --log-file /srv/munge/log --seed-file /srv/munge/seed
  cat >"$conf" <<'CONF'
ClusterName=test
SlurmctldHost=control
SlurmUser=root
AuthInfo=socket=/srv/munge/socket,cred_expire=5
StateSaveLocation=/srv/state
SlurmctldPidFile=/srv/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
SlurmdSpoolDir=/tmp/slurmd
SlurmctldLogFile=/srv/shared/log/control.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=5,sched_interval=5
SlurmdTimeout=10
KillWait=20
ReturnToService=2
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=node[1-3] CPUs=4 RealMemory=4000 Gres=gpu:2 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 GraceTime=60
PartitionName=high Nodes=ALL PriorityTier=2 PreemptMode=OFF
CONF
  # Slurm counts these GPUs and opens none of them.
  echo 'NodeName=node[1-3] Name=gpu File=/srv/gpu[0-1]' >/srv/gres.conf
  for n in 0 1; do mknod "/srv/gpu$n" c 1 3; done
  slurmctld -D -f "$conf" &
  for n in 1 2 3; do plug "$n"; done
  wait
}

"$@"
