#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: target_test.sh SOURCE
# Processors with 32-bit addresses and big-endian ones are refused when Cotan is compiled.
set -euo pipefail
source=$1
fail() { echo "FAILED: $*"; exit 1; }
check() { g++ -fsyntax-only "$@" "$source" 2> "$TEST_TMPDIR/errors"; }

check || fail "this processor is refused: $(cat "$TEST_TMPDIR/errors")"
check -m32 && fail "32-bit addresses are accepted"
grep -q "Cotan needs a processor with 64-bit addresses" "$TEST_TMPDIR/errors" || fail "$(cat "$TEST_TMPDIR/errors")"
check -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__ && fail "a big-endian processor is accepted"
grep -q "Cotan needs a little-endian processor" "$TEST_TMPDIR/errors" || fail "$(cat "$TEST_TMPDIR/errors")"
