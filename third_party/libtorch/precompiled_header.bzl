# SPDX-License-Identifier: Apache-2.0
"""GCC's precompiled headers, for the headers of LibTorch, which take 5 to 10 s to parse."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context

    # GCC looks for HEADER.gch in the folder in which it finds HEADER, so that both are generated.
    header = ctx.actions.declare_file(ctx.attr.name + ".h")
    ctx.actions.symlink(output = header, target_file = ctx.file.header)
    compiled = ctx.actions.declare_file(ctx.attr.name + ".h.gch")
    included = ctx.actions.declare_file(ctx.attr.name + ".h.d")

    # With -MD the precompiled header holds the names of the headers in it, and the .d file of a source that uses it lists
    # them, so that Bazel compiles the source again when one of them changes.
    flags = ["-x", "c++-header", "-MD", "-MF", included.path]
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = ctx.file.header.path,
        output_file = compiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + flags,
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = "c++-compile"),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        inputs = depset([ctx.file.header], transitive = [toolchain.all_files, context.headers]),
        outputs = [compiled, included],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling " + ctx.file.header.short_path,
    )
    own = cc_common.create_compilation_context(headers = depset([ctx.file.header, header, compiled]))
    return [
        DefaultInfo(files = depset([header, compiled])),
        cc_common.merge_cc_infos(
            direct_cc_infos = [CcInfo(compilation_context = own)],
            cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
        ),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = """NAME.h and NAME.h.gch from a header.

    A target that depends on it and compiles with `-include PACKAGE/NAME.h` parses the header from NAME.h.gch if its other
    flags are equal. If they differ, GCC reads NAME.h, which has the same content.""",
    attrs = {
        "copts": attr.string_list(doc = "Flags of the targets that use it."),
        "deps": attr.label_list(providers = [CcInfo], doc = "Libraries whose headers it includes."),
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
