#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: train_test.sh PROGRAM
# The training program learns to write words, saves, continues and refuses.
set -euo pipefail
program=$1
folder=$TEST_TMPDIR
fail() { echo "FAILED: $*"; exit 1; }
train() { "$program" --threads=1 "$@" > "$folder/output" 2>&1; }

train --steps=80 --sample_bytes=20 --checkpoint="$folder/straight" || fail "$(cat "$folder/output")"
cat "$folder/output"
loss=$(sed -n 's/.*loss \([0-9.]*\) nats.*/\1/p' "$folder/output")
awk -v loss="$loss" 'BEGIN { exit !(loss < 3.5) }' || fail "learned too little: $loss nats"
grep -q "Shall I " "$folder/output" || fail "no sample"

# Continued in a new process: the same bits.
train --steps=30 --sample_bytes=1 --checkpoint="$folder/resumed"
train --steps=80 --sample_bytes=20 --checkpoint="$folder/resumed" --resume
cmp "$folder/straight" "$folder/resumed" || fail "resumed training differs"

# Any text will do, but not a tiny one.
echo "too short" > "$folder/short.txt"
train --text="$folder/short.txt" && fail "accepted a text of ten bytes"
grep -q "short.txt has 10 bytes" "$folder/output" || fail "$(cat "$folder/output")"
for i in $(seq 200); do echo "$i times around the world"; done > "$folder/counts.txt"
train --text="$folder/counts.txt" --steps=5 --sample_bytes=5 || fail "$(cat "$folder/output")"
train --text=/no/such/file && fail "accepted a missing text"
grep -q "/no/such/file" "$folder/output" || fail "$(cat "$folder/output")"
