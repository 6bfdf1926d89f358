#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: chars_test.sh PROGRAM AARCH64_PROGRAM
# One artifact trains on both processors: checkpoints of each continue on the other with losses within a thousandth, and
# runs on aarch64 have the same bits.
set -euo pipefail
program=$1
on_aarch64=$2
fail() { echo "FAILED: $*" >&2; exit 1; }

# Runs $1 up to step $2 with the checkpoint $3.
train() {
  "$1" --threads=1 --sample_bytes=1 --steps="$2" --checkpoint="$3" "${@:4}" > "$TEST_TMPDIR/output" 2>&1 ||
    fail "$(cat "$TEST_TMPDIR/output")"
}

# Prints the loss of the third step, which $1 runs on a copy of the checkpoint $2.
third_loss() {
  cp "$2" "$TEST_TMPDIR/third"
  train "$1" 3 "$TEST_TMPDIR/third" --resume
  sed -n 's/.*loss \([0-9.]*\) nats.*/\1/p' "$TEST_TMPDIR/output"
}

train "$program" 2 "$TEST_TMPDIR/expected"
train "$on_aarch64" 2 "$TEST_TMPDIR/actual"
grep -q "^Shall I " "$TEST_TMPDIR/output" || fail "no sample in: $(cat "$TEST_TMPDIR/output")"
train "$on_aarch64" 2 "$TEST_TMPDIR/again"
cmp "$TEST_TMPDIR/actual" "$TEST_TMPDIR/again" || fail "two runs on aarch64 differ"

expected=$(third_loss "$program" "$TEST_TMPDIR/expected")
on_the_other=$(third_loss "$on_aarch64" "$TEST_TMPDIR/expected")
from_the_other=$(third_loss "$program" "$TEST_TMPDIR/actual")
echo "third loss $expected, on aarch64 $on_the_other, after two steps on aarch64 $from_the_other"
for loss in "$on_the_other" "$from_the_other"; do
  awk -v a="$expected" -v b="$loss" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 <= (0.001 * a) ^ 2) }' ||
    fail "losses differ: $expected and $loss"
done
