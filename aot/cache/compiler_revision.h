// SPDX-License-Identifier: Apache-2.0

// Identity of the compiler.
#ifndef COTAN_AOT_CACHE_COMPILER_REVISION_H_
#define COTAN_AOT_CACHE_COMPILER_REVISION_H_

#include "absl/strings/string_view.h"

namespace cotan::aot {

// Returns the digest of all libraries of this repository that the compiler links,
// 64 hexadecimal digits. No library contains its own digest: the definition is in
// :linked_compiler_revision, which //aot adds to the compiler.
absl::string_view CompilerRevision();

}  // namespace cotan::aot

#endif  // COTAN_AOT_CACHE_COMPILER_REVISION_H_
