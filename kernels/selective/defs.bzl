# SPDX-License-Identifier: Apache-2.0
"""Links the kernels that programs need, and no others."""

load("//base:copts.bzl", "COTAN_RUNTIME_COPTS")
load("//kernels/cpu/expr:tile_copts.bzl", "TILE_COPTS", "TILE_ISA_COMPATIBLE_WITH", "TILE_ISA_COPTS")

def cotan_runtime(name, programs, visibility = None):
    """Makes the library NAME, which defines the functions of //kernels/selective:selected_kernels.h.

    A binary links NAME beside //runtime in place of a library of all kernels, such as
    //kernels/cpu:register_portable. Its kernels are the portable ones: no oneDNN.

    Args:
      name: of the library.
      programs: labels of cotan_program() targets, or .cotan files, that the binary runs. Other programs are
        refused if they need an op, or a function of an expression, that none of these has.
      visibility: of the library.
    """
    label = "//{}:{}".format(native.package_name(), name)
    kernels = name + "_kernels.cc"
    loops = {isa: "{}_loops_{}.cc".format(name, isa) for isa in TILE_ISA_COPTS}
    native.genrule(
        name = name + "_sources",
        srcs = programs,
        outs = [kernels] + loops.values(),
        cmd = "$(location {tool}) {label} $(RULEDIR)/{kernels} $(RULEDIR)/{name}_loops $(SRCS)".format(
            tool = Label("//kernels/selective:select"),
            label = label,
            kernels = kernels,
            name = name,
        ),
        message = "Selecting the kernels of",
        tools = [Label("//kernels/selective:select")],
        visibility = ["//visibility:private"],
    )
    for isa, source in loops.items():
        native.cc_library(
            name = "{}_loops_{}".format(name, isa),
            srcs = [source],
            copts = TILE_COPTS + TILE_ISA_COPTS[isa],
            target_compatible_with = TILE_ISA_COMPATIBLE_WITH[isa],
            visibility = ["//visibility:private"],
            deps = [
                Label("//kernels/cpu/expr:selected_tile_ops"),
                Label("//kernels/selective:selected_tile_ops"),
                "@com_google_absl//:absl",
            ],
        )
    native.cc_library(
        name = name,
        srcs = [kernels],
        copts = COTAN_RUNTIME_COPTS,
        visibility = visibility,
        # Calls come from libraries that may stand behind this one on the linker's command line.
        alwayslink = True,
        deps = [
            Label("//kernels/selective:selected_source"),
            "{}_loops_generic".format(name),
            "@com_google_absl//:absl",
        ] + select({
            "@platforms//cpu:x86_64": [
                "{}_loops_{}".format(name, isa)
                for isa in TILE_ISA_COPTS
                if isa != "generic"
            ],
            "//conditions:default": [],
        }),
    )
