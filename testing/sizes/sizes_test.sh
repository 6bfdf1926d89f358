#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: sizes_test.sh TABLE PROGRAM...
# The table of sizes is true: each program has a row with its size on this release of Debian, stripped, and the libraries
# that it needs. The selective program is within its limit.
set -euo pipefail
table=$1
shift
stripped=$TEST_TMPDIR/stripped
allowed_percent=2
selective_limit=2000000
failed=0
# Fields of a row: nothing, profile, program, sizes, libraries.
column=4
[[ $(. /etc/os-release && echo "${VERSION_ID:-}") != 13 ]] || column=5

# Prints the libraries that a program needs, besides the dynamic linker.
libraries() {
  local names
  names=$(readelf --dynamic "$1" | sed --quiet 's/.*NEEDED.*\[\(lib[^]]*\)\.so.*/\1/p' | sort | paste --serial --delimiters=' ')
  echo "${names:-none}"
}

for program in "$@"; do
  name=//${program%/*}:${program##*/}
  strip -o "$stripped" "$program"
  bytes=$(stat --dereference --format=%s "$stripped")
  needed=$(libraries "$program")
  if [[ ${program##*/} != train ]] && grep --extended-regexp --quiet 'libdnnl|libgomp|OpenCL' <<< "$needed"; then
    echo "FAILED: $name needs $needed"
    failed=1
  fi
  if [[ ${program##*/} == train_selective ]] && ((bytes > selective_limit)); then
    echo "FAILED: $name has $bytes bytes; at most $selective_limit are allowed"
    failed=1
  fi
  row=$(grep --fixed-strings "| \`$name\` |" "$table" || true)
  recorded=$(cut --delimiter='|' --fields="$column" <<< "$row" | tr --delete ' ,')
  difference=$((${recorded:-0} > bytes ? recorded - bytes : bytes - ${recorded:-0}))
  if ((difference * 100 > bytes * allowed_percent)) || [[ $(cut --delimiter='|' --fields=6 <<< "$row") != " $needed " ]]; then
    printf "FAILED: the row of %s in docs/sizes.md must have %'d in column %s and the libraries %s\n" \
      "$name" "$bytes" $((column - 1)) "$needed"
    failed=1
  fi
done
exit "$failed"
