#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: same_forces_test.sh TRAIN TRAIN_ENERGY
# Both programs begin with equal parameters and take the same steps: force errors within a hundredth.
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }

for number in 1 2; do
  program=${!number}
  "$program" --threads=1 --steps=50 > "$TEST_TMPDIR/$number" 2>&1 || fail "$(cat "$TEST_TMPDIR/$number")"
done
error_of() { sed -n "s/^force error $2: \([0-9.]*\)$/\1/p" "$TEST_TMPDIR/$1"; }
for when in before after; do
  inside=$(error_of 1 "$when")
  outside=$(error_of 2 "$when")
  echo "force error $when training: $inside with gradients inside of the model, $outside with a recorded backward"
  awk -v a="$inside" -v b="$outside" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 <= (0.01 * a) ^ 2) }' || fail "they differ"
done
