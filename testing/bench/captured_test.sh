#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the benchmark of captured backwards prints all of its cases, that the step of the large network (batches of
# 128) takes at most 1.05 times that of the fused program and that of the small one (64, 1.03 to 1.05 on an idle machine)
# at most 1.1 times, and that the tiny backward, which is a second capture of its graph and little else, takes at most
# 20 us. Times are the least of many calls, and each limit
# has five attempts, so that it holds on a busy machine, too.
set -euo pipefail

# Prints the number that follows "$2" in the line of the network $1.
number() { sed -nE "s/^$1 .*$2 +([0-9.]+).*/\1/p" <<< "$out"; }
is_at_most() { awk -v number="$1" -v limit="$2" 'BEGIN { exit !(number > 0 && number <= limit) }'; }

small=too_slow large=too_slow tiny=too_slow
for attempt in 1 2 3 4 5; do
  out=$("$TEST_SRCDIR/$TEST_WORKSPACE/testing/bench/captured" --seconds=0.1)
  echo "$out"
  [[ $(grep -c " us, ratio " <<< "$out") == 6 ]]
  is_at_most "$(number small "step: 3 programs captured .* ratio")" 1.1 && small=fast
  is_at_most "$(number large "step: 3 programs captured .* ratio")" 1.05 && large=fast
  is_at_most "$(number tiny "backward: 3 programs captured")" 20 && tiny=fast
  [[ $small$large$tiny == fastfastfast ]] && exit 0
  echo "attempt $attempt: small $small, large $large, tiny $tiny, or the machine is busy"
done
exit 1
