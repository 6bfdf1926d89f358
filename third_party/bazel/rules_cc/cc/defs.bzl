# SPDX-License-Identifier: Apache-2.0
"""What Bazel's own build files load from @rules_cc: native rules under another name."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite

def _compiler_flag_impl(ctx):
    return [config_common.FeatureFlagInfo(value = find_cpp_toolchain(ctx).compiler)]

compiler_flag = rule(
    implementation = _compiler_flag_impl,
    attrs = {"_cc_toolchain": attr.label(
        default = Label("@bazel_tools//tools/cpp:current_cc_toolchain"),
    )},
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _cc_flags_supplier_impl(ctx):
    return [platform_common.TemplateVariableInfo({"CC_FLAGS": ""})]

cc_flags_supplier = rule(implementation = _cc_flags_supplier_impl)
