#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: mapped_test.sh PROGRAM INFERENCE TRAINING
# Checks the table and the errors of the benchmark of mapped states.
set -euo pipefail
program=$1
fail() { echo "FAILED: $*"; exit 1; }

number='[0-9]+\.[0-9]+'
for arguments in "$2" "--method=train_step $3"; do
  table=$("$program" --seconds=0.05 $arguments)
  echo "$table"
  [[ $(grep -Ec "^\| [a-z_0-9]+\.cotan (\| $number ){6}\| -?[0-9]+ \|" <<< "$table") == 1 ]] || fail "expected a line"
done
"$program" --seconds=0.05 --method=nonsense "$2" && fail "accepted a method that does not exist"
"$program" /nonsense.cotan && fail "accepted a file that does not exist"
"$program" --seconds=0 "$2" && fail "accepted no time"
"$program" && fail "accepted no file"
exit 0
