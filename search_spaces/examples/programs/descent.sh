#!/usr/bin/env bash
# Gradient descent on x^2 in bash and awk, without Python: descent.sh LR SEED STEPS
# A report is one line of JSON, appended to the file that LENGTHWISE_REPORTS names.
set -euo pipefail
lr=$1 seed=$2 steps=$3
kept=$LENGTHWISE_CHECKPOINTS/last
step=0 x=$((seed + 1))
if [ -e "$kept" ]; then read -r step x <"$kept"; fi

while [ "$step" -lt "$steps" ]; do
  step=$((step + 1))
  x=$(awk -v x="$x" -v lr="$lr" 'BEGIN { printf "%.9g", x - lr * 2 * x }')
  if [ $((step % LENGTHWISE_EVERY)) = 0 ] || [ "$step" = "$steps" ]; then
    error=$(awk -v x="$x" 'BEGIN { printf "%.9g", x * x }')
    echo "{\"step\": $step, \"curves\": {\"error\": $error}}" >>"$LENGTHWISE_REPORTS"
    echo "$step $x" >"$kept.new" && mv "$kept.new" "$kept" # after the report
    if [ "$step" = "$LENGTHWISE_STOP_AT" ] || [ -e "$LENGTHWISE_STOP" ]; then exit 0; fi
  fi
done
