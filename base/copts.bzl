# SPDX-License-Identifier: Apache-2.0
"""Compile flags that packages share."""

# Code that libcotan.so (//capi) consists of. No definition is replaced at run time, so that calls are inlined as in
# code of a program. .bazelrc has the flag for generated sources. Small binaries have a fixed address.
COTAN_PIC_COPTS = select({
    "@cotan//base:small": ["-fno-pic"],
    "//conditions:default": [
        "-fPIC",
        "-fno-semantic-interposition",
    ],
})

# COTAN_RUNTIME_COPTS without the precompiled header, which has these flags, too.
COTAN_RUNTIME_CODE_COPTS = [
    "-fno-exceptions",
    "-fno-rtti",
] + COTAN_PIC_COPTS

# Code that runs on the device: //runtime, //kernels, //serialization and //base. Tests may omit them. Targets with them
# depend on Abseil, which brings the precompiled header.
COTAN_RUNTIME_COPTS = COTAN_RUNTIME_CODE_COPTS + select({
    "@cotan//third_party:no_precompiled_headers": [],
    # With -fpch-deps Bazel sees the headers in the precompiled one, and compiles a source again when one changes.
    "//conditions:default": [
        "-include",
        "absl_pch/runtime.h",
        "-fpch-deps",
    ],
})

# For code that runs in each step beside the inner loops, which have -O3: small binaries, else compiled for size, keep -O2.
COTAN_STEP_COPTS = select({
    "@cotan//base:small": ["-O2"],
    "//conditions:default": [],
})

# For targets with OpenMP pragmas; they also depend on @openmp//:openmp.
COTAN_OPENMP_COPTS = ["-fopenmp"]
