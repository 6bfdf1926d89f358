#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: cmake_test.sh UNPACK TARBALL ARTIFACT
# A CMake project finds the package of the tarball, and its programs run.
set -euo pipefail
source "$1"
need cmake cmake
need make make
unpack "$2"
artifact=$3

build=$TEST_TMPDIR/build
cmake -S "$prefix/share/doc/cotan/examples" -B "$build" -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$build"
"$build/train" "$artifact" "$TEST_TMPDIR"
described=$("$build/describe" "$artifact")
grep -q '  <- input.0: f32\[s0,1,28,28\]' <<< "$described" || fail "the input is not described: $described"
grep -q '  -> loss: f32\[\]' <<< "$described" || fail "the loss is not described: $described"

# Other versions are refused, and a package without its library says so.
project() {
  mkdir -p "$TEST_TMPDIR/$1"
  printf 'cmake_minimum_required(VERSION 3.16)\nproject(p C)\nfind_package(Cotan %s REQUIRED)\n' "$2" \
    > "$TEST_TMPDIR/$1/CMakeLists.txt"
  ! cmake -S "$TEST_TMPDIR/$1" -B "$TEST_TMPDIR/$1/build" -DCMAKE_PREFIX_PATH="$prefix" > "$TEST_TMPDIR/$1.txt" 2>&1
}
project newer 9.9 || fail "version 9.9 is found"
grep -q "9.9" "$TEST_TMPDIR/newer.txt" || fail "the version is not named: $(cat "$TEST_TMPDIR/newer.txt")"
rm "$prefix"/lib/libcotan.so*
project broken 0.2 || fail "a package without a library is found"
grep -q "unpack the package of" "$TEST_TMPDIR/broken.txt" || fail "no advice: $(cat "$TEST_TMPDIR/broken.txt")"
