#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: contents_test.sh UNPACK TARBALL ARTIFACT
# The tarball is complete, its programs need only libraries that its README names, and the tool runs.
set -euo pipefail
source "$1"
unpack "$2"
artifact=$3

version=$(sed -n 's/.*cotan-//p' <<< "$prefix")
expected="bin/cotan
bin/cotan-link
bin/cotan-pack
include/cotan.h
lib/cmake/Cotan/CotanConfig.cmake
lib/cmake/Cotan/CotanConfigVersion.cmake
lib/libcotan.so
lib/libcotan.so.0
lib/libcotan.so.$version
lib/pkgconfig/cotan.pc
python/cotan_runtime-$version-py3-none-linux_$(uname -m).whl
share/doc/cotan/README.md
share/doc/cotan/examples/CMakeLists.txt
share/doc/cotan/examples/describe.cc
share/doc/cotan/examples/train.c
share/licenses/cotan/LICENSE
share/licenses/cotan/NOTICE"
diff <(echo "$expected") <(cd "$prefix" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort) ||
  fail "< expected, > in the tarball"
grep -rl '@VERSION@' "$prefix/lib" && fail "a version is missing in the files above"

# The packages that the README names for Debian 12 and 13, and what every C++ program has.
known='libdnnl\.so\.(2|3\.6)|libgomp\.so\.1|libprotobuf-lite\.so\.32|libabsl_[a-z0-9_]+\.so\.(20220623|20240722)'
known+='|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libm\.so\.6|libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux-[a-z0-9-]+\.so\.[12]'
for file in lib/libcotan.so bin/cotan bin/cotan-link bin/cotan-pack; do
  allowed=$known
  if [[ $file == bin/cotan-pack ]]; then allowed+='|libpng16\.so\.16|libturbojpeg\.so\.0'; fi
  needed=$(readelf --dynamic "$prefix/$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
  grep -vE "^($allowed)\$" <<< "$needed" && fail "$file needs the libraries above, which the README does not name"
  [[ $file == bin/cotan-* ]] || grep -q '^libdnnl' <<< "$needed" || fail "$file does not need oneDNN: $needed"
done

[[ $("$prefix/bin/cotan" --version) == "cotan $version" ]] || fail "the tool has another version"
"$prefix/bin/cotan" link --help > "$TEST_TMPDIR/usage" || true  # Abseil's status is 1
grep -q 'cotan link CAPTURES' "$TEST_TMPDIR/usage" || fail "the tool does not find cotan-link"
"$prefix/bin/cotan" pack --help 2> "$TEST_TMPDIR/usage" || true  # its status is 2
grep -q 'usage: cotan pack FOLDER' "$TEST_TMPDIR/usage" || fail "the tool does not find cotan-pack"
"$prefix/bin/cotan" inspect "$artifact" > "$TEST_TMPDIR/inspected"
grep -q '^train_step(' "$TEST_TMPDIR/inspected" || fail "the tool does not list train_step: $(cat "$TEST_TMPDIR/inspected")"
