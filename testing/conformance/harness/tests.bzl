# SPDX-License-Identifier: Apache-2.0
"""Tests that run a table of cases in one mode each."""

def mode_tests(name, golden, modes, partial_golden = False, partition_differences = None):
    """Makes NAME_MODE_test for each mode.

    Args:
      name: the binary with the table.
      golden: the file of recorded facts.
      modes: metadata, eager, grad, refusals, dynamic.
      partial_golden: whether cases may lack recorded facts.
      partition_differences: the file of accepted differences between Cotan's partition and the recorded one.
    """
    refusals = "//testing/conformance/corpus:dynamic_refusals.txt"
    for mode in modes:
        args = [
            "$(location :%s)" % name,
            "--golden=$(location %s)" % golden,
            "--mode=" + mode,
        ]
        data = [
            golden,
            ":" + name,
        ]
        if partition_differences:
            args.append("--partition_differences=$(location %s)" % partition_differences)
            data.append(partition_differences)
        if partial_golden or mode == "dynamic":
            args.append("--partial_golden")
        if mode == "dynamic":
            args.append("--known_failures=$(location %s)" % refusals)
            data.append(refusals)
        native.sh_test(
            name = "%s_%s_test" % (name, mode),
            srcs = ["//testing/conformance/harness:run.sh"],
            args = args,
            data = data,
        )
