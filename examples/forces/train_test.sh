#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: train_test.sh PROGRAM
# The training program learns forces, repeats itself and refuses.
set -euo pipefail
program=$1
folder=$TEST_TMPDIR
fail() { echo "FAILED: $*"; exit 1; }

train() { "$program" --threads=2 "$@" > "$folder/output" 2>&1; }
# Prints the force error "before" or "after" training, in thousandths.
error_of() { sed -n "s/^force error $1: \([0-9]*\)\.\([0-9]*\)$/\1\2/p" "$folder/output" | sed 's/^0*//'; }

train --steps=1500 || fail "$(cat "$folder/output")"
cat "$folder/output"
before=$(error_of before)
after=$(error_of after)
[[ -n $before && -n $after ]] || fail "no force errors"
((after * 5 < before)) || fail "learned too little: $before and $after thousandths"

# Training is reproducible, with any number of threads.
train --steps=50
cp "$folder/output" "$folder/once"
train --steps=50 --threads=1
cmp "$folder/output" "$folder/once" || fail "one thread and two give different errors"

refuses() {
  local expected=$1
  shift
  train "$@" && fail "accepted: $*"
  grep -q -- "$expected" "$folder/output" || fail "'$expected' is not in: $(cat "$folder/output")"
}
refuses "--steps is negative" --steps=-1
echo garbage > "$folder/garbage"
refuses "garbage" --artifact="$folder/garbage"
{ "$program" --help || true; } | grep -q "steps" || fail "no help"
