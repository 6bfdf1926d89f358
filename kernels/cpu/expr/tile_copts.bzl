# SPDX-License-Identifier: Apache-2.0
"""Compile flags of the inner loops of expressions."""

load("//base:copts.bzl", "COTAN_RUNTIME_COPTS")

# Loops in tile_ops_impl.h and its headers vectorize only if floating point operations do not trap or set errno.
# Signed integers wrap around as in ATen.
TILE_COPTS = COTAN_RUNTIME_COPTS + [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-Wno-psabi",  # vectors never cross a call
]

# The flags of each version of the loops.
TILE_ISA_COPTS = {
    "generic": [],
    "avx2": [
        "-mavx2",
        "-mfma",
        "-mf16c",
    ],
    "avx512": [
        "-mavx2",
        "-mfma",
        "-mf16c",
        "-mavx512f",
        "-mavx512bw",
        "-mavx512dq",
        "-mavx512vl",
        "-mprefer-vector-width=512",
    ],
}

# target_compatible_with of each version.
TILE_ISA_COMPATIBLE_WITH = {
    isa: [] if isa == "generic" else ["@platforms//cpu:x86_64"]
    for isa in TILE_ISA_COPTS
}
