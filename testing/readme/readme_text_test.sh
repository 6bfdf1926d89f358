#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: readme_text_test.sh README SOURCE
# Checks that the C++ example of the README is the one that is compiled.
set -euo pipefail
diff <(sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$1") \
  <(sed -n '/^\/\/ README begin$/,/^\/\/ README end$/{/^\/\/ README/d;p}' "$2")
