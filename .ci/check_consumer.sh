#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: check_consumer.sh [SECONDS]
# Builds, runs and tests examples/consumer, a workspace that has Cotan as an external repository. The
# exit status is zero only if that works. Actions of an external repository have other paths than
# Cotan's own, so that the disk cache knows them apart: the first run, and each after a change of
# aot/, compiles the compile half a second time. If SECONDS are fewer than that takes, the workspace
# is analysed and the runtime half is built. Nothing is optimized, which takes half the time.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../examples/consumer"
bazel() { ../../bazelw "$@" --curses=no --show_progress_rate_limit=60 < /dev/null; }
# The server of this second workspace is not needed afterwards.
trap '../../bazelw shutdown > /dev/null 2>&1' EXIT

# Without C++20 the error names the flag. --noworkspace_rc leaves the workspace's .bazelrc out.
check_missing_flag() {
  local output
  if output=$(../../bazelw --noworkspace_rc --host_jvm_args=-Xmx1g build --nobuild @cotan//base 2>&1 < /dev/null); then
    echo "FAILED: Cotan is analysed without -std=c++20" >&2
    return 1
  fi
  grep -q "build --cxxopt=-std=c++20" <<< "$output" && return
  echo "FAILED: the error without -std=c++20 does not name the flag: $output" >&2
  return 1
}

check_missing_flag
if ((${1:-3600} < 600)); then
  echo "The compile half is not built: ${1} seconds are left."
  bazel build --compilation_mode=fastbuild --nobuild //...
  bazel build --compilation_mode=fastbuild @cotan//runtime
  exit
fi
bazel test --compilation_mode=fastbuild //...
