# SPDX-License-Identifier: Apache-2.0
"""Runs tests that were compiled for aarch64, in an ordinary build for this machine.

All targets are manual: they take as long as the other tests together. Tools that make a test's data, such as the compile half, are those of the build itself and are not compiled again.
"""

load("@local_aarch64//:defs.bzl", "AARCH64_COMPATIBLE_WITH", "AARCH64_LIBRARIES")

def _aarch64_transition_impl(settings, attr):
    return {
        "//command_line_option:cpu": "aarch64",
        "//command_line_option:crosstool_top": "@local_aarch64//:toolchain",
        "//command_line_option:platforms": [Label("//third_party/aarch64:linux")],
        "//command_line_option:run_under": None,
    }

_aarch64_transition = transition(
    implementation = _aarch64_transition_impl,
    inputs = [],
    outputs = [
        "//command_line_option:cpu",
        "//command_line_option:crosstool_top",
        "//command_line_option:platforms",
        "//command_line_option:run_under",
    ],
)

_SCRIPT = """#!/usr/bin/env bash
exec /usr/bin/qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH={libraries} "{program}" "$@"
"""

def _qemu_impl(ctx):
    info = ctx.attr.program[0][DefaultInfo]
    executable = info.files_to_run.executable

    # The same program for this machine may be in the runfiles of a test, under the same name.
    program = ctx.actions.declare_file(ctx.label.name + ".aarch64")
    ctx.actions.symlink(output = program, target_file = executable, is_executable = True)
    data = [file for file in info.default_runfiles.files.to_list() if file != executable]
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, _SCRIPT.format(
        libraries = AARCH64_LIBRARIES,
        program = program.short_path,
    ), is_executable = True)
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles([program] + data))]

_ATTRS = {
    "program": attr.label(
        mandatory = True,
        cfg = _aarch64_transition,
        doc = "A cc_binary or cc_test, which is compiled for aarch64.",
    ),
    "_allowlist_function_transition": attr.label(
        default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
    ),
}

_qemu_binary = rule(implementation = _qemu_impl, attrs = _ATTRS, executable = True)

_qemu_test = rule(implementation = _qemu_impl, attrs = _ATTRS, test = True)

def qemu_binary(name, program):
    """Declares `program`, compiled for aarch64, as an executable of this machine.

    It finds its files only if the current folder is that of a test's runfiles.

    Args:
      name: of the executable.
      program: label of a cc_binary.
    """
    _qemu_binary(
        name = name,
        program = program,
        tags = ["manual"],
        target_compatible_with = AARCH64_COMPATIBLE_WITH,
    )

def qemu_tests(name, tests, size = "medium"):
    """Declares a test for each of `tests`, and a suite of them.

    Args:
      name: of the suite.
      tests: labels of cc_tests.
      size: of each test; qemu takes ten times as long as the processor itself.
    """
    names = []
    for test in tests:
        label = Label(test)
        names.append(label.package.replace("/", ".") + "." + label.name)
        _qemu_test(
            name = names[-1],
            size = size,
            tags = ["manual"],
            target_compatible_with = AARCH64_COMPATIBLE_WITH,
            program = test,
        )
    native.test_suite(
        name = name,
        tags = ["manual"],
        tests = names,
    )
