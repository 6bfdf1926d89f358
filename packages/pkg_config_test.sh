#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: pkg_config_test.sh UNPACK TARBALL ARTIFACT
# A C99 program is built with pkg-config from the tarball, and trains.
set -euo pipefail
source "$1"
need gcc gcc
need pkg-config pkgconf
unpack "$2"
artifact=$3

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
pkg-config --validate cotan
version=$(sed -n 's/.*cotan-//p' <<< "$prefix")
[[ $(pkg-config --modversion cotan) == "$version" ]] || fail "another version: $(pkg-config --modversion cotan)"
grep -q -e -ldnnl <<< "$(pkg-config --static --libs cotan)" || fail "oneDNN is not among the private libraries"
# pkg-config quotes the space in the folder.
eval "libdir=$(pkg-config --variable=libdir cotan)"
eval "flags=($(pkg-config --cflags --libs cotan))"
gcc -std=c99 -pedantic -Wall -Wextra -Werror "$prefix/share/doc/cotan/examples/train.c" "${flags[@]}" \
  "-Wl,-rpath,$libdir" -o "$TEST_TMPDIR/train"
"$TEST_TMPDIR/train" "$artifact" "$TEST_TMPDIR"
