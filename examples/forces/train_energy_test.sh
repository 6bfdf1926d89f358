#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: train_energy_test.sh PROGRAM
# The training program that differentiates the energy itself learns forces, and repeats itself.
set -euo pipefail
program=$1
folder=$TEST_TMPDIR
fail() { echo "FAILED: $*"; exit 1; }

train() { "$program" "$@" > "$folder/output" 2>&1; }
# Prints the force error "before" or "after" training, in thousandths.
error_of() { sed -n "s/^force error $1: \([0-9]*\)\.\([0-9]*\)$/\1\2/p" "$folder/output" | sed 's/^0*//'; }

train --threads=2 --steps=1500 || fail "$(cat "$folder/output")"
cat "$folder/output"
before=$(error_of before)
after=$(error_of after)
[[ -n $before && -n $after ]] || fail "no force errors"
((after * 5 < before)) || fail "learned too little: $before and $after thousandths"

train --threads=2 --steps=50 || fail "$(cat "$folder/output")"
cp "$folder/output" "$folder/once"
train --threads=1 --steps=50 || fail "$(cat "$folder/output")"
cmp "$folder/output" "$folder/once" || fail "one thread and two give different errors"

train --steps=-1 && fail "accepted a negative number of steps"
grep -q -- "--steps is negative" "$folder/output" || fail "$(cat "$folder/output")"
