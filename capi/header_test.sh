#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: header_test.sh HEADER LIBRARY NULL_TEST
# The header is C99 and C++, the library exports exactly its functions, and each is called in NULL_TEST.
set -euo pipefail
header=$1
library=$2
null_test=$3
folder=$TEST_TMPDIR
fail() { echo "FAILED: $*"; exit 1; }

gcc -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$header"
gcc -std=c17 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$header"
g++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c++ "$header"

# Declarations begin with COTAN_API at the start of a line; comments are not read.
gcc -E -P -x c "$header" | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
  grep -oE '\bcotan_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u > "$folder/declared"
nm --dynamic --defined-only "$library" | awk '{ print $NF }' | sort -u > "$folder/exported"
diff "$folder/declared" "$folder/exported" || fail "< only in the header, > only exported"
(($(wc -l < "$folder/declared") > 40)) || fail "only $(wc -l < "$folder/declared") functions were found"

readelf --dynamic "$library" | grep -q 'SONAME.*\[libcotan\.so\.0\]' || fail "the SONAME is not libcotan.so.0"
readelf --dynamic "$library" | grep -q TEXTREL && fail "the library has text relocations"
if readelf --dynamic "$library" | grep NEEDED | grep -iE 'torch|c10|python'; then
  fail "the library needs the libraries above"
fi

# Functions without parameters that could be NULL.
other='cotan_(abi_version|check_abi|dtype_name|dtype_size|last_error|last_error_code|status_name|version)'
while read -r function; do
  [[ $function =~ ^$other$ ]] && continue
  grep -qE "\b$function\(" "$null_test" || fail "$function is not called in $null_test"
done < "$folder/declared"
