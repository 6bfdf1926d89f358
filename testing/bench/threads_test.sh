#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: threads_test.sh PROGRAM
# Checks that all models have equal bits with 1, 2 and 3 threads, the table of the benchmark, and its limits.
set -euo pipefail
program=$1
fail() { echo "FAILED: $*"; exit 1; }

table=$("$program" --threads=2,3 --seconds=0 --neighbor=false)
echo "$table"
number='[0-9]+\.[0-9]+'
[[ $(grep -Ec "^\| (mlp|cnn|gpt|resnet|lstm|gru) +\| +[23] (\| +$number ){3}\|$" <<< "$table") == 12 ]] ||
  fail "expected 6 models with 2 numbers of threads"
"$program" --models=mlp --seconds=0.05 | grep -Eq "^\| mlp +\| +2 (\| +$number ){6}\|$" || fail "no figures of a neighbor"
"$program" --models=mlp --seconds=0 --neighbor=false --max_ratio=0.001 && fail "exceeded a limit without an error"
"$program" --models=mlp --seconds=0 --max_neighbor_ratio=0.001 && fail "exceeded the neighbor's limit without an error"
"$program" --models=nonsense && fail "accepted a model that does not exist"
"$program" --threads=1 && fail "compared one thread with itself"
exit 0
