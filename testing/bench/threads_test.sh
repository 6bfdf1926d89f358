#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: threads_test.sh PROGRAM
# Checks that models have equal bits with 1 and 2 threads, the table of the benchmark, and its limits. Few models and
# threads: where tests share the processors, threads wait for each other for a long time.
set -euo pipefail
program=$1
fail() { echo "FAILED: $*"; exit 1; }

table=$("$program" --models=mlp,cnn,gru --threads=2 --seconds=0 --neighbor=false)
echo "$table"
number='[0-9]+\.[0-9]+'
[[ $(grep -Ec "^\| (mlp|cnn|gru) +\| +2 (\| +$number ){3}\|$" <<< "$table") == 3 ]] || fail "expected 3 models"
"$program" --models=mlp --seconds=0.05 | grep -Eq "^\| mlp +\| +2 (\| +$number ){6}\|$" || fail "no figures of a neighbor"
"$program" --models=mlp --seconds=0 --neighbor=false --max_ratio=0.001 && fail "exceeded a limit without an error"
"$program" --models=mlp --seconds=0 --max_neighbor_ratio=0.001 && fail "exceeded the neighbor's limit without an error"
"$program" --models=nonsense && fail "accepted a model that does not exist"
"$program" --threads=1 && fail "compared one thread with itself"
exit 0
