// SPDX-License-Identifier: Apache-2.0

#include "aot/cache/compiler_revision.h"

#include "aot/cache/compiler_digest.h"

namespace cotan::aot {

absl::string_view CompilerRevision() { return kCodeDigest; }

}  // namespace cotan::aot
