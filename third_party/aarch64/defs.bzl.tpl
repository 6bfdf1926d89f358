# SPDX-License-Identifier: Apache-2.0
"""Where the libraries for aarch64 are, and whether they are."""

# target_compatible_with of what needs them.
AARCH64_COMPATIBLE_WITH = %{available}

# The folder of the arm64 libraries, for the dynamic loader.
AARCH64_LIBRARIES = "%{libraries}"
