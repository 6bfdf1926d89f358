// SPDX-License-Identifier: Apache-2.0

// Tables of functions with the summaries of their metadata.
#ifndef COTAN_AOT_AOTAUTOGRAD_METADATA_SUMMARY_H_
#define COTAN_AOT_AOTAUTOGRAD_METADATA_SUMMARY_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

using Tensors = std::vector<at::Tensor>;

// Return random tensors: a leaf that requires grad, the result of an op on one, a tensor without grad.
at::Tensor Leaf(at::IntArrayRef sizes);
at::Tensor NonLeaf(at::IntArrayRef sizes);
at::Tensor Plain(at::IntArrayRef sizes);

// Returns "inputs | outputs | tangents | TR or INF", then the number of intermediate bases and the change
// of the grad mode, if any.
//   input   "-", or the mutation type (OG: outside of the graph, IG: in the graph) with d (data), m
//           (metadata), s (storage), "/hid" (hidden from autograd), "/ng" (under no_grad): "OG:dm/hid"
//   output  type, base, view steps, shared storage (@OWNER; =OWNER: the same tensor), and * if it requires
//           grad (^: without a gradient in the backward): "IN0[view]*"
//   tangent IM (mutated input), P (plain output), IB (intermediate base), with the index
std::string Summary(const ViewAndMutationMetaFields& facts);

// A function with its summary, or with the message of its error.
struct AnalyzedCase {
  const char* name;
  Tensors inputs;
  std::function<Tensors(const Tensors&)> function;
  const char* summary;
  bool keep_input_mutations = true;
  bool grad_enabled = true;
};

// Expects the summary of each case from AnalyzeFunction(), and an unchanged grad mode.
void Check(const std::vector<AnalyzedCase>& cases);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_METADATA_SUMMARY_H_
