#!/usr/bin/env bash
# Slurm on one machine with three virtual nodes; virtual_nodes.sh says how to start them.
source "$(dirname "${BASH_SOURCE[0]}")/virtual_nodes.sh"
export SLURM_CONF=/srv/slurm.conf

run_node() { slurmd -D -N "node$1" -L "/srv/shared/log/node$1.log"; }

up() {
  make_network "$1"
  mkdir -p /srv/state /srv/munge
  (umask 077 && head -c 1024 /dev/urandom >/srv/munge/key)
  munged --force --key-file /srv/munge/key --socket /srv/munge/socket --pid-file /srv/munge/pid \
    --log-file /srv/munge/log --seed-file /srv/munge/seed
  cat >"$SLURM_CONF" <<'CONF'
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
  slurmctld -D &
  for n in 1 2 3; do plug "$n"; done
  wait
}

"$@"
