#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: packed_test.sh COMPILER PROGRAM
# With values saved in 8 bits the model needs less memory for a step, and learns.
set -euo pipefail
compiler=$1 program=$2
folder=$TEST_TMPDIR
fail() { echo "FAILED: $*" >&2; exit 1; }

# Compiles with the flags, and prints the peak of a step in MiB.
peak_of() {
  "$compiler" --peaks --out="$folder/model.cotan" "$@" > "$folder/summary"
  sed -nE 's/^ +train_step .*, peak ([0-9.]+) MiB.*/\1/p' "$folder/summary"
}
# Prints the accuracy after training, in whole percent.
accuracy() {
  "$program" --train_images=1280 --held_out_images=200 --threads=2 --epochs=4 --artifact="$folder/model.cotan" \
    > "$folder/output" 2>&1 || fail "$(cat "$folder/output")"
  sed -nE 's/^held-out accuracy: ([0-9]+)\.[0-9] %$/\1/p' "$folder/output"
}

plain=$(peak_of)
plain_accuracy=$(accuracy)
packed=$(peak_of --saved_tensor_hooks=int8)
packed_accuracy=$(accuracy)
echo "saved as they are: $plain MiB, $plain_accuracy %; in 8 bits: $packed MiB, $packed_accuracy %"
awk -v plain="$plain" -v packed="$packed" 'BEGIN { exit !(packed > 0 && packed < 0.8 * plain) }' ||
  fail "the peak of a step is $packed MiB instead of $plain MiB"
((plain_accuracy >= 90 && packed_accuracy >= 90)) || fail "learned too little"
