#!/usr/bin/env bash
# A Ray head on this machine that answers only those who have the token, for `ray job submit`.
#
#   cluster/local_head.sh [--detach] [--dashboard-port PORT] [--gcs-port PORT] [-- MORE OPTIONS OF ray start]
#
# Makes a token if there is none, starts the head on 127.0.0.1 with ports that are free (or given), checks that a request
# without the token is refused, prints the command that submits a sweep, and stays in the foreground until Ctrl-C (or
# `kill` of this script) stops this head and no other. With --detach it returns once the head is up, and prints the
# command that stops it. Results go to LENGTHWISE_STORAGE, by default ~/lengthwise-sweeps.
# The job interface listens on 127.0.0.1; ports that Ray uses between its own processes listen wider.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${LENGTHWISE_BIN:-$here/.venv/bin}   # where python and ray are
[[ -x $bin/ray ]] || { echo "$bin/ray is not there; run: make install" >&2; exit 2; }

dashboard_port= gcs_port= detach=
given=("$@")
while (($#)); do
  case $1 in
    --dashboard-port) dashboard_port=${2:?--dashboard-port needs a number}; shift 2 ;;
    --gcs-port) gcs_port=${2:?--gcs-port needs a number}; shift 2 ;;
    --detach) detach=yes; shift ;;
    --help | -h) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --) shift; break ;;
    *) echo "unknown option: $1; allowed: --detach, --dashboard-port, --gcs-port, and options of ray start after --" >&2; exit 2 ;;
  esac
done

# --- a job runs in a temporary folder, so a relative storage is made the one of this folder
storage=${LENGTHWISE_STORAGE:-}
[[ -z $storage || $storage == /* || $storage == *:/* ]] || export LENGTHWISE_STORAGE=$PWD/$storage

# --- detached: the same script in the background, in a session of its own, until it says that the head is up
if [[ -n $detach ]]; then
  rest=()
  for one in "${given[@]}"; do [[ $one == --detach ]] || rest+=("$one"); done
  log=$(mktemp /tmp/lw-head-log.XXXXXX)
  LENGTHWISE_HEAD_DETACHED=yes "$bin/python" -c 'import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])' \
    "$BASH" "${BASH_SOURCE[0]}" ${rest[@]+"${rest[@]}"} </dev/null >"$log" 2>&1 &
  behind=$!
  trap 'kill "$behind" 2>/dev/null || true' INT TERM
  until grep -q '^To stop this head' "$log"; do
    if ! kill -0 "$behind" 2>/dev/null; then cat "$log" >&2; rm -f "$log"; exit 1; fi
    sleep 0.2
  done
  cat "$log"
  echo "Its messages: $log"
  exit 0
fi

# --- the token: an existing one is used, a missing one is made; it is never overwritten or printed
export RAY_AUTH_MODE=token
token_file=${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}
if [[ -z ${RAY_AUTH_TOKEN:-} ]]; then
  if [[ ! -e $token_file ]]; then
    mkdir -p -m 700 "$(dirname "$token_file")"
    (umask 077 && set -o noclobber && "$bin/python" -c 'import secrets; print(secrets.token_hex(32), end="")' >"$token_file")
    echo "made a token in $token_file"
  fi
  [[ -s $token_file ]] || { echo "$token_file is empty; write a token into it or remove it" >&2; exit 2; }
  chmod 600 "$token_file"
  export RAY_AUTH_TOKEN_PATH=$token_file
fi

# --- ports: given ones must be free; the others are chosen
ports=$("$bin/python" - "$dashboard_port" "$gcs_port" <<'PYTHON'
import socket, sys
held, numbers = [], []
for given in [*sys.argv[1:], "", ""]:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", int(given or 0)))
    except (OSError, ValueError, OverflowError) as error:
        sys.exit(f"port {given} on 127.0.0.1 cannot be used: {error}")
    held.append(sock)
    numbers.append(sock.getsockname()[1])
print(*numbers)
PYTHON
)
read -r dashboard_port gcs_port client_port agent_port <<<"$ports"
url=http://127.0.0.1:$dashboard_port

# --- the head: in its own session, so that all its processes can be found, and with its own files, so that it is
# not the head that `ray.init(address="auto")` of somebody else finds
files=$(mktemp -d /tmp/lw-head.XXXXXX)
head=

members() { # processes of the head's session
  "$bin/python" - "$head" <<'PYTHON'
import os, sys, psutil
for pid in psutil.pids():
    try:
        if os.getsid(pid) == int(sys.argv[1]) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            print(pid)
    except (OSError, psutil.Error):
        pass
PYTHON
}

stop() {
  local code=$?
  trap '' INT TERM
  trap - EXIT
  exec 3>&2 2>/dev/null   # bash would report the ended head
  if [[ -n $head ]]; then
    echo "stopping the head at $url"
    kill -TERM "$head" 2>/dev/null || true
    for _ in {1..40}; do kill -0 "$head" 2>/dev/null || break; sleep 0.25; done
    for _ in {1..40}; do
      local left; left=$(members)
      [[ -n $left ]] || break
      kill -KILL $left 2>/dev/null || true
      sleep 0.1
    done
    wait "$head" 2>/dev/null || true
  fi
  if ((code == 0 || code == 130 || code == 143)); then rm -rf "$files"; else echo "Ray's logs are in $files" >&3; fi
  exit "$code"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

RAY_USAGE_STATS_ENABLED=0 TMPDIR=$files PATH=$bin:$PATH "$bin/python" -c 'import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])' \
  "$bin/ray" start --head --block --node-ip-address 127.0.0.1 --port "$gcs_port" \
  --include-dashboard true --dashboard-host 127.0.0.1 --dashboard-port "$dashboard_port" \
  --ray-client-server-port "$client_port" --dashboard-agent-listen-port "$agent_port" \
  --temp-dir "$files" --disable-usage-stats "$@" </dev/null >"$files/ray-start.log" 2>&1 &
head=$!

status() { # HTTP status of an address, without the token
  "$bin/python" - "$1" <<'PYTHON'
import sys, urllib.error, urllib.request
try:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    print(opener.open(sys.argv[1], timeout=2).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    print("nothing")
PYTHON
}

way=", in the foreground"
[[ -z ${LENGTHWISE_HEAD_DETACHED:-} ]] || way=
echo "starting a head at $url$way"
# The agent starts the jobs, and is up a few seconds later than the interface that takes them.
for address in "$url/api/jobs/" "http://127.0.0.1:$agent_port/api/job_agent/jobs/"; do
  answer=nothing
  for _ in {1..120}; do
    if ! kill -0 "$head" 2>/dev/null; then tail -n 20 "$files/ray-start.log" >&2; echo "the head did not start" >&2; exit 1; fi
    answer=$(status "$address")
    case $answer in nothing | 5??) sleep 0.5 ;; *) break ;; esac
  done
  if [[ $answer != 401 ]]; then
    echo "without the token $address answered '$answer' instead of 401: it is not protected, or not up after two minutes" >&2
    exit 1
  fi
done

# --- what to type
token_setting=
if [[ -z ${RAY_AUTH_TOKEN:-} && $token_file != "$HOME/.ray/auth_token" ]]; then
  token_setting=" RAY_AUTH_TOKEN_PATH=$(printf %q "$token_file")"
fi
cat <<TEXT
The head is up; without the token it answers 401. From $here, in another terminal:

RAY_AUTH_MODE=token$token_setting $(printf %q "$bin/ray") job submit --address $url --submission-id quickstart --runtime-env-json "\$($(printf %q "$bin/lengthwise") job-env)" --working-dir . -- python -m orchestrator run search_spaces/quickstart.yaml

Results go to ${LENGTHWISE_STORAGE:-$HOME/lengthwise-sweeps}.
To stop this head, and only this one: ${way:+Ctrl-C here, or: }kill $$
TEXT
wait "$head" || { echo "the head ended by itself; the last lines of its log:" >&2; tail -n 20 "$files/ray-start.log" >&2; exit 1; }
exit 1
