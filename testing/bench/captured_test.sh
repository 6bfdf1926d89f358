#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the benchmark of captured backwards prints all of its cases, that the step of the large network takes at
# most 1.05 times that of the fused program, and that the tiny backward, which is a second capture of its graph and little
# else, takes at most 20 us. Times are the least of many calls, and five attempts are made, so that the limits hold on a
# busy machine, too.
set -euo pipefail

# Prints the number that follows "$2" in the line of the network $1.
number() { sed -nE "s/^$1 .*$2 +([0-9.]+).*/\1/p" <<< "$out"; }

for attempt in 1 2 3 4 5; do
  out=$("$TEST_SRCDIR/$TEST_WORKSPACE/testing/bench/captured" --seconds=0.1)
  echo "$out"
  [[ $(grep -c " us, ratio " <<< "$out") == 6 ]]
  ratio=$(number large "step: 3 programs captured .* ratio")
  tiny=$(number tiny "backward: 3 programs captured")
  if awk -v ratio="$ratio" -v tiny="$tiny" 'BEGIN { exit !(ratio > 0 && ratio <= 1.05 && tiny > 0 && tiny <= 20) }'; then
    exit 0
  fi
  echo "attempt $attempt: ratio $ratio, tiny backward $tiny us: too slow, or busy"
done
exit 1
