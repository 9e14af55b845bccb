#!/usr/bin/env bash
#SBATCH --nodes=2
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
##SBATCH --gpus-per-node=1
##SBATCH --partition=CHANGE --account=CHANGE
#
# A sweep on Slurm, with a Ray of its own on all nodes of the job. Change the lines above (## is off), then, from the root
# of this repository, or of a folder that has a .venv with lengthwise:
#
#   sbatch cluster/slurm.sh search_spaces/quickstart.yaml [options of `lengthwise run`]
#
# The same command again resumes the sweep. Two minutes before its time is over, or when it is preempted, the job stops the
# sweep as Ctrl-C does, requeues itself and resumes. cluster/README.md says more.
#SBATCH --job-name=lengthwise
#SBATCH --open-mode=append
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
set -euo pipefail

if [[ -z ${SLURM_JOB_ID:-} || $# -eq 0 ]]; then
  echo "usage: sbatch cluster/slurm.sh SWEEP.yaml [options of lengthwise run]" >&2
  exit 2
fi
bin=${LENGTHWISE_BIN:-$PWD/.venv/bin}   # where python and ray are, on every node
[[ -x $bin/ray ]] || { echo "$bin/ray is not there; run: make install" >&2; exit 2; }

# On the disk of each node, and short: the paths of Ray's sockets are in it.
export LENGTHWISE_NODE=/tmp/lw-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
export PATH=$bin:$PATH RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$LENGTHWISE_NODE/auth_token RAY_USAGE_STATS_ENABLED=0
unset RAY_AUTH_TOKEN RAY_ADDRESS

# Not `ray symmetric-run`: it refuses to start beside another Ray on a node, and ends with `ray stop`, which kills that one.
ray_node() { # Run one Ray node until SIGINT or SIGTERM. The token is standard input, the arguments are those of `ray start`.
  mkdir -m 700 "$LENGTHWISE_NODE"   # Ray lets everybody write to its own folder, so that one is inside
  (umask 077 && cat >"$RAY_AUTH_TOKEN_PATH")
  local guard guardian ray stopped=
  # However this shell ends, the guardian then kills all processes of the node and removes the folder.
  exec {guard}> >(exec python -m orchestrator.running.with_ray.processes "$LENGTHWISE_NODE")
  guardian=$!
  # Free ports instead of Ray's fixed ones, which another job on this node may have.
  LENGTHWISE_RAY=$LENGTHWISE_NODE ray start "$@" --block --disable-usage-stats \
    --num-cpus "$SLURM_CPUS_ON_NODE" --num-gpus "${SLURM_GPUS_ON_NODE:-0}" --object-store-memory 268435456 \
    --temp-dir "$LENGTHWISE_NODE/ray" --plasma-directory "$LENGTHWISE_NODE" \
    --min-worker-port 0 --max-worker-port 0 --dashboard-agent-listen-port 0 \
    </dev/null >"$LENGTHWISE_NODE/ray-start.log" 2>&1 {guard}>&- &
  ray=$!
  trap 'stopped=0; kill "$ray" 2>/dev/null' INT       # from this script
  trap 'stopped=143; kill "$ray" 2>/dev/null' TERM    # from Slurm
  wait "$ray" || true
  [[ -n $stopped ]] || { echo "Ray ended by itself on $(hostname):"; tail -n 20 "$LENGTHWISE_NODE/ray-start.log"; } >&2
  trap '' INT TERM
  exec {guard}>&-
  wait "$guardian"
  exit "${stopped:-1}"
}
export -f ray_node

interrupted='' sweep='' head='' workers=''
interrupt() {
  interrupted=yes
  [[ -z $sweep ]] || kill "$sweep" 2>/dev/null || true
}
trap interrupt USR1 TERM

ended() { # Return when a process has ended. `wait` would not do: bash can miss an end while a trap interrupts it.
  while kill -0 "$1" 2>/dev/null; do sleep 0.5; done
}
stop() { # the workers before the head, whose end they would report
  trap '' USR1 TERM
  if [[ -n $workers ]]; then
    scancel --signal=INT "$SLURM_JOB_ID.0" 2>/dev/null || true
    ended "$workers"
  fi
  if [[ -n $head ]]; then
    kill "$head" 2>/dev/null || true
    ended "$head"
  fi
  head='' workers=''
}
trap stop EXIT

# --- the head, here: at the address by which it reaches the other nodes, or at 127.0.0.1 where there are none
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
read -r address client_port < <(python -c 'import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, socket.socket() as free:
    probe.connect(((*sys.argv[1:], "127.0.0.1")[0], 9))
    free.bind((probe.getsockname()[0], 0))
    print(*free.getsockname())' "${nodes[@]:1:1}") || { echo "node ${nodes[1]} is not found by its name" >&2; exit 1; }
ray_node --head --node-ip-address "$address" --port 0 --ray-client-server-port "$client_port" --include-dashboard false \
  < <(python -c 'import secrets; print(secrets.token_hex(32), end="")') &
head=$!
until [[ -s $LENGTHWISE_NODE/ray/ray_current_cluster ]]; do
  kill -0 "$head" 2>/dev/null || { echo "Ray's head did not start" >&2; exit 1; }
  sleep 0.2
done
RAY_ADDRESS=$(<"$LENGTHWISE_NODE/ray/ray_current_cluster")
export RAY_ADDRESS

# --- the other nodes: one that does not come within two minutes is not waited for
# Before it preempts a job Slurm sends SIGTERM to its steps and not to this script, so the first node has a task too, which
# only listens.
{
  srun --quiet --nodes ${#nodes[@]} --ntasks ${#nodes[@]} --kill-on-bad-exit=0 --cpu-bind none bash -c '
    ((SLURM_NODEID == 0)) || ray_node --address "$RAY_ADDRESS"
    trap "kill \$!; exit 0" INT
    sleep infinity & wait; exit 143' <"$RAY_AUTH_TOKEN_PATH" || (($? != 143)) || kill -USR1 $$
} &
workers=$!
python - ${#nodes[@]} <<'PYTHON'
import sys, time, ray
ray.init(logging_level="ERROR", log_to_driver=False)
wanted, deadline = int(sys.argv[1]), time.monotonic() + 120
while (joined := sum(node["Alive"] for node in ray.nodes())) < wanted and time.monotonic() < deadline:
    time.sleep(0.5)
print(f"Ray has {joined} of {wanted} nodes")
PYTHON

# --- the sweep
code=143
if [[ -z $interrupted ]]; then
  TMPDIR=$LENGTHWISE_NODE lengthwise run "$@" --resume </dev/null &
  sweep=$!
  [[ -z $interrupted ]] || interrupt   # in the moment between
  ended "$sweep"
  wait "$sweep" && code=0 || code=$?
fi
if [[ -n $interrupted ]] && ((code == 130 || code == 143)); then
  stop
  # A cancelled job is no longer running for Slurm; one that is out of time or about to be preempted is.
  if [[ $(squeue --noheader --jobs "$SLURM_JOB_ID" --format %T) == RUNNING ]]; then
    echo "requeued, to resume the sweep"
    scontrol requeue "$SLURM_JOB_ID"
  fi
fi
exit "$code"
