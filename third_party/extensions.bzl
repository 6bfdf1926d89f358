# SPDX-License-Identifier: Apache-2.0
"""The libraries of Cotan for Bazel's modules (MODULE.bazel)."""

load("//third_party:repositories.bzl", "cotan_libraries")

def _libraries(_module_context):
    cotan_libraries()

libraries = module_extension(implementation = _libraries)
