#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: compiler_digest_test.sh LIBRARIES MANIFEST HEADER WRITE_CODE_DIGEST
# The compiler's digest depends on each byte of each library that the compiler links.
set -euo pipefail
libraries=$1  # labels of the libraries with sources that //aot depends on, one on each line
manifest=$2   # what is digested: lines of a label and a file
header=$3     # with the digest
write_code_digest=$4

# Libraries that are not digested:
# - It contains the digest.
exceptions=(//aot/cache:linked_compiler_revision)

fail() { echo "FAILED: $1" >&2; exit 1; }

mapfile -t files < <(cut -d' ' -f2 "$manifest")
not_digested=$(comm -23 <(sort -u "$libraries") <(cut -d' ' -f1 "$manifest" | sort -u))
expected=$(printf '%s\n' "${exceptions[@]}" | sort)
missing=$(comm -23 <(echo "$not_digested") <(echo "$expected"))
[ -z "$missing" ] || fail "these libraries are linked and not digested:"$'\n'"$missing"
stale=$(comm -13 <(echo "$not_digested") <(echo "$expected"))
[ -z "$stale" ] || fail "these exceptions are digested, or not linked:"$'\n'"$stale"

# usage: flip_byte FILE. Changes the byte in the middle.
flip_byte() {
  local offset=$(($(stat -Lc %s "$1") / 2))
  local byte
  byte=$(od -An -tu1 -j "$offset" -N 1 "$1")
  # shellcheck disable=SC2059
  printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$offset" conv=notrunc status=none
}

"$write_code_digest" "$TEST_TMPDIR/same.h" "${files[@]}"
cmp "$header" "$TEST_TMPDIR/same.h" || fail "the same libraries have another digest"
for i in "${!files[@]}"; do
  changed=("${files[@]}")
  changed[i]="$TEST_TMPDIR/changed"
  cp --no-preserve=mode "${files[i]}" "${changed[i]}"
  flip_byte "${changed[i]}"
  "$write_code_digest" "$TEST_TMPDIR/changed.h" "${changed[@]}"
  ! cmp -s "$header" "$TEST_TMPDIR/changed.h" || fail "a changed byte of ${files[i]} gives the same digest"
done
echo "${#files[@]} files, each of which decides the digest"
