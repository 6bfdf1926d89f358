// Removes duplicate inputs, and replaces inputs that share memory with one that
// is written to by a synthetic base. Pure: on descriptions of example inputs, no
// LibTorch.
#ifndef COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_
#define COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// A tensor as the caller holds it before the call.
struct InputDescription {
  // Equal for the same tensor object / the same storage; never 0.
  uintptr_t identity = 0;
  uintptr_t storage = 0;
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  int64_t storage_elements = 0;  // of `dtype`
  bool requires_grad = false;

  // What autograd knows it to be a view of, if it is one.
  struct Base {
    uintptr_t identity = 0;
    DType dtype = DType::kUndefined;
    StridedLayout layout;
    bool requires_grad = false;
    bool is_leaf = true;
  };
  std::optional<Base> base;
  bool is_leaf = true;
  // A view made under no_grad of what requires grad: it requires grad as well, but
  // its base gets no gradient from it.
  bool made_under_no_grad = false;
  // Whether the function changes its geometry, be it back to what it was.
  bool is_moved = false;
  // Whether elements of it were written that it does not show in the end (as_strided_).
  bool has_hidden_writes = false;
};

struct BoundInputs {
  InputBinding binding;
  // About the program's arguments and outputs; equal to the function's facts if
  // the binding is the identity. Behind the function's outputs come the inputs
  // listed in binding.aliased_inputs_with_metadata_mutations, as views of their
  // bases. shared_storage is not told. Of a base,
  // mutations_under_no_grad_or_inference_mode is true only if it is of all its
  // views, unmutated ones included, as in the reference: to write back, ask the
  // function's facts.
  ViewAndMutationMetaFields program_facts;
};

// `facts` are about a function with these inputs.
//
// Duplicates are left out if one but the first of them is mutated, or moved in
// between; otherwise they stay separate inputs. Inputs in one storage become
// views of one base if data of one of them is mutated and any two of them may
// overlap. Of those that require grad, all are views of that base to autograd;
// an input that requires no grad may share the memory alone (`detach()`), and
// is detached from the base then, as is a view that was made under no_grad.
//
// An input of which elements are written that it leaves out in the end (as_strided_) is a
// view of a base, too, as are a leaf that moves and its views that have a gradient.
//
// InvalidArgument: such inputs have different dtypes, or those that require grad
// are views of different tensors; an input leaves out elements of another one, which
// is a view of it that has a gradient; one that is a view with a gradient itself is
// written and leaves out elements of a result, which is a view of it.
absl::StatusOr<BoundInputs> BindInputs(const ViewAndMutationMetaFields& facts,
                                       absl::Span<const InputDescription> inputs);

// Whether, by simple tests, two layouts in one storage cannot have an element in
// common. False if they have; may be false if they have not, for more than two
// interleaved dimensions. (base/overlap.h is exact. What is merged here without
// need is still right, and the reference merges it too.)
bool DefinitelyDisjoint(const StridedLayout& a, const StridedLayout& b);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_
