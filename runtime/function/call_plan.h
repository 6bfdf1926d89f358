// What a call of a Function does, compiled once from the method's metadata: a
// straight list of stages with every index resolved. Nothing is looked up and no
// protobuf is read while it runs.
//
//   flatten      arguments of wrapper types are taken apart
//   check        the caller's arguments are what was traced
//   dedupe       arguments that were one tensor still are
//   bases        arguments that share memory become one: their base
//   in place     arguments that autograd sees written may be
//   forward      the program runs on plain tensors; it draws from the session's
//                random generator, whose state it moves on
//   new leaves   arguments that the function made require grad do
//   record       a node with edges to the arguments' graphs
//   wrap         what the program returned becomes variables, which get the node
//   write back   arguments get their new geometry, contents, storage and history
//   save         what the backward needs, with the versions it has now
//   results      outputs, aliases being made anew from arguments and bases
//   rewrap       results of wrapper types are put together
//   grad mode    as the function left it
//
// Effect tokens need no stage: they order the effects while a method is
// compiled, and the order of its ops keeps it (runtime/execution/effects.h).
//
// All stages but the first and the last know flat values only: inputs, arguments
// and outputs are counted, and called, as those of the function on the tensors
// that wrappers are made of.
//
// Index spaces
//   input     of the traced function: parameters, buffers, then the caller's
//             arguments
//   program argument  what inputs become: bases, then the other unique inputs
//   method input      Method.inputs: program arguments that are no states
//   result    Method.outputs, then what fills storages that Method.input_updates set
//   returned  forward returns of the program that are results or have a tangent
//   output    what the caller gets
#ifndef COTAN_RUNTIME_FUNCTION_CALL_PLAN_H_
#define COTAN_RUNTIME_FUNCTION_CALL_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "planning/schedule.h"
#include "runtime/autograd/variable.h"
#include "runtime/execution/program.h"
#include "serialization/metadata/input_alias_info.h"
#include "serialization/metadata/output_alias_info.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_step.h"
#include "serialization/metadata/wrapper_meta.h"

namespace cotan {

class FunctionCore;
struct Call;
struct CallPlan;

// Does its part of a call.
using StageFunction = absl::Status (*)(FunctionCore& core, Call& call);

struct Stage {
  StageFunction run = nullptr;
  const char* name = "";
  std::string detail;  // for people
};

struct CallPlan {
  // Everything that a call of `method` needs. Names in messages and stages are
  // those of the caller's arguments.
  // InvalidArgument: `method` is another one's backward, or its metadata contradicts
  // itself or the method. FailedPrecondition: it
  // has no metadata, or its backward does not tell whose gradients it returns.
  static absl::StatusOr<CallPlan> Make(const Program& program, int method);

  // --- flatten ---
  struct WrappedArgument {
    std::string name;
    FlatMeta meta;
  };
  bool has_wrappers = false;
  std::vector<WrappedArgument> wrapped_arguments;  // of the caller, if has_wrappers

  // --- check ---
  struct Input {
    std::string name;
    int state = -1;              // index of a state; -1: an argument of the caller
    bool requires_grad = false;  // at entry
    bool requires_grad_at_exit = false;
  };
  std::vector<Input> inputs;
  int num_states = 0;     // the first inputs
  int num_arguments = 0;  // the others
  bool traced_without_grad = false;
  std::vector<int> no_grad_view_inputs;  // views made under no_grad
  bool is_train = false;

  // --- dedupe ---
  struct Duplicate {
    int input = 0;
    int original = 0;  // the input that it must be
  };
  std::vector<Duplicate> duplicates;
  // Pairs of inputs that must not be one tensor: the geometry or storage of the
  // first is changed.
  std::vector<Duplicate> must_not_alias;

  // --- bases ---
  struct BaseView {
    int input = 0;
    TensorGeometry geometry;              // in the storage of the base
    std::optional<StridedLayout> layout;  // the same, if it is constant
    // Made under no_grad of what requires grad: it gives the base no gradient.
    bool made_under_no_grad = false;
  };
  struct Base {
    TensorGeometry geometry;
    std::optional<StridedLayout> layout;  // if it and those of all views are constant
    bool requires_grad = false;
    std::vector<BaseView> views;  // at least one
  };
  std::vector<Base> bases;

  // --- forward ---
  std::vector<int> argument_inputs;   // by program argument: its input, -1 for bases
  std::vector<int> method_arguments;  // by method input: its program argument
  int method = 0;
  int num_outputs = 0;                  // Method.outputs
  int num_results = 0;                  // and set storages
  std::vector<ResultRequest> requests;  // by Method.outputs, if the call is recorded
  std::vector<int> updated_states;
  bool draws_random_numbers = false;
  // Where a result lies if not dense in memory of its own.
  struct StridedOutputSpec {
    int result = 0;
    int owner = 0;  // the result in whose storage it is; itself
    TensorGeometry geometry;
  };
  std::vector<StridedOutputSpec> placements;
  // --- record ---
  std::vector<int> new_leaves;          // inputs that did not require grad
  int backward = -1;                    // method; -1: none
  bool has_detached_grad_sink = false;  // results require grad, but no argument does: gradients end in the node
  std::vector<int> gradient_inputs;     // program argument by output of the backward
  // By output of the backward: those of the gradient, if they are not the argument's.
  std::vector<std::optional<SymIntVector>> gradient_sizes;
  // By output of the backward, by tangent: whether it depends on it, be it in no
  // more than whether it is defined. All false:
  // on none, it is the same whatever the tangents are.
  std::vector<std::vector<bool>> depends_on;
  int num_tangents = 0;
  bool takes_flags = false;          // the backward takes, behind the tangents, which of them are defined
  std::vector<int> backward_writes;  // saved values that are arguments and that the backward writes
  std::vector<int> backward_updated_states;
  // --- wrap ---
  // That autograd is to know a result as a view.
  struct View {
    ViewCreation creation = ViewCreation::kDefault;
    int returned = -1;  // of this one; -1: of a hidden base
    int hidden = -1;
  };
  // What results are views of, and nobody gets.
  struct HiddenBase {
    TensorGeometry geometry;
    int returned = -1;  // in whose storage it is
    int view = -1;      // the view whose history becomes the base's when that is written; -1: none
    bool requires_grad = false;
  };
  std::vector<HiddenBase> hidden_bases;
  struct Returned {
    enum class Kind : uint8_t {
      kVariable,           // becomes a variable
      kArgument,           // the new content of program argument `argument`: only its tangent counts
      kReturnedElsewhere,  // an output that is another tensor: its tangent never comes
    };
    Kind kind = Kind::kVariable;
    int result = -1;    // -1: the new content of a state
    int argument = -1;  // kArgument
    int tangent = -1;   // -1: no gradient enters the backward
    bool is_leaf_that_requires_grad = false;
    int owner = -1;          // an earlier one in whose storage it is
    bool is_shared = false;  // whether others are in its storage
    // Unset: it is its result. Set: it is made of the owner's elements, read so.
    std::optional<ConjNegBits> reading;
    TensorGeometry geometry;  // if `reading` is set
    std::optional<View> view;
  };
  // In the order of the program's forward returns, so that tangents ascend.
  std::vector<Returned> returned;

  // --- write back ---
  struct NewGeometry {
    int input = 0;
    TensorGeometry geometry;
    bool under_no_grad = false;
    // Outputs are views of the input as it was: elements that it leaves out have
    // a gradient through them.
    bool view_precedes_metadata_mutation = false;
    // Of a leaf whose gradient does not have the new sizes.
    std::optional<SymIntVector> gradient_sizes;
    int method_input = -1;    // that it is, or whose part it is; -1: a state
    bool is_written = false;  // by a copy, when it has the new geometry
    // Of the input at entry, if it is a part of a base: the new geometry moves with it.
    std::optional<TensorGeometry> traced;
  };
  std::vector<NewGeometry> new_geometries;
  struct WriteBack {
    int argument = 0;  // program argument
    int result = 0;
    int returned = -1;    // the entry of `returned`
    int tangent = -1;     // -1: autograd takes no part
    bool copies = false;  // the geometry changes too: by an operation in place
    bool bumps_version = true;
    bool under_no_grad = false;
    bool has_gradient = false;            // what it was before; otherwise the function cut it from its history
    std::vector<int> written_views = {};  // inputs through which a base was written; their history is the base's
  };
  std::vector<WriteBack> write_backs;
  struct NewStorage {
    int input = 0;
    cotan::NewStorage::Owner owner = cotan::NewStorage::Owner::kProgram;
    int owner_input = -1;
    int result = -1;                         // kProgram: what fills it
    TensorGeometry geometry;                 // of the input, in it
    bool covers_owner = false;               // the input shows what fills it, or what `owner_input` showed at entry
    TensorGeometry owner_geometry_at_entry;  // kInput: of `owner_input` at entry
    int gradient = -1;                       // of a leaf, into gradient_inputs: of what is in the new storage
  };
  std::vector<NewStorage> new_storages;
  std::vector<int> bumped_arguments;  // written by the program, seen by autograd
  std::vector<int> detached_inputs;   // detach_(), requires_grad_(false)

  // --- save ---
  int first_saved = 0;  // result
  int num_saved = 0;
  int num_checked = 0;           // the first of them: their version is checked
  std::vector<int> donated;      // saved values, by position
  std::vector<int> read_states;  // by the backward
  std::optional<bool> deterministic;

  // --- results ---
  struct Output {
    enum class Kind : uint8_t {
      kScalar,
      kReturned,            // index: into returned
      kSameOutput,          // index: output
      kIsInput,             // index: input
      kViewOfInput,         // index: input
      kViewOfBase,          // index: into returned
      kViewOfOutput,        // index: output
      kSharesInputStorage,  // index: input, in whose storage it is with a history of its own
    };
    Kind kind = Kind::kScalar;
    int output = 0;
    int index = 0;
    ScalarOutput scalar;
    std::vector<ViewStep> steps;
    std::optional<TensorGeometry> geometry;  // instead of steps
    bool requires_grad = false;
    bool under_no_grad = false;
    bool not_a_view = false;
    int tangent = -1;                      // kSharesInputStorage
    int before = -1;                       // kViewOfInput, of the input as it was: into new_geometries
    std::optional<ViewCreation> creation;  // kSharesInputStorage: a view of a hidden base
  };
  std::vector<Output> outputs;  // in the order in which they can be made
  int num_caller_outputs = 0;
  std::optional<bool> grad_mode_after;

  // --- rewrap ---
  std::vector<FlatMeta> wrapped_outputs;  // if has_wrappers

  // --- all ---
  std::string name;       // of the method
  std::string node_name;  // of the nodes of its calls
  std::vector<Stage> stages;

  // The result in whose storage returned value `index` is.
  int OwnerOf(int index) const {
    const Returned& of = returned[static_cast<size_t>(index)];
    return of.owner < 0 ? of.result : returned[static_cast<size_t>(of.owner)].result;
  }

  // One line per stage: "  dedupe      b is a".
  std::string ToString() const;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CALL_PLAN_H_
