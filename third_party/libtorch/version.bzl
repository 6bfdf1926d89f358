# SPDX-License-Identifier: Apache-2.0
"""The release of LibTorch that bazelw downloads. bazelw reads this line."""

LIBTORCH_VERSION = "2.15.0"
