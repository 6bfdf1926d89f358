// SPDX-License-Identifier: Apache-2.0

// ReturnedValues: the forward returns of a program that become Variables or have a tangent.
#ifndef COTAN_RUNTIME_FUNCTION_CORE_RETURNED_VALUES_H_
#define COTAN_RUNTIME_FUNCTION_CORE_RETURNED_VALUES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "runtime/autograd/variable.h"
#include "serialization/metadata/output_alias_info.h"
#include "serialization/metadata/tensor_geometry.h"

namespace cotan {

struct FunctionMetadata;

// Differentiable-view metadata of a returned value.
struct ReturnedView {
  ViewCreation creation = ViewCreation::kDefault;
  int returned = -1;  // its base, a returned value; -1: a hidden base
  int hidden = -1;    // its base, a hidden base
};

// A base of returned views that is not returned itself.
struct HiddenBase {
  TensorGeometry geometry;
  int returned = -1;  // a returned value in the same storage
  int view = -1;      // the returned view whose gradient edge becomes the base's grad_fn; -1: none
  bool requires_grad = false;
};

struct ReturnedValue {
  enum class Kind : uint8_t {
    kVariable,           // becomes a Variable
    kArgument,           // new data of program argument `argument`: contributes only its tangent
    kReturnedElsewhere,  // an output that is built from another tensor: its tangent is always undefined
  };
  Kind kind = Kind::kVariable;
  int result = -1;    // -1: new data of a state
  int argument = -1;  // kArgument
  int tangent = -1;   // -1: no gradient enters the backward
  bool is_leaf_that_requires_grad = false;
  int owner = -1;          // an earlier returned value that owns its storage; -1: itself
  bool is_shared = false;  // other returned values or hidden bases are in its storage
  // Set: the value is a view of the owner's storage with these conj/neg bits. Unset: the value is `result`.
  std::optional<ConjNegBits> reading;
  TensorGeometry geometry;  // if `reading` is set
  std::optional<ReturnedView> view;
};

// "Returned value i" is values[i]. They are in the order of the program's forward returns, so that tangents ascend.
struct ReturnedValues {
  // Numbers the forward returns of function.program_metadata. Reads the metadata and the program arguments of
  // `function`, and nothing else.
  static ReturnedValues Create(const FunctionMetadata& function);

  std::vector<ReturnedValue> values;
  std::vector<HiddenBase> hidden_bases;
  std::vector<int> of_outputs;  // by output: its returned value; -1: none
  std::vector<int> of_bases;    // by intermediate base: its returned value
  int num_results = 0;          // results that are returned values; the saved values follow

  const ReturnedValue& at(int index) const { return values[static_cast<size_t>(index)]; }
  // Returns the result that owns the storage of returned value `index`.
  int OwnerOf(int index) const { return at(index).owner < 0 ? at(index).result : at(at(index).owner).result; }
};

// Returns whether a NON_ALIAS output is built from another output or an input, so that the program's result is unused.
bool IsReturnedElsewhere(const OutputAliasInfo& info);

// Returns how autograd treats writes to the view.
ViewCreation ViewCreationOf(const NonAliasViewInfo& view);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_RETURNED_VALUES_H_
