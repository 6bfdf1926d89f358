# SPDX-License-Identifier: Apache-2.0
"""The version that cotan.h has."""

import re


def VersionOf(header):
  """Returns the version that the text of cotan.h has, such as "0.2.0"."""
  return ".".join(re.search(rf"#define COTAN_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
