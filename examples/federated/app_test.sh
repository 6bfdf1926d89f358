#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: app_test.sh TEST WHEEL PROGRAM
# TEST passes with the package of WHEEL, and without Flower.
set -euo pipefail
python3 -c 'import numpy' || { echo "NumPy is missing. Run ./bazelw, or: apt-get install python3-numpy"; exit 1; }
python3 -m zipfile --extract "$2" "$TEST_TMPDIR/site"
folder=$(dirname "$1")
export PYTHONPATH=$TEST_TMPDIR/site:$folder:$folder/app PYTHONDONTWRITEBYTECODE=1
python3 "$1" "$3"
