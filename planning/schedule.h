// SPDX-License-Identifier: Apache-2.0

// First half of planning: makes the steps of a method for concrete sizes, and assigns a buffer to every operand.
//
// Values of the method become operands: geometry in a buffer. Views become geometry, unless they require a copy.
// Results are computed in their destination when that is unobservable: outputs in the caller's tensors, new contents
// of states in the states themselves, elementwise results in the memory of inputs that no later step reads. Otherwise
// a copy step is added.
#ifndef COTAN_PLANNING_SCHEDULE_H_
#define COTAN_PLANNING_SCHEDULE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/api/computed_operand.h"
#include "kernels/api/kernel.h"
#include "planning/schedule_stats.h"
#include "serialization/metadata/view_geometry.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Owner of a buffer's memory.
enum class BufferKind : uint8_t {
  kArena,   // the plan's own, alive for some steps; there is one arena on the device and one on the host
  kInput,   // argument `index` of the method
  kOutput,  // result `index` of the method
  kState,   // state `index` of the artifact
};

struct Buffer {
  BufferKind kind = BufferKind::kArena;
  int index = 0;      // by kind; 0 for kArena
  int64_t bytes = 0;  // accessible to steps
  // Host memory beside a device: accessible only to steps that copy it to or from the device. See ScheduleOptions.
  bool on_host = false;
};

// A tensor in a buffer. The layout's offset counts from the buffer's start, and
// all elements are inside the buffer.
struct Operand {
  int buffer = -1;  // index into Schedule.buffers
  ViewGeometry geometry;
};

// Use that the caller of a method makes of a result.
enum class ResultUse : uint8_t {
  kReturn,     // in memory of the caller
  kSave,       // read only: it may share the memory of an argument or of another result
  kWriteBack,  // becomes the new content of argument `input`
  kSkip,       // unused
};

struct ResultRequest {
  ResultUse use = ResultUse::kReturn;
  int input = -1;  // kWriteBack: index of an argument of this type
};

struct ScheduleOptions {
  // One per element of Method.outputs, or empty: all kReturn.
  std::vector<ResultRequest> results = {};
  // Arguments that may be overwritten, as they are not read after the call.
  std::vector<int> donated = {};
  // The device has memory of its own and copies from host memory (Device::pinned_memory()). False: values on the host
  // (Value.on_host) are where all others are, and copies to and from them are not made.
  bool has_host_memory = false;
  // Kernels of the device for products whose right operand an expression computes (PlaceComputedOperands()). Null:
  // none. They outlive the call.
  const ComputedOperandKernels* computed_operands = nullptr;
};

// Location of a result after the method has run.
struct ResultBuffer {
  enum class Kind : uint8_t {
    kOwn,     // memory of the caller
    kInput,   // argument `index`
    kResult,  // an earlier result `index`, in memory of its own
    kNone,    // nowhere
  };
  Kind kind = Kind::kOwn;
  int index = 0;
  friend bool operator==(const ResultBuffer&, const ResultBuffer&) = default;
};

// An op within a group.
struct GroupMember {
  int op = -1;                                    // index into Method.ops
  std::shared_ptr<const serialization::Op> part;  // as ScheduledStep::part
  int num_inputs = 0;
  int num_outputs = 0;
};

// The right operand of a product that the kernel of the product computes.
struct ComputedOperand {
  int op = -1;         // the expression: index into Method.ops
  int num_inputs = 0;  // of the expression
  TensorSpec operand;  // as the product reads it
  TensorSpec value;    // as the expression yields it
};

struct ScheduledStep {
  // Index into Method.ops; -1 for a copy that the schedule added.
  int op = -1;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  // The op of the step if it is not the whole op: see MergeLaunches().
  std::shared_ptr<const serialization::Op> part = nullptr;
  // Independent ops that one kernel executes; empty for a single op. `op` is then the first member's, inputs and
  // outputs are those of the members, one after another.
  std::vector<GroupMember> members = {};
  // Set for a product whose right operand its kernel computes: `inputs` are those of the product without that operand,
  // then those of the expression.
  std::shared_ptr<const ComputedOperand> computed = nullptr;
};

struct Schedule {
  std::vector<Buffer> buffers;
  std::vector<ScheduledStep> steps;
  // Dense layouts of the method's arguments and results; offsets are 0. Results are Method.outputs, then
  // the new storages of Method.input_updates (sets_storage), in order.
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<ResultBuffer> places;   // one per output
  std::vector<int> written_inputs;    // arguments whose memory gets new contents, ascending
  std::vector<bool> inputs_on_host;   // one per argument
  std::vector<bool> outputs_on_host;  // one per result
  ScheduleStats stats;
};

// Returns the op of a step that is not a group: an op of the method, a part of one, or the Copy of an added step.
const serialization::Op& OpOf(const serialization::Method& method, const ScheduledStep& step);

// Returns the operand's dtype and layout as kernels take them.
TensorSpec SpecOf(const Operand& operand);

// Makes a schedule of `method`, a method of `artifact`, which has passed VerifyArtifact(). `symbols` are
// the values of the artifact's dynamic dimensions, in their ranges. Every op passes CheckOp() with its
// operands. InvalidArgument: an op does not fit its operands, or a view does not fit its source; the
// message names method and op. Unimplemented: an operand that no kernel takes.
absl::StatusOr<Schedule> MakeSchedule(const serialization::Artifact& artifact, const serialization::Method& method,
                                      absl::Span<const int64_t> symbols, const ScheduleOptions& options = {});

}  // namespace cotan

#endif  // COTAN_PLANNING_SCHEDULE_H_
