#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: same_bits_test.sh PORTABLE PROGRAM...
# Each program trains to the bits of PORTABLE, which has all portable kernels, with any number of threads.
set -euo pipefail
folder=$TEST_TMPDIR
flags=(--train_images=640 --held_out_images=64 --epochs=1)

"$1" "${flags[@]}" --threads=1 --checkpoint="$folder/expected"
for program in "$@"; do
  for threads in 1 2; do
    "$program" "${flags[@]}" --threads="$threads" --checkpoint="$folder/actual"
    cmp "$folder/expected" "$folder/actual" || { echo "FAILED: $program differs with $threads threads"; exit 1; }
    rm "$folder/actual"
  done
  if "$program" "${flags[@]}" --device=cuda > "$folder/output" 2>&1; then
    echo "FAILED: $program has a CUDA backend"
    exit 1
  fi
  grep --quiet "kernels for cpu only" "$folder/output"
done
