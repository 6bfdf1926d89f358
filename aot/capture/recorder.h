// SPDX-License-Identifier: Apache-2.0

// Records the ops that reach the bottom of the tracing stack (dispatch_keys.h) in a graph.
#ifndef COTAN_AOT_CAPTURE_RECORDER_H_
#define COTAN_AOT_CAPTURE_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/capture/autograd_views.h"
#include "aot/capture/decomposition.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/raw_writes.h"
#include "aot/capture/traced_program.h"
#include "aot/ir/graph.h"
#include "base/layout.h"

namespace c10 {
class OperatorHandle;
}

namespace cotan::aot {

// The recording of one trace. While a Recorder is active on a thread (RecordingScope), ops on proxies of
// its epoch become nodes of graph(), and every other tensor among their arguments becomes a constant of it.
// A construct that the graph cannot express is reported as unsupported, and tracing continues with real
// values, so that one trace finds all of them. Not thread-safe.
class Recorder {
 public:
  // `decompositions` may be null; it must outlive the recorder.
  explicit Recorder(const DecompositionTable* decompositions = nullptr) : decomposer_(decompositions) {}

  // Adds a graph input and returns a functional tensor around its proxy.
  at::Tensor AddInput(const at::Tensor& real, InputKind kind, int index, const std::string& name);
  // Makes `real` a constant of the graph and returns a functional tensor for it.
  at::Tensor Constant(const at::Tensor& real);
  // Returns the graph value of a tensor that the traced function returned: a functional tensor, or a
  // captured one, which becomes a constant. kNoValue if it is undefined.
  ValueId ValueOf(const at::Tensor& tensor);
  // Returns the real tensor in a functional tensor; `tensor` itself if it is a captured one.
  at::Tensor RealOf(const at::Tensor& tensor);

  // Records one op: pops its arguments from the stack, runs it on the real tensors and pushes proxies of
  // the results.
  void Record(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  // Reports an op, whose arguments are on top of the stack, as unsupported if it writes to a tensor that is
  // neither an input nor computed in this trace, or writes what depends on inputs to a tensor that does not.
  void CheckWrites(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  // Records that an op writes the functional tensor with its present geometry.
  void NoteWrite(const at::Tensor& functional);
  // Returns whether elements of the functional tensor's storage were written that its present geometry does
  // not include.
  bool HasWrittenOutsideOf(const at::Tensor& functional) const;
  // Returns whether an op wrote a functional tensor with the storage at this address.
  bool HasWrittenIn(const void* storage) const;

  // Allows writes to the functional tensor, newly allocated and uninitialized, through its data pointer (as
  // at::tensor does) until an op reads it; the content at that time becomes a constant.
  void AllowRawWrites(const at::Tensor& fresh);
  // Revokes the data pointers of all such tensors.
  void RevokeRawWrites() { raw_writes_.RevokeAll(); }

  // Reserves the Philox blocks for `count` draws and returns the index of the first one.
  int64_t TakeRandomSlice(int64_t count);
  int64_t random_blocks() const { return random_blocks_; }
  // The RNG state that random ops of this trace read, a functional tensor; set by the tracer.
  at::Tensor rng_state;
  // The op that the traced function has called and that may call others; null outside of ops. Set by
  // TracedCall.
  const c10::OperatorHandle* called_op = nullptr;
  // The token that the last effect returned (effects.h); initially set by the tracer.
  at::Tensor effect_token;

  // Reports `subject` as unsupported; `reason` is a clause about it. Ignores repeated reports.
  void ReportUnsupported(absl::string_view subject, absl::string_view reason);
  // Reports an op as unsupported by its name, and names the op of the traced function that calls it.
  void ReportUnsupportedOp(const c10::OperatorHandle& op, absl::string_view reason);
  // Returns the reports, in order.
  const std::vector<std::string>& diagnostics() const { return diagnostics_; }

  Graph& graph() { return graph_; }
  // Tensors captured while tracing, in the order of the graph's kConstant inputs.
  const std::vector<TracedState>& constants() const { return constants_; }
  const std::shared_ptr<TraceEpoch>& epoch() const { return epoch_; }
  AutogradViews& autograd_views() { return autograd_views_; }
  const AutogradViews& autograd_views() const { return autograd_views_; }

  // Names of the module's registered tensors by the address of their storage: a captured constant must not
  // share these.
  absl::flat_hash_map<const void*, std::string> registered_storages;

 private:
  // Returns the constant with the content of `real`. `proxy` is the proxy of another epoch around `real`,
  // or null.
  ValueId CaptureConstant(const at::Tensor& real, const ProxyTensorImpl* proxy = nullptr);
  // Returns the value of a proxy of this recording; if its memory was written through its data pointer, the
  // constant with that content.
  ValueId ValueOfProxy(const ProxyTensorImpl& proxy);
  // Runs the op's decomposition, if it has one, and pushes its results; false if nothing was pushed.
  bool Decompose(const c10::OperatorHandle& op, const std::string& name, const std::vector<c10::IValue>& arguments,
                 torch::jit::Stack& stack);
  // Returns a proxy of a decomposition's result with the strides of `real`, the result of the op itself.
  at::Tensor ConformTo(const at::Tensor& real, const at::Tensor& result);
  // Returns a proxy of a new value, which becomes an output of `node`.
  at::Tensor WrapResult(const std::string& op, const at::Tensor& real, Node& node);
  // Notes the storages of the results on top of the stack that the op, which ran on captured tensors alone, has
  // allocated: the function may write to them.
  void NoteOwnStorages(const c10::OperatorHandle& op, absl::Span<const c10::IValue> arguments,
                       const torch::jit::Stack& stack);
  // Returns whether the real tensor is in such a storage.
  bool IsOwn(const at::Tensor& real) const;
  // Makes the next use of a tensor in the storage of `real`, which is about to be written, a new constant.
  void ForgetContent(const at::Tensor& real);
  // Adds the arguments to the node.
  void RecordArguments(const c10::FunctionSchema& schema, absl::Span<const c10::IValue> arguments, Node& node);
  // Replaces the real results on top of the stack by proxies of the node's outputs.
  void RecordResults(const c10::OperatorHandle& op, torch::jit::Stack& stack, Node& node);
  // Appends the node, with its source.
  void AppendNode(Node node);
  // Returns the value for Node.source: the module that the node comes from.
  std::string Source(const Node& node);

  Graph graph_;
  std::shared_ptr<TraceEpoch> epoch_ = std::make_shared<TraceEpoch>();
  std::vector<TracedState> constants_;
  // Keeps captured tensors alive, so that their addresses stay unique.
  std::vector<std::pair<at::Tensor, ValueId>> captured_;
  // Storages of NoteOwnStorages(). Weak pointers keep their addresses from being used again.
  absl::flat_hash_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> own_storages_;
  RawWrites raw_writes_;
  std::vector<std::string> diagnostics_;
  // Addresses of the storages of functional tensors, with the layouts that were written.
  std::vector<std::pair<const void*, StridedLayout>> writes_;
  // Module of a parameter or buffer, or of a value that is computed from one alone.
  absl::flat_hash_map<ValueId, std::string> module_of_value_;
  // Source of forward nodes by autograd sequence number, for the nodes of their backward.
  absl::flat_hash_map<uint64_t, std::string> source_of_sequence_;
  int64_t random_blocks_ = 0;
  AutogradViews autograd_views_;
  Decomposer decomposer_;
};

// Returns the active recorder of this thread, or null.
Recorder* CurrentRecorder();

// Makes `recorder` the active one of the thread within its scope. With an epoch instead, for the
// construction of a module, ops run on real tensors and return proxies of that epoch.
class RecordingScope {
 public:
  explicit RecordingScope(Recorder& recorder);
  explicit RecordingScope(std::shared_ptr<TraceEpoch> construction_epoch);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Recorder* previous_;
  std::shared_ptr<TraceEpoch> previous_epoch_;
};

// Registers the fallback kernel of kRecordKey. Idempotent.
void RegisterRecorder();

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_RECORDER_H_
