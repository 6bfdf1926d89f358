#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tools_test.sh COTAN PROGRAM
# The tool runs a program for several ranks as one rank.
set -euo pipefail
cotan=$1 program=$2

"$cotan" verify "$program" | tee "$TEST_TMPDIR/verify"
tail -n 1 "$TEST_TMPDIR/verify" | grep -E '^[1-9][0-9]* passed, 0 failed$'
"$cotan" bench "$program" --steps=3 --threads=1 --profile --trace="$TEST_TMPDIR/trace.json" > "$TEST_TMPDIR/bench"
grep -E '^train_step: median [0-9.]+ us' "$TEST_TMPDIR/bench"
grep --quiet collective "$TEST_TMPDIR/trace.json"
"$cotan" run "$program" --steps=2 --save="$TEST_TMPDIR/two.safetensors" > "$TEST_TMPDIR/two"
"$cotan" run "$program" --steps=1 --checkpoint="$TEST_TMPDIR/two.safetensors" > "$TEST_TMPDIR/third"
"$cotan" run "$program" --steps=3 > "$TEST_TMPDIR/three"
loss() { grep loss "$1" | tail -n 1; }
loss "$TEST_TMPDIR/three" | grep -E 'f32\[\] = \[[0-9.]+\]'
[[ $(loss "$TEST_TMPDIR/third") == "$(loss "$TEST_TMPDIR/three")" ]]
[[ $(loss "$TEST_TMPDIR/two") != "$(loss "$TEST_TMPDIR/three")" ]]
"$cotan" inspect "$program" --html="$TEST_TMPDIR/page.html"
