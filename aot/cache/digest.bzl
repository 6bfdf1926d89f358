# SPDX-License-Identifier: Apache-2.0
"""A digest of compiled libraries, as a C++ header."""

def _compiled_files(library):
    """Returns the files of a LibraryToLink: its archive, or the objects it consists of."""
    archive = library.static_library or library.pic_static_library
    if archive:
        return [archive]
    return library.objects or library.pic_objects or []

def _path(file):
    return file.path

def _code_digest_impl(ctx):
    linker_inputs = depset(transitive = [
        dep[CcInfo].linking_context.linker_inputs
        for dep in ctx.attr.deps
    ])
    owners = {}
    for linker_input in linker_inputs.to_list():
        if linker_input.owner.workspace_name != ctx.label.workspace_name:
            continue
        for library in linker_input.libraries:
            for file in _compiled_files(library):
                owners[file] = linker_input.owner
    files = sorted(owners.keys(), key = _path)
    if not files:
        fail("no library of this repository is among the dependencies; a digest of nothing never changes")

    header = ctx.actions.declare_file(ctx.label.name + ".h")
    args = ctx.actions.args()
    args.add(header)
    args.add_all(files)
    ctx.actions.run(
        executable = ctx.executable._write_digest,
        arguments = [args],
        inputs = files,
        outputs = [header],
        mnemonic = "CodeDigest",
        progress_message = "Computing the digest of the libraries of %s" % ctx.label,
    )

    manifest = ctx.actions.declare_file(ctx.label.name + ".manifest")
    lines = ["%s %s\n" % (owners[file], file.short_path) for file in files]
    ctx.actions.write(manifest, "".join(lines))
    return [
        DefaultInfo(files = depset([header]), runfiles = ctx.runfiles([header])),
        OutputGroupInfo(
            files = depset(files),
            manifest = depset([manifest]),
        ),
    ]

code_digest = rule(
    implementation = _code_digest_impl,
    doc = "Makes NAME.h, which defines kCodeDigest: the SHA-256 of all libraries of this " +
          "repository that whoever depends on `deps` links. A header-only library counts in the " +
          "libraries that include it. Output groups: `files` has what was digested; `manifest` " +
          "has one line for each of them, in order: the label of its library and its path.",
    attrs = {
        "deps": attr.label_list(
            mandatory = True,
            providers = [CcInfo],
        ),
        "_write_digest": attr.label(
            default = Label("//aot/cache:write_code_digest"),
            cfg = "host",
            executable = True,
        ),
    },
)
