#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: compiler_dist_test.sh UNPACK TARBALL TEST EXAMPLE TRAIN
# TEST passes with the wheels of the tarball, and the C program TRAIN trains the artifact that the Python program EXAMPLE compiled.
# Without PyTorch for $COTAN_PYTHON the XML report says skipped; Bazel reports the test as passed.
set -euo pipefail
python=${COTAN_PYTHON:-python3}
source "$1"

if ! "$python" -c 'import torch, numpy' 2> "$TEST_TMPDIR/import"; then
  echo "skipped: $python has no PyTorch: $(tail -n 1 "$TEST_TMPDIR/import")"
  cat > "$XML_OUTPUT_FILE" << 'END'
<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="compiler_dist_test" tests="1" skipped="1">
<testcase name="compiler_dist_test"><skipped message="PyTorch for Python is not installed"/></testcase>
</testsuite></testsuites>
END
  exit 0
fi

unpack "$2"
export HOME=$TEST_TMPDIR  # pip keeps a cache there
site=$TEST_TMPDIR/site
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --target "$site" "$prefix"/python/*.whl
export PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1
# A script's own folder is searched first, and there are the sources of the package.
cp "$3" "$TEST_TMPDIR/cotan_test.py"
"$python" "$TEST_TMPDIR/cotan_test.py"
"$python" "$4" 2> "$TEST_TMPDIR/usage" && fail "$4 without a file has status 0"
grep -q '^usage: ' "$TEST_TMPDIR/usage" || fail "$4 without a file: $(cat "$TEST_TMPDIR/usage")"
"$python" "$4" "$TEST_TMPDIR/digits.cotan" || fail "$4"
"$5" "$TEST_TMPDIR/digits.cotan" "$TEST_TMPDIR" || fail "$5 with the artifact of $4"
