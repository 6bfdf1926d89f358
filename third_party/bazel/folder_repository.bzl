# SPDX-License-Identifier: Apache-2.0
"""A repository that is a folder beside this file."""

def _folder_repository_impl(rctx):
    # local_repository takes paths of the main workspace, which may be another one than Cotan's.
    folder = rctx.path(Label("//third_party/bazel:BUILD.bazel")).dirname.get_child(rctx.attr.folder)
    for entry in folder.readdir():
        rctx.symlink(entry, entry.basename)

folder_repository = repository_rule(
    implementation = _folder_repository_impl,
    doc = "Links the content of a folder of //third_party/bazel into a repository.",
    local = True,
    attrs = {"folder": attr.string(mandatory = True)},
)
