#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: start_test.sh PROGRAM
# Checks the table and the flag errors of the start benchmark.
set -euo pipefail
program=$1
fail() { echo "FAILED: $*"; exit 1; }

table=$("$program" --processes=1 --warm_steps=1)
echo "$table"
number='-?[0-9]+\.[0-9]+'
[[ $(grep -Ec "^\| (mlp|cnn|gpt|resnet|lstm|gru) +(\| +$number ){6}\| +[1-9][0-9]* \|" <<< "$table") == 6 ]] ||
  fail "expected a line for each model"
"$program" --models=nonsense && fail "accepted a model that does not exist"
"$program" --artifact=/nonsense.cotan && fail "accepted a file that does not exist"
"$program" --processes=0 && fail "accepted 0 processes"
exit 0
