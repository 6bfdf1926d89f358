#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: train_test.sh PROGRAM
# The training program learns, saves, continues and refuses.
set -euo pipefail
program=$1
folder=$TEST_TMPDIR
fail() { echo "FAILED: $*"; exit 1; }

# Runs with a small data set; output goes to $folder/output.
train() { "$program" --train_images=1280 --held_out_images=200 --threads=2 "$@" > "$folder/output" 2>&1; }

train --epochs=4 --checkpoint="$folder/straight" || fail "$(cat "$folder/output")"
cat "$folder/output"
last=$(tail -n 1 "$folder/output")
[[ $last =~ ^held-out\ accuracy:\ ([0-9]+)\.[0-9]\ %$ ]] || fail "last line: $last"
((BASH_REMATCH[1] >= 90)) || fail "learned too little: $last"

# Interrupted between epochs and continued in a new process: the same bits.
train --epochs=1 --checkpoint="$folder/resumed"
cmp -s "$folder/straight" "$folder/resumed" && fail "one epoch gave the state of four"
train --epochs=4 --checkpoint="$folder/resumed" --resume || fail "$(cat "$folder/output")"
cmp "$folder/straight" "$folder/resumed" || fail "resumed training differs"
[[ $(tail -n 1 "$folder/output") == "$last" ]] || fail "resumed accuracy differs"

# The number of threads does not change a bit.
train --epochs=1 --checkpoint="$folder/one" --threads=1
train --epochs=1 --checkpoint="$folder/two" --threads=2
cmp "$folder/one" "$folder/two" || fail "one thread and two give different bits"

# A last batch of another size: 20 batches of 64 images and one of 3.
train --epochs=1 --train_images=1283 --checkpoint="$folder/rest" || fail "$(cat "$folder/output")"
cmp -s "$folder/one" "$folder/rest" && fail "the rest of an epoch changed nothing"

# Interrupted by a signal in the middle of an epoch.
# This run has an output file of its own: the shell empties a file only when the
# process in the background starts, and until then it has the lines of an earlier run.
interrupted=$folder/interrupted_output
"$program" --train_images=6400 --epochs=1000 --checkpoint="$folder/signal" > "$interrupted" 2>&1 &
process=$!
# It catches signals before the first epoch ends.
until grep -qs "^epoch 1 " "$interrupted"; do
  kill -0 "$process" || fail "$(cat "$interrupted")"
  sleep 0.1
done
kill -INT "$process"
wait "$process" && fail "an interrupted run reports success"
grep -q "saved to" "$interrupted" || fail "$(cat "$interrupted")"
"$program" --train_images=6400 --epochs=0 --checkpoint="$folder/signal" --resume > "$folder/output" 2>&1 ||
  fail "$(cat "$folder/output")"

# Refusals name what is wrong.
refuses() {
  local expected=$1
  shift
  train "$@" && fail "accepted: $*"
  grep -q "$expected" "$folder/output" || fail "'$expected' is not in: $(cat "$folder/output")"
}
refuses "needs --checkpoint" --resume
refuses "no_such_file" --resume --checkpoint="$folder/no_such_file"
refuses "train-images-idx3-ubyte" --data="$folder"
refuses "at least 1" --train_images=0
echo garbage > "$folder/garbage"
refuses "garbage" --artifact="$folder/garbage"
refuses "garbage" --resume --checkpoint="$folder/garbage"
{ "$program" --help || true; } | grep -q "epochs" || fail "no help"
