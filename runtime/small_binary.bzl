# SPDX-License-Identifier: Apache-2.0
"""Training programs that are compiled and linked for size (docs/sizes.md)."""

# Flags of everything that a small binary is compiled from. Those of a target come later: kernels keep their -O3.
# Without exceptions, `try` and `throw` are errors, so that no code expects what discard_unwind_tables.lds removes.
_COPTS = [
    "-Oz",
    "-fno-exceptions",
    "-fno-asynchronous-unwind-tables",
]

# A fixed address spares 24 bytes for each address in data. lld merges equal functions, such as those of templates.
_LINKOPTS = [
    "-fuse-ld=lld",
    "-no-pie",
    "-Wl,--as-needed",
    "-Wl,--gc-sections",
    "-Wl,--icf=all",
    "-Wl,--no-eh-frame-hdr",
    "-Wl,-O2",
]

_SETTING = str(Label("//base:for_small_binary"))

def _small_transition_impl(settings, attr):
    return {
        "//command_line_option:copt": settings["//command_line_option:copt"] + _COPTS,
        _SETTING: True,
    }

_small_transition = transition(
    implementation = _small_transition_impl,
    inputs = ["//command_line_option:copt"],
    outputs = [
        "//command_line_option:copt",
        _SETTING,
    ],
)

def _small_binary_impl(ctx):
    linked = ctx.attr.linked[0][DefaultInfo]
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = program, target_file = linked.files_to_run.executable, is_executable = True)
    runfiles = ctx.runfiles(files = ctx.files.data).merge(linked.default_runfiles)
    for target in ctx.attr.data:
        runfiles = runfiles.merge(target[DefaultInfo].default_runfiles)
    return [DefaultInfo(executable = program, runfiles = runfiles)]

_small_binary = rule(
    implementation = _small_binary_impl,
    attrs = {
        "data": attr.label_list(allow_files = True),
        "linked": attr.label(mandatory = True, cfg = _small_transition),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    executable = True,
)

def cotan_small_binary(name, deps, srcs = [], data = [], static = False, visibility = None):
    """Declares a program that is as small as possible, without oneDNN and OpenMP.

    All that it consists of is compiled once more, for size; kernels keep their flags. It has no unwind tables: `try` and
    `throw` do not compile, and an exception of a library ends the process, as one that nobody catches.

    Args:
      name: of the program.
      deps: libraries, such as //runtime, a cotan_runtime() target and what it is used with.
      srcs: sources, if main() is not in `deps`.
      data: files that the program reads; they are not built again.
      static: whether the C and C++ libraries are a part of the program, which then runs on any Linux of the processor.
      visibility: of the program.
    """
    script = Label("//runtime:discard_unwind_tables.lds")
    native.cc_binary(
        name = name + "_linked",
        srcs = srcs,
        additional_linker_inputs = [script],
        linkopts = _LINKOPTS + ["-Wl,-T,$(location {})".format(script)] + (["-static"] if static else []),
        tags = ["manual"],
        visibility = ["//visibility:private"],
        deps = deps + [Label("//third_party/protobuf:no_extensions")],
    )
    _small_binary(
        name = name,
        data = data,
        linked = name + "_linked",
        visibility = visibility,
    )
