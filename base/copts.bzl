# SPDX-License-Identifier: Apache-2.0
"""Compile flags that packages share."""

# Code that runs on the device: //runtime, //kernels, //serialization and //base. Tests may omit them.
COTAN_RUNTIME_COPTS = [
    "-fno-exceptions",
    "-fno-rtti",
]

# For targets with OpenMP pragmas; they also depend on @openmp//:openmp.
COTAN_OPENMP_COPTS = ["-fopenmp"]
