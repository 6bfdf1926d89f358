#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: step_test.sh PROGRAM
# Checks the JSON, the table and the flag errors of the step benchmark.
set -euo pipefail
program=$1
fail() { echo "FAILED: $*"; exit 1; }

json=$("$program" --json --threads=1,2 --seconds=0 --min_calls=1)
echo "$json"
[[ $(wc -l <<< "$json") == 12 ]] || fail "expected 6 models with 1 and 2 threads"
for key in model device threads cotan_us eager_us ratio cotan_peak_bytes eager_peak_bytes first_step_ms flops bytes bound_us; do
  [[ $(grep -c "\"$key\": " <<< "$json") == 12 ]] || fail "no key $key"
done
table=$("$program" --models=mlp --seconds=0 --min_calls=1)
echo "$table"
grep -q "^| mlp " <<< "$table" || fail "no line for mlp"
grep -q "^rates of this machine, threads = 1: f32 [1-9]" <<< "$table" || fail "no rates"
grep -q "cotan / bound" <<< "$table" || fail "no bound"
grep -q "libtorch_cpu" <<< "$table" || fail "no sizes"
table=$("$program" --models=mlp --autocast=bf16 --seconds=0 --min_calls=1)
grep -q "^| mlp_bf16 " <<< "$table" || fail "no line for mlp under autocast"
grep -q "^rates of this machine.* bf16 [1-9]" <<< "$table" || fail "no rate of bf16"
"$program" --autocast=f16 && fail "accepted autocast to f16"
"$program" --models=nonsense && fail "accepted a model that does not exist"
"$program" --threads=0 && fail "accepted 0 threads"
"$program" --device=quantum && fail "accepted an unknown device"
# Without a GPU the error says so; with one the step runs on it.
if ! error=$("$program" --device=cuda --models=mlp --once 2>&1 > /dev/null); then
  echo "$error"
  grep -q "UNAVAILABLE: .*CUDA" <<< "$error" || fail "the error of a missing GPU does not say so"
fi
# A simulated GPU needs NVRTC.
if json=$("$program" --device=cuda_sim --models=mlp --once --json 2>&1); then
  grep -q '"model": "mlp", "device": "cuda_sim"' <<< "$json" || fail "no result of the simulated GPU: $json"
else
  grep -q "UNAVAILABLE: kernels cannot be compiled" <<< "$json" || fail "the simulated GPU fails: $json"
fi
exit 0
