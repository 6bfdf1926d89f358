// SPDX-License-Identifier: Apache-2.0

// Mutations: the mutations that a function applies to its arguments, resolved to indices.
#ifndef COTAN_RUNTIME_FUNCTION_CORE_MUTATIONS_H_
#define COTAN_RUNTIME_FUNCTION_CORE_MUTATIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "base/sym_int.h"
#include "serialization/metadata/input_alias_info.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_step.h"

namespace cotan {

struct FunctionMetadata;

// A data mutation (mutates_data) that is written back after the program or that the program writes in place of the
// returned result.
struct DataMutation {
  int argument = 0;  // program argument
  int result = 0;
  int returned = -1;    // returned value
  int tangent = -1;     // -1: untracked by autograd
  bool copies = false;  // the metadata is mutated too: copy_() after that; else the program writes the data
  bool bumps_version = true;
  bool under_no_grad = false;
  bool has_gradient = false;            // the old value has a gradient; false: the function detached it
  std::vector<int> written_views = {};  // inputs, views of a base, that were written; their grad_fn is regenerated

  // Returns "content of x with grad_fn".
  std::string ToString(const FunctionMetadata& function) const;
};

// A metadata mutation (mutates_metadata).
struct MetadataMutation {
  int input = 0;
  TensorGeometry geometry;
  // From the argument's geometry to the new one. Empty: the new one is `geometry`, if the argument has the geometry
  // `at_entry`.
  std::vector<ViewStep> steps;
  std::optional<TensorGeometry> at_entry;  // unset: not recorded
  bool under_no_grad = false;
  // Set for a leaf whose gradient does not have the new sizes.
  std::optional<SymIntVector> gradient_sizes;
  int method_input = -1;    // the input or its base; -1: a state
  bool is_written = false;  // new data is copied in after the metadata mutation
  // Set for a view of a base: the input's geometry at entry when traced. Without `steps` and `at_entry`, `geometry` is
  // shifted by the difference of the storage offsets of the argument and `traced`.
  std::optional<TensorGeometry> traced;
};

// A storage mutation (mutates_storage_metadata).
struct StorageMutation {
  int input = 0;
  NewStorage::Owner owner = NewStorage::Owner::kProgram;
  int owner_input = -1;
  int result = -1;                         // kProgram: the content of the storage
  TensorGeometry geometry;                 // of the input in the new storage
  bool covers_owner = false;               // `geometry` is that of the content, or of `owner_input` at entry
  TensorGeometry owner_geometry_at_entry;  // kInput: geometry of `owner_input` at entry
  TensorGeometry storage_geometry;         // kProgram: geometry of the content
  int gradient = -1;  // of a leaf, the output of the backward that is the gradient of the new content; -1: none
};

struct Mutations {
  // Reads the metadata, the program arguments, the returned values and the backward of `function`.
  static Mutations Create(const FunctionMetadata& function);

  std::vector<DataMutation> data;
  std::vector<MetadataMutation> metadata;
  std::vector<StorageMutation> storage;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_MUTATIONS_H_
