// SPDX-License-Identifier: Apache-2.0

// Classifies the outputs of a traced function by what they alias
// (torch/_functorch/_aot_autograd/collect_metadata_analysis.py, output_info).
#ifndef COTAN_AOT_AOTAUTOGRAD_OUTPUT_ALIAS_H_
#define COTAN_AOT_AOTAUTOGRAD_OUTPUT_ALIAS_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "aot/aotautograd/input_mutations.h"
#include "serialization/metadata/output_alias_info.h"

namespace cotan::aot {

// Classifies the outputs of one function by OutputType.
class OutputClassifier {
 public:
  OutputClassifier(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs,
                   absl::Span<const InputAtExit> exit, absl::Span<const at::Tensor> outputs);

  // Returns the metadata of output `index`. Calls must be in the order of the outputs.
  OutputAliasInfo Describe(int index);

  // Returns the intermediate bases found so far: functional tensors.
  const std::vector<at::Tensor>& intermediate_bases() const { return bases_; }

 private:
  // Outputs in the same storage.
  struct AliasGroup {
    int num_outputs = 0;
    int num_multi_output_views = 0;
    int num_ordinary() const { return num_outputs - num_multi_output_views; }
  };

  void AddOutput(int index);
  // Returns whether the output, which is in the storage of an input, has a grad_fn that is not a
  // view of that input.
  bool HasOwnGradFn(const at::Tensor& output, const at::Tensor& input) const;
  // Sets output_type and base_index, and shared_storage of an output in the storage of an input. An
  // output that is a functional tensor is, in this order:
  //   in the storage of an input, result of a custom function    CUSTOM_FUNCTION_VIEW
  //   in the storage of an input, but not a view of it in        NON_ALIAS
  //     autograd, or one of nothing but multi-output views
  //   an input                                                   IS_INPUT
  //   in the storage of an input                                 ALIAS_OF_INPUT
  //   a view of an intermediate that requires grad               see ClassifyView()
  //   equal to an output that requires grad, but detached        ALIAS_OF_INTERMEDIATE_BASE_IS_USER_OUTPUT
  //   a no-op view of an output                                  ALIAS_OF_INTERMEDIATE_BASE_IS_USER_OUTPUT
  //   anything else                                              NON_ALIAS
  void Classify(const at::Tensor& output, OutputAliasInfo& info);
  // Classifies an output that is an input or in the storage of one; returns false for any other.
  bool ClassifyAliasOfInput(const at::Tensor& output, OutputAliasInfo& info);
  void ClassifyAliasOfIntermediate(const at::Tensor& output, OutputAliasInfo& info);
  // Sets output_type and base_index of a view whose base is an intermediate that requires grad.
  void ClassifyView(const at::Tensor& output, OutputAliasInfo& info);
  // Sets geometry and view_steps from base number `index` of its kind to the output; view_steps
  // stay empty if none exist.
  void DescribeViews(const at::Tensor& output, size_t index, OutputAliasInfo& info);
  // Returns the index of an output with the storage and geometry of `output` that requires grad; -1
  // if there is none.
  int FindDifferentiableTwin(const at::Tensor& output) const;
  // Sets requires_grad_for_backward: a view taken under no_grad requires grad as its base does, but
  // has no grad_fn.
  void SetRequiresGrad(const at::Tensor& output, OutputAliasInfo& info) const;
  // Sets the members of an output in memory that the runtime does not take from a base.
  void DescribeNonAlias(const at::Tensor& output, OutputAliasInfo& info);
  // Sets geometry and view_steps to an output whose base's metadata was mutated as well
  // (transpose_): both are views of the base of the storage.
  void DescribeFromStorage(const at::Tensor& output, const at::Tensor& base, size_t index, const at::Tensor& real_base,
                           OutputAliasInfo& info);

  absl::Span<const InputAtEntry> entry_;
  absl::Span<const at::Tensor> inputs_;
  absl::Span<const InputAtExit> exit_;
  absl::Span<const at::Tensor> outputs_;
  absl::flat_hash_map<const void*, int> input_of_storage_;
  absl::flat_hash_map<const void*, int> input_of_tensor_;
  absl::flat_hash_map<const void*, int> output_of_tensor_;
  absl::flat_hash_map<const void*, AliasGroup> group_of_storage_;
  absl::flat_hash_map<const void*, int> base_of_tensor_;
  std::vector<at::Tensor> bases_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_OUTPUT_ALIAS_H_
