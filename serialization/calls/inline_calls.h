// SPDX-License-Identifier: Apache-2.0

// Replaces calls of blocks (Op.call, Artifact.blocks) by the blocks' ops. Files store a block once; everything that
// works on an artifact (verifier, planner, memory limits, tools) works on methods without calls, so that a program with
// blocks is executed exactly as the same program without them. Corresponds to the inliner of XLA (CallInliner).
#ifndef COTAN_SERIALIZATION_CALLS_INLINE_CALLS_H_
#define COTAN_SERIALIZATION_CALLS_INLINE_CALLS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Largest size in bytes, encoded, that the methods of an artifact may have once their calls are replaced.
inline constexpr uint64_t kMaxInlinedBytes = uint64_t{1} << 28;
// Largest depth of calls of blocks by blocks.
inline constexpr int kMaxCallDepth = 64;

// Replaces all calls in the methods of `artifact` and removes its blocks. Values of a block that are neither inputs nor
// outputs become values of the method, after its own. The order of ops is that of the calls. `artifact` need not be
// verified; VerifyArtifact() checks the result.
// InvalidArgument: a call names no block, or a block that does not come before the one that has the call; it has
// another number of inputs or outputs than the block, or of other types; an index is out of range; a block lists an
// input or output twice or has an input as output; a block has states, metadata or anything else that only an entry
// point has; a slice is not a size expression; the result would be larger than kMaxInlinedBytes or deeper than
// kMaxCallDepth. `artifact` is then unspecified.
absl::Status InlineCalls(serialization::Artifact& artifact);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_CALLS_INLINE_CALLS_H_
