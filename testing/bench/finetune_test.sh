#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: finetune_test.sh COTAN PROGRAM...
# The programs of the benchmark of quantized weights run, and `cotan bench` prints how much memory is resident.
set -euo pipefail
cotan=$1
shift
for program in "$@"; do
  "$cotan" bench "$program" --method=train_step --steps=1 > "$TEST_TMPDIR/output"
  cat "$TEST_TMPDIR/output"
  grep --extended-regexp --quiet '^resident memory: [0-9.]+ MiB at most' "$TEST_TMPDIR/output"
done
