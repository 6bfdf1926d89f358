// SPDX-License-Identifier: Apache-2.0

// Records as_strided ops. They address a tensor's storage, which values of a graph do not have: their
// geometry becomes row-major element indices (storage_view.h).
#ifndef COTAN_AOT_CAPTURE_AS_STRIDED_H_
#define COTAN_AOT_CAPTURE_AS_STRIDED_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "aot/capture/recorder.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns whether an op with `num_arguments` arguments, real tensors on top of the stack, is not an
// as_strided op or addresses memory within the storage of its argument. Otherwise reports it as
// unsupported and replaces the argument by zeros in a storage that is large enough, so that tracing
// continues. Computed and written tensors have no storage beyond their elements.
bool CheckStorageBounds(absl::string_view op, size_t num_arguments, torch::jit::Stack& stack, Recorder& recorder);

// Rewrites the geometry of an as_strided of `self` from storage offsets to row-major elements of `self`, or
// the node to index_select or index_copy. Returns the permutation that was applied to `self` for that, or
// an empty list. Does not change other nodes. Reports views that no rewrite expresses.
std::vector<int64_t> CanonicalizeAsStrided(const at::Tensor& self, Node& node, Recorder& recorder);

// Appends the inverse of `order` to the result of the last node of the graph if that is an
// as_strided_scatter, whose first argument was permuted by `order`.
void AppendInversePermute(const std::vector<int64_t>& order, Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_AS_STRIDED_H_
