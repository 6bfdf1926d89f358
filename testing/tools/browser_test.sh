#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: browser_test.sh COTAN DIGITS OTHER TOOLS_TEST_PY
# Looks at the page of `cotan inspect --html` in headless Chromium: no messages on the console, every op drawn once, a
# picture that is not blank. Without Chromium the XML report says skipped; Bazel reports the test as passed.
set -eu
if ! command -v chromium > /dev/null; then
  echo "skipped: chromium is not installed"
  cat > "$XML_OUTPUT_FILE" <<'END'
<testsuites><testsuite name="browser_test" tests="1" skipped="1">
<testcase name="browser_test"><skipped message="chromium is not installed"/></testcase>
</testsuite></testsuites>
END
  exit 0
fi
exec python3 -B "$4" "$1" "$2" "$3" --browser
