#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: python_test.sh UNPACK TARBALL ARTIFACT TEST EFFECT_PROGRAM
# The wheel of the tarball is installed with pip, and TEST passes with it. EFFECT_PROGRAM writes a program with effects.
set -euo pipefail
source "$1"
need python3 python3
python3 -c 'import numpy' || fail "NumPy is missing. Run ./bazelw, which installs it, or: apt-get install python3-numpy"
python3 -m pip --version > /dev/null || fail "pip is missing. Run ./bazelw, which installs it, or: apt-get install python3-pip"
unpack "$2"

export HOME=$TEST_TMPDIR  # pip keeps a cache there
site=$TEST_TMPDIR/site
python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-index --target "$site" "$prefix"/python/*.whl
export PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1
# A script's own folder is searched first, and there are the sources of the package.
cp "$4" "$TEST_TMPDIR/test.py"
"$5" "$TEST_TMPDIR/effects.cotan"
python3 "$TEST_TMPDIR/test.py" "$3" "$TEST_TMPDIR/effects.cotan"

names='from cotan_runtime import _library as l; print(*("cotan_" + n for n in {**l._STATUS_FUNCTIONS, **l._OTHER_FUNCTIONS}))'
diff <(python3 -c "$names" | tr ' ' '\n' | LC_ALL=C sort) \
  <(nm --dynamic --defined-only "$site/cotan_runtime/libcotan.so.0" | awk '{ print $NF }' | LC_ALL=C sort) ||
  fail "< only declared in Python, > only in the library"
