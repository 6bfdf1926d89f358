#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: bench_test.sh PROGRAM ARTIFACT PARALLEL_ARTIFACT
# Checks the output and the errors of the benchmark on a simulated GPU; its times mean nothing there.
set -euo pipefail
program=$1 artifact=$2 parallel=$3
fail() { echo "FAILED: $*"; exit 1; }

json=$("$program" --artifact="$artifact" --device=cuda_sim --steps=2 --warmup=3 --block=1 --label=mlp)
echo "$json"
[[ $(wc -l <<< "$json") == 2 ]] || fail "expected resident and host arguments"
for key in model device inputs steps median_us min_us host_us first_step_ms arena_bytes losses graph_nodes; do
  [[ $(grep -c "\"$key\": " <<< "$json") == 2 ]] || fail "no key $key"
done
grep -q '"model": "mlp".*"inputs": "resident", "steps": 2' <<< "$json" || fail "no resident arguments"
grep -q '"graph_nodes": [1-9]' <<< "$json" || fail "no graph of a step"
grep -q '"gpu_bytes": null' <<< "$json" || fail "a simulated GPU has no memory of its own"
[[ $(grep -o '"losses": .*' <<< "$json" | sort -u | wc -l) == 1 ]] || fail "losses depend on the place of the arguments"
cpu=$("$program" --artifact="$artifact" --device=cpu --steps=2 --inputs=resident)
grep -q '"graph_nodes": null' <<< "$cpu" || fail "a CPU has no graphs"
# The example that averages gradients needs a group; on a simulated GPU NCCL is simulated, too.
first_loss() {
  "$program" --artifact="$parallel" --device="$1" --group --inputs=resident --steps=1 --warmup=1 |
    sed -n 's/.*"losses": \[\([0-9]*\.[0-9]\{4\}\).*/\1/p'
}
loss=$(first_loss cuda_sim)
[[ -n $loss && $loss == "$(first_loss cpu)" ]] || fail "a group of one rank has the loss '$loss'"
"$program" --artifact="$parallel" --device=cpu --steps=1 2> /dev/null && fail "ran a parallel program without a group"
"$program" --artifact="$artifact" --device=cuda_sim --inputs=nowhere 2> /dev/null && fail "accepted unknown inputs"
"$program" --artifact="$artifact" --device=quantum 2> /dev/null && fail "accepted an unknown device"
"$program" --artifact=missing.cotan --device=cpu 2> /dev/null && fail "accepted a missing file"
exit 0
