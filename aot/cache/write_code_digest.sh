#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: write_code_digest.sh HEADER FILE...
# Writes a C++ header with the SHA-256 of the files' contents; their order matters, their names do not.
set -euo pipefail
header=$1
shift

digests=$(sha256sum -- "$@" | cut -c1-64)
digest=$(sha256sum <<< "$digests" | cut -c1-64)
cat > "$header" << END
// Made by the build (aot/cache/digest.bzl).
inline constexpr char kCodeDigest[] = "$digest";
END
