#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the call benchmark prints all of its cases.
set -euo pipefail
out=$("$TEST_SRCDIR/$TEST_WORKSPACE/testing/bench/call" --iterations=10)
echo "$out"
[[ $(grep -c " ns$" <<<"$out") == 4 ]]
