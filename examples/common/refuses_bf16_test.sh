#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: refuses_bf16_test.sh COMPILER PROGRAM [FLAG...]
# A training program that reads logits as f32 names the dtype of an artifact that returns others.
set -euo pipefail
compiler=$1 program=$2
shift 2
fail() { echo "FAILED: $*"; exit 1; }

"$compiler" --precision=bf16 --out="$TEST_TMPDIR/half.cotan" > /dev/null
"$program" --artifact="$TEST_TMPDIR/half.cotan" --threads=1 "$@" > "$TEST_TMPDIR/output" 2>&1 &&
  fail "accepted logits of bf16"
grep "logits are bf16\[.*--precision" "$TEST_TMPDIR/output" || fail "$(cat "$TEST_TMPDIR/output")"
