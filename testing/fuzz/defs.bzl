# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: one reader of untrusted input each (fuzz_target.h)."""

load("//third_party/libtorch:defs.bzl", "torch_cc_library")

def fuzz_target(name, deps, runs = 10000, size = "medium", tags = [], data = [], pch = None):
    """Declares a target with the source NAME_target.cc and the corpus in corpus/NAME, which may be absent.

    NAME_fuzz_test  runs seeds, corpus and mutated inputs.
    NAME_fuzzer     links libFuzzer; needs clang: run.sh.

    Args:
      name: the reader.
      deps: of the source.
      runs: number of mutated inputs of the test.
      size: of the test.
      tags: of the test.
      data: files that the source reads.
      pch: the precompiled header of a source that includes LibTorch.
    """
    library = dict(
        name = name + "_target",
        testonly = True,
        srcs = [name + "_target.cc"],
        data = data,
        deps = deps + [
            ":fuzz_target",
            "@com_google_absl//:absl",
        ],
        alwayslink = True,
    )
    if pch:
        torch_cc_library(pch = pch, **library)
    else:
        native.cc_library(**library)
    corpus = native.glob(["corpus/%s/**" % name], allow_empty = True)
    env = {"COTAN_FUZZ_RUNS": str(runs)}
    if corpus:
        env["COTAN_FUZZ_CORPUS"] = "testing/fuzz/corpus/" + name
    native.cc_test(
        name = name + "_fuzz_test",
        size = size,
        srcs = ["fuzz_test.cc"],
        data = corpus,
        env = env,
        tags = tags,
        visibility = ["//testing/sanitize:__pkg__"],
        deps = [
            ":fuzz_target",
            ":%s_target" % name,
            "//base:test_seed",
            "@com_google_absl//:absl",
            "@com_google_googletest//:gtest_main",
        ],
    )
    native.cc_binary(
        name = name + "_fuzzer",
        testonly = True,
        srcs = ["libfuzzer_main.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [
            ":fuzz_target",
            ":%s_target" % name,
            "@com_google_absl//:absl",
        ],
    )
