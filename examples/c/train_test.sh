#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: train_test.sh PROGRAM ARTIFACT
# The C program trains, resumes with the same bits, and says what is wrong.
set -euo pipefail
program=$1
artifact=$2
fail() { echo "FAILED: $*"; exit 1; }

"$program" "$artifact" "$TEST_TMPDIR"
[[ -s $TEST_TMPDIR/digits.safetensors ]] || fail "there is no checkpoint"

output=$("$program" "$TEST_TMPDIR/none.cotan" "$TEST_TMPDIR" 2>&1) && fail "a missing file is accepted"
grep -q "NOT_FOUND: cotan_program_load: .*none.cotan" <<< "$output" || fail "the missing file is not named: $output"
output=$("$program" "$artifact" "$TEST_TMPDIR/none" 2>&1) && fail "a missing folder is accepted"
grep -q "NOT_FOUND: cotan_session_save_checkpoint: " <<< "$output" || fail "the missing folder is not named: $output"
