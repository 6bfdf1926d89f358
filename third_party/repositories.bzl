# SPDX-License-Identifier: Apache-2.0
"""Every repository the build uses. None of them is downloaded by Bazel.

A workspace that uses Cotan as the repository @cotan calls cotan_repositories() as well: paths and
labels here are relative to Cotan's own root, wherever the call is.
"""

load("//third_party:system_library.bzl", "system_library")
load("//third_party/aarch64:aarch64_repository.bzl", "aarch64_repository")
load("//third_party/bazel:folder_repository.bzl", "folder_repository")
load("//third_party/cuda:cuda_repository.bzl", "cuda_repository")
load("//third_party/libtorch:libtorch_repository.bzl", "libtorch_repository")

def cotan_repositories():
    """Declares the repositories that Cotan's targets depend on.

    Repositories of Bazel's own rules are not redeclared if the workspace has declared them before.
    """
    _bazel_repositories()
    cotan_libraries()
    native.register_toolchains("@local_aarch64//:cc_toolchain")

def cotan_libraries():
    """Declares the libraries only; the module extension of MODULE.bazel does the same."""
    system_library(
        name = "com_google_absl",
        build_file = Label("//third_party/absl:system.BUILD"),
        debian_package = "libabsl-dev",
        headers = ["absl"],
        static_libraries = "libabsl_",
    )
    system_library(
        name = "com_google_protobuf",
        build_file = Label("//third_party/protobuf:system.BUILD"),
        debian_package = "protobuf-compiler libprotobuf-dev",
        headers = ["google/protobuf"],
        programs = ["protoc"],
    )
    system_library(
        name = "com_google_googletest",
        build_file = Label("//third_party/googletest:system.BUILD"),
        debian_package = "libgtest-dev libgmock-dev",
        headers = ["gtest", "gmock"],
    )
    system_library(
        name = "com_google_benchmark",
        build_file = Label("//third_party/benchmark:system.BUILD"),
        debian_package = "libbenchmark-dev",
        headers = ["benchmark"],
    )
    system_library(
        name = "nlohmann_json",
        build_file = Label("//third_party/nlohmann_json:system.BUILD"),
        debian_package = "nlohmann-json3-dev",
        headers = ["nlohmann"],
    )
    system_library(
        name = "eigen",
        build_file = Label("//third_party/eigen:system.BUILD"),
        debian_package = "libeigen3-dev",
        headers = ["eigen3"],
    )
    system_library(
        name = "xbyak",
        build_file = Label("//third_party/xbyak:system.BUILD"),
        debian_package = "libxbyak-dev",
        headers = ["xbyak"],
    )
    system_library(
        name = "libzip",
        build_file = Label("//third_party/libzip:system.BUILD"),
        debian_package = "libzip-dev",
        headers = [
            "zip.h",
            "zipconf.h",
        ],
    )
    system_library(
        name = "libpng",
        build_file = Label("//third_party/libpng:system.BUILD"),
        debian_package = "libpng-dev",
        headers = [
            "png.h",
            "pngconf.h",
            "pnglibconf.h",
        ],
    )
    system_library(
        name = "turbojpeg",
        build_file = Label("//third_party/turbojpeg:system.BUILD"),
        debian_package = "libturbojpeg0-dev",
        headers = ["turbojpeg.h"],
    )
    system_library(
        name = "openssl",
        build_file = Label("//third_party/openssl:system.BUILD"),
        debian_package = "libssl-dev",
        headers = ["openssl"],
    )
    system_library(
        name = "onednn",
        build_file = Label("//third_party/onednn:system.BUILD"),
        debian_package = "libdnnl-dev",
        headers = [
            "dnnl.h",
            "dnnl.hpp",
            "oneapi/dnnl",
        ],
    )
    system_library(
        name = "openmp",
        build_file = Label("//third_party/openmp:system.BUILD"),
        debian_package = "g++",
    )
    system_library(
        name = "openmpi",
        build_file = Label("//third_party/openmpi:system.BUILD"),
        debian_package = "libopenmpi-dev",
        header_folder = "/usr/lib/x86_64-linux-gnu/openmpi/include",
        headers = [
            "mpi.h",
            "mpi_portable_platform.h",
        ],
    )
    libtorch_repository(name = "libtorch")
    aarch64_repository(name = "local_aarch64")
    cuda_repository(name = "local_cuda")

def _bazel_repositories():
    # Bazel asks for these by name and would download them. Debian ships three; of the other two
    # only the few names that Bazel 4.2.3 itself loads are needed.
    declared = native.existing_rules()
    for name in ["rules_cc", "remote_coverage_tools"]:
        if name not in declared:
            folder_repository(name = name, folder = name)
    for name, path in {
        "bazel_skylib": "/usr/share/bazel/tools/skylib",
        "rules_java": "/usr/share/bazel/rules/java",
        "rules_proto": "/usr/share/bazel/rules/proto",
    }.items():
        if name not in declared:
            native.local_repository(name = name, path = path)
