#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: step_cuda_sim_test.sh PROGRAM
# Checks that the step benchmark runs each model on a device; a simulated GPU says nothing about times.
set -euo pipefail
program=$1
fail() { echo "FAILED: $*"; exit 1; }

export COTAN_KERNEL_CACHE=$TEST_TMPDIR/kernels
json=$("$program" --device=cuda_sim --once --json)
echo "$json"
for model in mlp cnn gpt resnet lstm gru; do
  grep -q "\"model\": \"$model\", \"device\": \"cuda_sim\"" <<< "$json" || fail "no step of $model"
done
table=$("$program" --device=cuda_sim --once --models=mlp)
echo "$table"
grep -q "cotan on cuda_sim µs (min) | eager on cpu µs (min)" <<< "$table" || fail "the columns do not name the devices"
exit 0
