"""Every repository the build uses. None of them is downloaded by Bazel."""

load("//third_party:system_library.bzl", "system_library")
load("//third_party/cuda:cuda_repository.bzl", "cuda_repository")
load("//third_party/libtorch:libtorch_repository.bzl", "libtorch_repository")

def cotan_repositories():
    """Declares the repositories that targets of this workspace may depend on."""
    _bazel_repositories()

    system_library(
        name = "com_google_absl",
        build_file = "//third_party/absl:system.BUILD",
        debian_package = "libabsl-dev",
        headers = ["absl"],
        static_libraries = "libabsl_",
    )
    system_library(
        name = "com_google_protobuf",
        build_file = "//third_party/protobuf:system.BUILD",
        debian_package = "protobuf-compiler libprotobuf-dev",
        headers = ["google/protobuf"],
        programs = ["protoc"],
    )
    system_library(
        name = "com_google_googletest",
        build_file = "//third_party/googletest:system.BUILD",
        debian_package = "libgtest-dev libgmock-dev",
        headers = ["gtest", "gmock"],
    )
    system_library(
        name = "com_google_benchmark",
        build_file = "//third_party/benchmark:system.BUILD",
        debian_package = "libbenchmark-dev",
        headers = ["benchmark"],
    )
    system_library(
        name = "nlohmann_json",
        build_file = "//third_party/nlohmann_json:system.BUILD",
        debian_package = "nlohmann-json3-dev",
        headers = ["nlohmann"],
    )
    system_library(
        name = "libzip",
        build_file = "//third_party/libzip:system.BUILD",
        debian_package = "libzip-dev",
        headers = [
            "zip.h",
            "zipconf.h",
        ],
    )
    system_library(
        name = "openssl",
        build_file = "//third_party/openssl:system.BUILD",
        debian_package = "libssl-dev",
        headers = ["openssl"],
    )
    system_library(
        name = "onednn",
        build_file = "//third_party/onednn:system.BUILD",
        debian_package = "libdnnl-dev",
        headers = [
            "dnnl.h",
            "dnnl.hpp",
            "oneapi/dnnl",
        ],
    )
    system_library(
        name = "openmp",
        build_file = "//third_party/openmp:system.BUILD",
        debian_package = "g++",
    )
    libtorch_repository(name = "libtorch")
    cuda_repository(name = "local_cuda")

def _bazel_repositories():
    # Bazel asks for these by name and would download them. Debian ships three; of the other two
    # only the few names that Bazel 4.2.3 itself loads are needed.
    native.local_repository(name = "rules_cc", path = "third_party/bazel/rules_cc")
    native.local_repository(name = "remote_coverage_tools", path = "third_party/bazel/coverage_tools")
    native.local_repository(name = "rules_java", path = "/usr/share/bazel/rules/java")
    native.local_repository(name = "rules_proto", path = "/usr/share/bazel/rules/proto")
    native.local_repository(name = "bazel_skylib", path = "/usr/share/bazel/tools/skylib")
