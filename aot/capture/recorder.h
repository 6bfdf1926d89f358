// Writes the ops that reach the bottom of the tracing stack (dispatch_keys.h)
// into a graph.
#ifndef COTAN_AOT_CAPTURE_RECORDER_H_
#define COTAN_AOT_CAPTURE_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "aot/capture/autograd_views.h"
#include "aot/capture/decomposition.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/traced_program.h"
#include "aot/ir/graph.h"
#include "base/layout.h"

namespace c10 {
class OperatorHandle;
}

namespace cotan::aot {

// One recording. While a Recorder is active on a thread (RecordingScope), ops on
// proxies of its epoch become nodes of graph(), and every other tensor that
// meets a proxy becomes a constant of it. What the graph cannot express is noted
// as a refusal, and tracing goes on with real values, so that one trace finds
// all of them. Not thread-safe.
class Recorder {
 public:
  // `decompositions` may be null and outlives the recorder.
  explicit Recorder(const DecompositionTable* decompositions = nullptr) : decomposer_(decompositions) {}

  // Adds a graph input and returns its proxy, under functionalization.
  at::Tensor AddInput(const at::Tensor& real, InputKind kind, int index, const std::string& name);
  // A tensor with fixed content, as a traced function computes with it.
  at::Tensor Constant(const at::Tensor& real);
  // The value of a tensor that the traced function returned: a functional
  // tensor, or a captured one. kNoValue if it is undefined.
  ValueId ValueOf(const at::Tensor& tensor);
  // The real content of the same.
  at::Tensor RealOf(const at::Tensor& tensor);

  // The recorded form of one op: takes its arguments from the stack, runs it on
  // the real tensors, leaves proxies of the results.
  void Record(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  // Refuses an op, whose arguments lie on the stack, that writes to a tensor
  // which is no input and was not computed in this trace.
  void CheckWrites(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  // An op has written the functional tensor, at the place where it is now.
  void NoteWrite(const at::Tensor& functional);
  // Whether elements in the functional tensor's storage were written that it does not
  // show now.
  bool HasWrittenOutsideOf(const at::Tensor& functional) const;
  // Whether anything was written in the storage of functional tensors, whose address
  // has been its own.
  bool HasWrittenIn(const void* storage) const;

  // Lets code write the functional tensor, fresh memory without content, by its
  // address (at::tensor) until an op reads it: what it holds then is a constant.
  void AllowRawWrites(const at::Tensor& fresh);
  // Ends that for all.
  void RevokeRawWrites();

  // Philox blocks for an op of `count` elements; returns the first.
  int64_t TakeRandomSlice(int64_t count);
  int64_t random_blocks() const { return random_blocks_; }
  // The generator state that random ops of this trace read; set by the tracer.
  at::Tensor rng_state;
  // The op that the traced function has called, which may call others; null outside of
  // ops. Set by TracedCall.
  const c10::OperatorHandle* called_op = nullptr;
  // What the last effect returned (effects.h); set by the tracer to begin with.
  at::Tensor effect_token;

  // `reason` is a sentence about `subject`; the place is added.
  void Refuse(absl::string_view subject, absl::string_view reason);
  // Refuses an op by its name, and names the op of the traced function that calls it.
  void RefuseOp(const c10::OperatorHandle& op, absl::string_view reason);
  const std::vector<std::string>& refusals() const { return refusals_; }

  Graph& graph() { return graph_; }
  // Tensors captured while tracing, in the order of the graph's kConstant inputs.
  const std::vector<TracedState>& constants() const { return constants_; }
  const std::shared_ptr<TraceEpoch>& epoch() const { return epoch_; }
  AutogradViews& autograd_views() { return autograd_views_; }
  const AutogradViews& autograd_views() const { return autograd_views_; }

  // The storages of the module's registered tensors, by address, with a name:
  // a captured constant must not overlap them.
  absl::flat_hash_map<const void*, std::string> registered_storages;

 private:
  // `proxy` is the foreign proxy around `real`, or null.
  ValueId CaptureConstant(const at::Tensor& real, const ProxyTensorImpl* proxy = nullptr);
  // The value that the proxy, one of this recording, stands for: its own, or the
  // constant that was written to its exposed memory.
  ValueId ValueOfProxy(const ProxyTensorImpl& proxy);
  // Runs the op's decomposition, if it has one, and leaves its results on the
  // stack; false if there are none.
  bool Decompose(const c10::OperatorHandle& op, const std::string& name, const std::vector<c10::IValue>& arguments,
                 torch::jit::Stack& stack);
  // The proxy of a decomposition's result, in memory as `real` is, which LibTorch
  // computed of the op.
  at::Tensor ConformTo(const at::Tensor& real, const at::Tensor& result);
  // The proxy of a new value, which becomes an output of `node`.
  at::Tensor WrapResult(const std::string& op, const at::Tensor& real, Node& node);
  // Makes an as_strided of `self`'s memory one of its elements in row-major order;
  // the order in which `self` is permuted for that, or empty. Leaves other nodes
  // as they are.
  std::vector<int64_t> CanonicalizeAsStrided(const at::Tensor& self, Node& node);
  // The value with its dimensions in another order.
  ValueId Permute(ValueId value, const std::vector<int64_t>& order);
  // Gives the result of the last node, which worked on a permuted argument, the
  // argument's order.
  void AppendInversePermute(const std::vector<int64_t>& order);
  // Where the node comes from; see Node.source.
  std::string Source(const Node& node);

  Graph graph_;
  std::shared_ptr<TraceEpoch> epoch_ = std::make_shared<TraceEpoch>();
  std::vector<TracedState> constants_;
  // Keeps captured tensors alive, so that their addresses stay theirs.
  std::vector<std::pair<at::Tensor, ValueId>> captured_;
  // Values whose memory can be written by its address, with the functional tensors
  // that show it; undefined once an op has read it.
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Exposed {
    WeakTensor shown;
    ValueId content = kNoValue;  // once it has been read
  };
  static void Hide(Exposed& exposed);
  absl::flat_hash_map<ValueId, Exposed> exposed_;
  std::vector<std::string> refusals_;
  // Storages of functional tensors, by address, and what was written in them.
  std::vector<std::pair<const void*, StridedLayout>> writes_;
  // The module that owns a parameter, buffer, or something derived from one alone.
  absl::flat_hash_map<ValueId, std::string> module_of_value_;
  // What the forward pass recorded under an autograd sequence number.
  absl::flat_hash_map<uint64_t, std::string> source_of_sequence_;
  int64_t random_blocks_ = 0;
  AutogradViews autograd_views_;
  Decomposer decomposer_;
};

// The active recorder of this thread, or null.
Recorder* CurrentRecorder();

// Makes `recorder` the active one, or, with an epoch instead, lets ops run and
// yield proxies of that epoch, for the construction of a module.
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

// Tells LibTorch's dispatcher about kRecordKey; the first call counts.
void RegisterRecorder();

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_RECORDER_H_
