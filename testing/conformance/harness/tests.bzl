# SPDX-License-Identifier: Apache-2.0
"""Tests that run a table of cases in one mode each."""

load("@local_cuda//:defs.bzl", "CUDA_TOOLKIT")

def mode_tests(name, golden, modes, partial_golden = False, partition_differences = None):
    """Makes NAME_MODE_test for each mode.

    Args:
      name: the binary with the table.
      golden: the file of recorded facts.
      modes: metadata, eager, grad, refusals, dynamic.
      partial_golden: whether cases may lack recorded facts.
      partition_differences: the file of accepted differences between Cotan's partition and the recorded one.
    """
    for mode in modes:
        files = {"golden": golden}
        if partition_differences:
            files["partition_differences"] = partition_differences
        _mode_test("%s_%s_test" % (name, mode), name, mode, files, partial_golden)

def simulated_gpu_tests(name, golden, modes, partial_golden = False, **kwargs):
    """Makes NAME_MODE_cuda_sim_test for each mode, which runs the compiled functions on a simulated GPU.

    The tests need NVRTC.

    Args:
      name: the binary with the table.
      golden: the file of recorded facts.
      modes: eager, grad, dynamic.
      partial_golden: whether cases may lack recorded facts.
      **kwargs: of the tests.
    """
    for mode in modes:
        _mode_test(
            "%s_%s_cuda_sim_test" % (name, mode),
            name,
            mode,
            {"golden": golden},
            partial_golden,
            extra_args = ["--device=cuda_sim"],
            shard_count = 2,
            target_compatible_with = CUDA_TOOLKIT,
            **kwargs
        )

# `files`: by flag.
def _mode_test(name, binary, mode, files, partial_golden, extra_args = [], **kwargs):
    files = dict(files)
    if mode == "dynamic":
        files["known_failures"] = "//testing/conformance/corpus:dynamic_refusals.txt"
    args = ["$(location :%s)" % binary, "--mode=" + mode]
    args += ["--%s=$(location %s)" % (flag, file) for flag, file in files.items()]
    if partial_golden or mode == "dynamic":
        args.append("--partial_golden")
    native.sh_test(
        name = name,
        srcs = ["//testing/conformance/harness:run.sh"],
        args = args + extra_args,
        data = [":" + binary] + files.values(),
        **kwargs
    )
