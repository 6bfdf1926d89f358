#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the target $1 with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer; what follows are libFuzzer's
# flags. Inputs with new coverage and crashes are kept in $COTAN_FUZZ_FOLDER/$1, or /tmp/cotan_fuzz/$1.
#
#   testing/fuzz/run.sh artifact -runs=10000000 -max_len=16384
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$1
shift
./bazelw build --config=fuzz "//testing/fuzz:${target}_fuzzer"
folder=${COTAN_FUZZ_FOLDER:-/tmp/cotan_fuzz}/$target
mkdir -p "$folder/corpus" "$folder/crashes"
kept=testing/fuzz/corpus/$target
[[ -d $kept ]] || kept=
# Sizes of an input that are too large are errors of the target, not of the test.
export ASAN_OPTIONS=allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
COTAN_FUZZ_SEEDS=$folder/corpus "bazel-bin/testing/fuzz/${target}_fuzzer" -artifact_prefix="$folder/crashes/" \
  -print_final_stats=1 "$@" "$folder/corpus" $kept
