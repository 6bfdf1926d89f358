# SPDX-License-Identifier: Apache-2.0
"""Tests that compile, run and compare with LibTorch eager."""

load("//third_party/libtorch:defs.bzl", "torch_cc_test")

_DEPS = [
    "//aot",
    "//kernels/cpu:register_cpu",
    "//runtime",
    "//runtime/execution:program",
    "@com_google_absl//:absl",
    "@com_google_googletest//:gtest_main",
    "@libtorch",
]

def e2e_test(name, deps = [], **kwargs):
    """A torch_cc_test of the source NAME.cc, with the compiler, the runtime and CPU kernels.

    Args:
      name: of the test and its source.
      deps: other dependencies.
      **kwargs: as of torch_cc_test.
    """
    torch_cc_test(
        name = name,
        srcs = [name + ".cc"],
        pch = "torch_test",
        deps = deps + _DEPS,
        **kwargs
    )
