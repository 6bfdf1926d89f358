#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: check_test_log.sh STATUS LOG
# Prints the summary and the failures in LOG, the output of `timeout ... bazel test` whose exit status was STATUS. Exits
# with 1 if a test failed or a target did not build. Tests that `timeout` stopped do not count, although Bazel's last
# line says FAILED.
set -euo pipefail

status=$1
log=$2
failures='^(FAIL|TIMEOUT): |^//.* (FAILED|TIMEOUT)|^ERROR: .*failed: \(Exit'
grep -E "^Executed|^ERROR|$failures" "$log" || true
case $status in
  0) ;;
  124 | 137) ! grep -qE "$failures" "$log" || exit 1 ;;
  *) exit 1 ;;
esac
