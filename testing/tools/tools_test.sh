#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: tools_test.sh COTAN DIGITS OTHER TOOLS_TEST_PY
set -eu
exec python3 -B "$4" "$1" "$2" "$3"
