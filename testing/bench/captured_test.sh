#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the benchmark of captured backwards prints all of its cases. Limits the captured backward of the large
# network, against the fused program, and that of the tiny one, which is all overhead. Times are the least of many calls,
# and three attempts are made, so that the limits hold on a busy machine, too.
set -euo pipefail

# Prints the times of a backward of size $1, captured and as one program, in microseconds.
times_of_backward() {
  sed -nE "s/^$1 +backward: 3 programs captured +([0-9.]+) us, 1 program +([0-9.]+) us, .*/\1 \2/p" <<< "$out"
}

for attempt in 1 2 3; do
  out=$("$TEST_SRCDIR/$TEST_WORKSPACE/testing/bench/captured" --seconds=0.05)
  echo "$out"
  [[ $(grep -c " us, ratio " <<< "$out") == 6 ]]
  read -r large large_fused < <(times_of_backward large)
  read -r tiny _ < <(times_of_backward tiny)
  if awk -v large="$large" -v fused="$large_fused" -v tiny="$tiny" \
    'BEGIN { exit !(large > 0 && large < 1.5 * fused && tiny > 0 && tiny < 200) }'; then
    exit 0
  fi
  echo "attempt $attempt: too slow, or busy"
done
exit 1
