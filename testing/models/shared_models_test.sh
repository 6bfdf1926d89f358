#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the models in ../shared/models, beside the repository, and what they save for the backward. Without this
# folder the XML report says skipped; Bazel reports the test as passed.
set -euo pipefail
check="$1"
data="$2"   # a file of testing/models/data
saved="$3"

repository="$(cd "$(dirname "$(readlink -f "$data")")/../../.." && pwd)"
models="$repository/../shared/models"
if [ ! -d "$models" ]; then
  echo "skipped: there is no $models"
  cat > "${XML_OUTPUT_FILE:-/dev/null}" <<END
<testsuites><testsuite name="shared_models_test" tests="1" skipped="1">
<testcase name="shared_models_test"><skipped message="there is no folder shared/models beside the repository"/></testcase>
</testsuite></testsuites>
END
  exit 0
fi
"$check" --dir="$models" --scratch="$TEST_TMPDIR"
"$saved" --dir="$models" --check
