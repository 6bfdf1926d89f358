#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: digits_test.sh PROGRAM ARTIFACT
# The example program trains on a simulated GPU as on the CPU, and goes on with the checkpoint of the other.
set -euo pipefail
program=$1 artifact=$2
folder=$TEST_TMPDIR
fail() { echo "FAILED: $*"; exit 1; }

train() {
  "$program" --artifact="$artifact" --train_images=64 --held_out_images=64 --threads=1 "$@" > "$folder/output" 2>&1 ||
    fail "$*: $(cat "$folder/output")"
  cat "$folder/output"
}
loss() { sed -n 's/^epoch 1 .*loss \([0-9.]*\).*/\1/p' "$folder/output"; }

train --epochs=1 --device=cuda_sim --checkpoint="$folder/gpu"
on_gpu=$(loss)
train --epochs=1 --device=cpu --checkpoint="$folder/cpu"
[[ -n $on_gpu && $on_gpu == "$(loss)" ]] || fail "the loss is $on_gpu on the GPU and $(loss) on the CPU"
train --epochs=2 --device=cpu --checkpoint="$folder/gpu" --resume
train --epochs=2 --device=cuda_sim --checkpoint="$folder/cpu" --resume
grep -q "held-out accuracy" "$folder/output" || fail "no accuracy"
