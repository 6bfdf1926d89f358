// SPDX-License-Identifier: Apache-2.0

// CallPlan: the stages of a call of a Function, compiled once from the method's metadata. All indices are resolved; a
// call looks nothing up and reads no protobuf.
//
// The stages are those parts of the runtime wrappers of AOTAutograd (_functorch/_aot_autograd/runtime_wrappers.py) that
// the method needs. AOTAutograd nests wrappers around the compiled function; here they are one straight list:
//
//   stage        wrapper in AOTAutograd       action
//   flatten      AOTDispatchSubclassWrapper   flattens arguments of wrapper types to plain tensors
//   check        (guards)                     checks that the arguments are as traced
//   dedupe       AOTDedupeWrapper             checks that duplicate inputs are one tensor
//   bases        AOTSyntheticBaseWrapper      merges arguments that share memory to a synthetic base
//   in place     RuntimeWrapper               checks that mutated arguments may be written in place
//   forward      AOTDispatchAutograd          runs the program on plain tensors; it advances the session's RNG state
//                (CompiledFunction.forward),
//                FunctionalizedRngRuntimeWrapper
//   new leaves   -                            applies requires_grad_() of the traced function to arguments
//   record       AOTDispatchAutograd          creates the node with edges to the arguments' grad_fn
//   wrap         AOTDispatchAutograd          makes Variables of the forward returns, with the node as grad_fn
//   write back   RuntimeWrapper               applies data, metadata and storage mutations to arguments
//   save         AOTDispatchAutograd          saves tensors for the backward, with their versions
//   results      RuntimeWrapper               builds outputs; replays views of arguments and bases
//                (AliasOfInputHandler and the
//                other output handlers)
//   rewrap       AOTDispatchSubclassWrapper   builds outputs of wrapper types
//   grad mode    RuntimeWrapper               sets the grad mode at exit (grad_enabled_mutation)
//
// EffectTokensWrapper has no stage: effect tokens order the effects while a method is compiled, and the order of the
// method's ops preserves that order (runtime/execution/effects.h).
//
// All stages except flatten and rewrap handle flat values: inputs, arguments and outputs are counted and named as those
// of the traced function over the tensors that wrappers consist of.
//
// Index spaces
//   input             of the traced function: parameters, buffers, then the user's arguments
//   program argument  synthetic bases, then the other unique inputs
//   method input      Method.inputs: the program arguments that are not states
//   result            Method.outputs, then the contents of storages that Method.input_updates sets
//   returned          the forward returns of the program that are results or have a tangent
//   output            of the traced function, as returned to the user
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

// A stage of a call. Reads and changes `call`; an error ends the call.
using StageFunction = absl::Status (*)(FunctionCore& core, Call& call);

struct Stage {
  StageFunction run = nullptr;
  const char* name = "";
  std::string detail;  // the arguments it handles, for ToString()
};

// The plan of the calls of one method. Sections are named after the stages that read them.
struct CallPlan {
  // Returns the plan of `method`. Messages and stages use the names of the user's arguments. InvalidArgument: `method`
  // is the backward of another method, or its metadata contradicts itself or the method. FailedPrecondition: it has no
  // metadata, or its backward has no `gradient_inputs`.
  static absl::StatusOr<CallPlan> Make(const Program& program, int method);

  // --- flatten ---
  struct WrappedArgument {
    std::string name;
    FlatMeta meta;
  };
  bool has_wrappers = false;
  std::vector<WrappedArgument> wrapped_arguments;  // by user argument, if has_wrappers

  // --- check ---
  struct Input {
    std::string name;
    int state = -1;              // index of a state; -1: a user argument
    bool requires_grad = false;  // at entry
    bool requires_grad_at_exit = false;
  };
  std::vector<Input> inputs;
  int num_states = 0;                    // inputs [0, num_states) are states
  int num_arguments = 0;                 // the remaining inputs
  bool traced_without_grad = false;      // gradients were disabled at entry when traced
  std::vector<int> no_grad_view_inputs;  // inputs that were views made under no_grad: no gradient flows through them
  bool is_train = false;                 // the forward of a traced joint graph

  // --- dedupe ---
  struct Duplicate {
    int input = 0;
    int original = 0;  // the first input that is the same tensor
  };
  std::vector<Duplicate> duplicates;
  // Pairs of inputs that must not be one tensor, as the metadata or storage of the first (`input`) is mutated.
  std::vector<Duplicate> must_not_alias;

  // --- bases ---
  struct BaseView {
    int input = 0;
    TensorGeometry geometry;              // in the storage of the base
    std::optional<StridedLayout> layout;  // `geometry`, if it has no dynamic dimensions
    // The view was made under no_grad of a tensor that requires grad: no gradient flows through it to the base.
    bool made_under_no_grad = false;
  };
  struct Base {
    TensorGeometry geometry;
    std::optional<StridedLayout> layout;  // if neither it nor a view has dynamic dimensions
    bool requires_grad = false;
    std::vector<BaseView> views;  // at least one
  };
  std::vector<Base> bases;

  // --- forward ---
  std::vector<int> argument_inputs;   // by program argument: its input; -1: a base
  std::vector<int> method_arguments;  // by method input: its program argument
  int method = 0;
  int num_outputs = 0;                  // number of Method.outputs
  int num_results = 0;                  // num_outputs plus the number of set storages
  std::vector<ResultRequest> requests;  // by Method.outputs, if the call is recorded
  std::vector<int> updated_states;      // states that the method writes
  bool draws_random_numbers = false;
  // The layout of a result that is not dense, or that is in the storage of another result.
  struct StridedOutputSpec {
    int result = 0;
    int owner = 0;  // the result that owns the storage; may be `result` itself
    TensorGeometry geometry;
  };
  std::vector<StridedOutputSpec> placements;
  // --- record ---
  std::vector<int> new_leaves;          // inputs that did not require grad at entry, and are leaves that do at exit
  int backward = -1;                    // method; -1: none
  bool has_detached_grad_sink = false;  // results require grad, but no input does: the node has no edges
  std::vector<int> gradient_inputs;     // by output of the backward: its program argument
  // By output of the backward: the sizes of the gradient, if they differ from the argument's.
  std::vector<std::optional<SymIntVector>> gradient_sizes;
  // depends_on[g][t]: gradient g is undefined unless some tangent t with depends_on[g][t] is defined. Includes tangents
  // that only decide whether the gradient is defined (structural tangents). All false: gradient g is always defined.
  std::vector<std::vector<bool>> depends_on;
  int num_tangents = 0;
  bool takes_flags = false;          // the backward has, after the tangents, one input per tangent: is it defined?
  std::vector<int> backward_writes;  // saved values that are arguments mutated by the backward
  std::vector<int> backward_updated_states;  // states that the backward writes
  // --- wrap ---
  // Differentiable-view metadata of a result.
  struct View {
    ViewCreation creation = ViewCreation::kDefault;
    int returned = -1;  // its base, into `returned`; -1: a hidden base
    int hidden = -1;    // its base, into hidden_bases
  };
  // Bases of returned views that are not returned themselves.
  struct HiddenBase {
    TensorGeometry geometry;
    int returned = -1;  // into `returned`: a value in the same storage
    int view = -1;      // into `returned`: the view whose gradient edge becomes the base's grad_fn; -1: none
    bool requires_grad = false;
  };
  std::vector<HiddenBase> hidden_bases;
  struct Returned {
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
    int owner = -1;          // into `returned`: an earlier value that owns its storage; -1: itself
    bool is_shared = false;  // other returned values or hidden bases are in its storage
    // Set: the value is a view of the owner's storage with these conj/neg bits. Unset: the value is `result`.
    std::optional<ConjNegBits> reading;
    TensorGeometry geometry;  // if `reading` is set
    std::optional<View> view;
  };
  // In the order of the program's forward returns, so that tangents are ascending.
  std::vector<Returned> returned;

  // --- write back ---
  // A metadata mutation (mutates_metadata).
  struct NewGeometry {
    int input = 0;
    TensorGeometry geometry;
    bool under_no_grad = false;
    // Outputs are views of the input with its old metadata; elements that the new metadata hides have a gradient
    // through these views.
    bool view_precedes_metadata_mutation = false;
    // Set for a leaf whose gradient does not have the new sizes.
    std::optional<SymIntVector> gradient_sizes;
    int method_input = -1;    // the input or its base; -1: a state
    bool is_written = false;  // new data is copied in after the metadata mutation
    // Set for a view of a base: the input's geometry at entry when traced. `geometry` is shifted by the difference of
    // the storage offsets of the argument and `traced`.
    std::optional<TensorGeometry> traced;
  };
  std::vector<NewGeometry> new_geometries;
  // A data mutation (mutates_data).
  struct WriteBack {
    int argument = 0;  // program argument
    int result = 0;
    int returned = -1;    // into `returned`
    int tangent = -1;     // -1: untracked by autograd
    bool copies = false;  // the metadata is mutated too: copy_() after that; else the program writes the data
    bool bumps_version = true;
    bool under_no_grad = false;
    bool has_gradient = false;            // the old value has a gradient; false: the function detached it
    std::vector<int> written_views = {};  // inputs, views of a base, that were written; their grad_fn is regenerated
  };
  std::vector<WriteBack> write_backs;
  // A storage mutation (mutates_storage_metadata).
  struct NewStorage {
    int input = 0;
    cotan::NewStorage::Owner owner = cotan::NewStorage::Owner::kProgram;
    int owner_input = -1;
    int result = -1;                         // kProgram: the content of the storage
    TensorGeometry geometry;                 // of the input in the new storage
    bool covers_owner = false;               // `geometry` is that of the content, or of `owner_input` at entry
    TensorGeometry owner_geometry_at_entry;  // kInput: geometry of `owner_input` at entry
    int gradient = -1;  // of a leaf, into gradient_inputs: the gradient of the new content; -1: none
  };
  std::vector<NewStorage> new_storages;
  std::vector<int> bumped_arguments;  // program arguments written by the program and tracked by autograd
  std::vector<int> detached_inputs;   // inputs after detach_() or requires_grad_(false)

  // --- save ---
  int first_saved = 0;  // first result that is a saved value
  int num_saved = 0;
  int num_checked = 0;                // the version of the first num_checked saved values is checked
  std::vector<int> donated;           // positions of saved values whose memory the backward may overwrite
  std::vector<int> read_states;       // states that the backward reads
  std::optional<bool> deterministic;  // deterministic algorithms were enabled when traced; unset: not recorded

  // --- results ---
  struct Output {
    enum class Kind : uint8_t {
      kScalar,
      kReturned,            // NoopAliasHandler; index: into `returned`
      kSameOutput,          // the same tensor as another output; index: output
      kIsInput,             // IsInputHandler; index: input
      kViewOfInput,         // AliasOfInputHandler; index: input
      kViewOfBase,          // AliasOfIntermediateHandler; index: into `returned`
      kViewOfOutput,        // AliasOfIntermediateHandler, base is an output; index: output
      kSharesInputStorage,  // in the storage of an input, with a grad_fn of its own; index: input
    };
    Kind kind = Kind::kScalar;
    int output = 0;
    int index = 0;
    ScalarOutput scalar;
    std::vector<ViewStep> steps;
    std::optional<TensorGeometry> geometry;  // set in place of steps
    bool requires_grad = false;
    bool under_no_grad = false;  // the view is taken under no_grad
    bool not_a_view = false;     // autograd must not know it as a view
    int tangent = -1;            // kSharesInputStorage; -1: none
    int before = -1;  // kViewOfInput: into new_geometries, a view of the input before that mutation; -1: none
    std::optional<ViewCreation> creation;  // kSharesInputStorage: set for a view of an unreturned base
  };
  std::vector<Output> outputs;  // an output that others are made from comes before them
  int num_caller_outputs = 0;
  std::optional<bool> grad_mode_after;  // grad_enabled_mutation; unset: unchanged

  // --- rewrap ---
  std::vector<FlatMeta> wrapped_outputs;  // if has_wrappers

  // --- common ---
  std::string name;       // of the method
  std::string node_name;  // Node::name() of the CompiledBackward nodes
  std::vector<Stage> stages;

  // Returns the result that owns the storage of returned value `index`.
  int OwnerOf(int index) const {
    const Returned& of = returned[static_cast<size_t>(index)];
    return of.owner < 0 ? of.result : returned[static_cast<size_t>(of.owner)].result;
  }

  // Returns "call of 'name'" and one line per stage: "  dedupe      b is a".
  std::string ToString() const;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CALL_PLAN_H_
