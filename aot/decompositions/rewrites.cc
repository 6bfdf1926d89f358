// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/rewrites.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_native_batch_norm_legit_no_training.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/conj.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/real.h>
#include <ATen/ops/select.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/node.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "aot/capture/argument.h"
#include "aot/capture/autograd_views.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/effects.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/capture/traced_call.h"
#include "aot/capture/view_inverses.h"
#include "aot/capture/written_bases.h"
#include "aot/decompositions/assert_ops.h"
#include "aot/decompositions/attention.h"
#include "aot/decompositions/composed_ops.h"
#include "aot/decompositions/data_size_ops.h"
#include "aot/decompositions/distance_ops.h"
#include "aot/decompositions/fourier_ops.h"
#include "aot/decompositions/linalg_ops.h"
#include "aot/decompositions/linear_adapters.h"
#include "aot/decompositions/lookup_ops.h"
#include "aot/decompositions/loss_ops.h"
#include "aot/decompositions/number_ops.h"
#include "aot/decompositions/polynomial_ops.h"
#include "aot/decompositions/pooling_ops.h"
#include "aot/decompositions/quantized_weights.h"
#include "aot/decompositions/random_draws.h"
#include "aot/decompositions/random_ops.h"
#include "aot/decompositions/recurrent_layer.h"
#include "aot/decompositions/recurrent_ops.h"
#include "aot/decompositions/resize_ops.h"
#include "aot/decompositions/sampling_ops.h"
#include "aot/decompositions/scatter_ops.h"

namespace cotan::aot {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool IsGiven(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

// Returns an empty tensor that depends on weight and bias as eager's does, so that their gradients are zeros.
at::Tensor BatchNormOfNothing(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias) {
  at::Tensor result = input.clone();
  if (IsGiven(weight)) result = result * at::select(*weight, 0, 0);
  if (IsGiven(bias)) result = result + at::select(*bias, 0, 0);
  return result;
}

at::Tensor BatchNorm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                     const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                     double momentum, double eps, bool cudnn_enabled) {
  if (input.numel() == 0) return BatchNormOfNothing(input, weight, bias);
  if (!IsGiven(running_mean)) {
    return std::get<0>(at::_native_batch_norm_legit(input, weight, bias, training, momentum, eps));
  }
  at::Tensor mean = *running_mean;
  at::Tensor var = *running_var;
  if (!training) {
    return std::get<0>(at::_native_batch_norm_legit_no_training(input, weight, bias, mean, var, momentum, eps));
  }
  return std::get<0>(at::_native_batch_norm_legit(input, weight, bias, mean, var, training, momentum, eps));
}

// Throws unless an optional argument of batch_norm has an element for each channel of the input.
void CheckPerChannel(const at::Tensor& input, const OptionalTensor& argument, const char* name) {
  if (!IsGiven(argument)) return;
  TORCH_CHECK(argument->numel() == input.size(1), "batch_norm: '", name, "' has ", argument->numel(), " elements for ",
              input.size(1), " channels");
}

// LibTorch checks these arguments above the op that BatchNorm() calls, which reads what there is not.
at::Tensor CheckedBatchNorm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                            const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                            double momentum, double eps, bool cudnn_enabled) {
  if (input.numel() > 0) {
    TORCH_CHECK(training || (IsGiven(running_mean) && IsGiven(running_var)),
                "batch_norm: 'running_mean' and 'running_var' are needed where 'training' is false");
    CheckPerChannel(input, weight, "weight");
    CheckPerChannel(input, bias, "bias");
    CheckPerChannel(input, running_mean, "running_mean");
    CheckPerChannel(input, running_var, "running_var");
  }
  return BatchNorm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled);
}

// The functional form has no derivative in LibTorch.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> FunctionalBatchNorm(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const at::Tensor& running_mean,
    const at::Tensor& running_var, bool training, double momentum, double eps) {
  if (!at::functionalization::impl::isFunctionalTensor(input)) {
    // Functionalization calls it for the op below.
    c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
    return at::_native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, training, momentum,
                                                   eps);
  }
  at::Tensor mean = running_mean.clone();
  at::Tensor var = running_var.clone();
  auto [output, save_mean, save_invstd] =
      at::_native_batch_norm_legit(input, weight, bias, mean, var, training, momentum, eps);
  return {output, save_mean, save_invstd, mean, var};
}

// copy is the functional form of copy_; LibTorch has no derivative for it.
at::Tensor Copy(const at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (!at::functionalization::impl::isFunctionalTensor(self)) {
    c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
    return at::copy(self, src, non_blocking);
  }
  return src.to(self.scalar_type()).expand_as(self).clone();
}

// Returns whether one of two tensors is traced and their examples differ.
bool ExamplesDiffer(Recorder& recorder, const at::Tensor& self, const at::Tensor& other) {
  if (ProxyOf(self) == nullptr && ProxyOf(other) == nullptr) return false;
  const at::Tensor a = recorder.RealOf(self), b = recorder.RealOf(other);
  const RealScope real;
  return !at::equal(a, b);
}

// Tensors of different sizes differ, a tensor equals itself, and captured tensors are compared here. Other tensors
// whose examples differ, as query, key and value of torch::nn::MultiheadAttention do, are assumed to differ, and the
// program checks that. Every other case decides by data; the recorder reports it as unsupported.
bool Equal(const at::Tensor& self, const at::Tensor& other) {
  if (self.sizes() != other.sizes()) return false;
  if (self.is_same(other)) return true;
  Recorder* recorder = CurrentRecorder();
  if (recorder != nullptr && ExamplesDiffer(*recorder, self, other)) {
    Assert(at::ne(self, other).any(), "equal",
           "at::equal() has compared two tensors that have different elements in the examples and equal ones in this "
           "call; the program has the branch for different ones");
    return false;
  }
  c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
  return at::equal(self, other);
}

at::Tensor Vdot(const at::Tensor& self, const at::Tensor& other) { return at::dot(at::conj(self), other); }

at::Tensor Real(const at::Tensor& self) {
  if (IsConjugateView(self)) return at::select(at::view_as_real(at::_conj(self)), -1, 0);
  c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
  return at::real(self);
}

at::Tensor Imag(const at::Tensor& self) {
  if (!IsConjugateView(self)) {
    c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
    return at::imag(self);
  }
  return at::select(at::_neg_view(at::view_as_real(at::_conj(self))), -1, 1);
}

// Detects whether an op changes the geometry of its tensor in place.
class GeometryWatch {
 public:
  GeometryWatch(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    if (!op.hasTag(at::Tag::inplace_view)) return;
    tensor_ = torch::jit::peek(stack, 0, op.schema().arguments().size()).toTensor();
    sizes_ = tensor_.sizes().vec();
    strides_ = tensor_.strides().vec();
  }

  // Returns whether autograd must record the op although gradients are disabled: LibTorch regenerates the
  // grad_fn of the caller's view from its new geometry.
  bool ContinuesHistory(const AutogradViews& views) const {
    return tensor_.defined() && !at::GradMode::is_enabled() && tensor_.requires_grad() && views.IsViewOfCaller(tensor_);
  }

  const at::Tensor& tensor() const { return tensor_; }

  void RecordMutation(AutogradViews& views) const {
    if (!tensor_.defined() || (tensor_.sizes() == sizes_ && tensor_.strides() == strides_)) return;
    views.GeometryChanged(tensor_);
    // LibTorch does not update the wrapper's own numel.
    tensor_.unsafeGetTensorImpl()->set_sizes_and_strides(tensor_.sizes(), tensor_.strides());
  }

 private:
  at::Tensor tensor_;
  std::vector<int64_t> sizes_, strides_;
};

void NoteResults(const c10::OperatorHandle& op, const torch::jit::Stack& stack, AutogradViews& views) {
  for (const torch::jit::IValue& result : torch::jit::last(stack, op.schema().returns().size())) {
    if (result.isTensor()) views.Note(result.toTensor());
    if (!result.isTensorList()) continue;
    for (const at::Tensor& tensor : result.toTensorVector()) views.Note(tensor);
  }
}

bool IsFreshMemory(const c10::OperatorHandle& op) {
  return op.schema().name() == "aten::empty" && op.schema().overload_name() == "memory_format";
}

// CopySlices::apply (torch/csrc/autograd/functions/tensor.cpp) applies the view function to a gradient
// whose storage offset is 0. Storage offsets of as_strided in that function are relative to the base's
// storage and are converted here.
void MakeOffsetRelativeToGradient(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (op.schema().name() != "aten::as_strided" || stack.back().isNone()) return;
  // Functionalization replays its views on the values inside of functional tensors; these are not
  // converted.
  if (!at::functionalization::impl::isFunctionalTensor(torch::jit::peek(stack, 0, 4).toTensor())) return;
  const auto* write = dynamic_cast<torch::autograd::CopySlices*>(torch::autograd::get_current_node().get());
  if (write == nullptr || write->view_fn == nullptr) return;
  stack.back() = stack.back().toInt() - write->base.storage_offset();
}

// Calls the op below kRewriteKey and corrects LibTorch's handling of views and writes around it. Writes to
// tensors that are neither inputs nor computed in the trace are reported as unsupported: the graph could
// not return their new content.
void CallBelow(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  Recorder* recorder = CurrentRecorder();
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRewriteKey);
  if (recorder == nullptr) {
    op.redispatchBoxed(below, stack);
    return;
  }
  if (absl::StartsWith(op.schema().name(), "aten::_foreach_")) {
    // The CPU kernel calls an op for each tensor.
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    return;
  }
  if (op.schema().is_mutable()) recorder->CheckWrites(op, *stack);
  MakeOffsetRelativeToGradient(op, *stack);
  AutogradViews& views = recorder->autograd_views();
  const GeometryWatch watch(op, *stack);
  const WrittenBases written(op, *stack);
  written.RecordMutation(*recorder);
  const ViewInverse inverse(op, *stack);
  if (watch.ContinuesHistory(views)) {
    const at::AutoGradMode mode(true);
    const auto before = watch.tensor().grad_fn();
    op.redispatchBoxed(below, stack);
    views.NoteGradFnRebased(before.get(), watch.tensor());
  } else {
    op.redispatchBoxed(below, stack);
  }
  written.Restore();
  inverse.Mend(*stack);
  if (IsFreshMemory(op)) recorder->AllowRawWrites(torch::jit::peek(*stack, 0, 1).toTensor());
  NoteResults(op, *stack, views);
  watch.RecordMutation(views);
}

// Disables inference mode within a trace: functionalization replays views at any time, and the replayed
// tensors must be usable outside of inference mode.
void CallWithoutInference(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  op.callBoxed(stack);
}

// Calls a product with an adapted weight and adds the adapter.
void CallAdapted(const AdaptedCall& call, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  {
    const LinearAdapterScope none({});  // for the ops that the call consists of
    CallBelow(op, keys, stack);
  }
  const at::Tensor result = torch::jit::pop(*stack).toTensor();
  torch::jit::push(*stack, ApplyAdapter(call, result));
}

// The fallback of all ops without a rewrite. Adds the op's name to errors of LibTorch; an error that eager
// mode does not have is reported as unsupported.
void PassThrough(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  std::optional<TracedCall> call;
  if (Recorder* recorder = CurrentRecorder()) {
    if (CallWithNumbers(op, *stack, *recorder)) return;
    call.emplace(*recorder, op, *stack);
  }
  try {
    if (CurrentRecorder() != nullptr && CallWithDataSize(op, *stack, *CurrentRecorder())) return;
    if (CurrentRecorder() != nullptr && c10::InferenceMode::is_enabled()) return CallWithoutInference(op, stack);
    if (CallQuantizedEmbedding(op, stack)) return;
    const AdaptedCall adapted = FindAdaptedCall(op, *stack);
    DequantizeArguments(op, stack);
    CaptureClassWeights(op, *stack);
    if (adapted.adapter != nullptr) return CallAdapted(adapted, op, keys, stack);
    CallBelow(op, keys, stack);
  } catch (c10::Error& error) {
    if (call.has_value()) call->ReportIfOnlyTracingFails();
    if (error.context().empty()) error.add_context(NodeOpName(op.schema()));
    throw;
  }
}

template <typename Configure>
torch::Library* MakeLibrary(torch::Library::Kind kind, const char* name, std::optional<c10::DispatchKey> key,
                            Configure configure) {
  auto* library = new torch::Library(kind, name, key, __FILE__, __LINE__);
  configure(*library);
  return library;
}

}  // namespace

void RegisterRewrites() {
  // Registrations last as long as the process.
  static torch::Library* const definitions =
      MakeLibrary(torch::Library::DEF, "cotan", std::nullopt, [](torch::Library& m) {
        DefineRandomUniform(m);
        DefineLeadingRows(m);
        DefineEffect(m);
        DefineRecurrent(m);
      });
  static torch::Library* const fallback = MakeLibrary(torch::Library::IMPL, "_", kRewriteKey, [](torch::Library& m) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&PassThrough>());
  });
  static torch::Library* const rewrites = MakeLibrary(torch::Library::IMPL, "aten", kRewriteKey, [](torch::Library& m) {
    m.impl("batch_norm", CheckedBatchNorm);
    m.impl("_native_batch_norm_legit_functional", FunctionalBatchNorm);
    m.impl("scaled_dot_product_attention", Attention);
    m.impl("equal", Equal);
    m.impl("vdot", Vdot);
    m.impl("copy", Copy);
    m.impl("real", Real);
    m.impl("imag", Imag);
    AddAssertRewrites(m);
    AddRandomRewrites(m);
    AddRecurrentRewrites(m);
    AddSamplingRewrites(m);
    AddDistanceRewrites(m);
    AddScatterRewrites(m);
    AddFourierRewrites(m);
    AddLookupRewrites(m);
    AddLossRewrites(m);
    AddResizeRewrites(m);
    AddPoolingRewrites(m);
    AddPolynomialRewrites(m);
    AddLinearAlgebraRewrites(m);
    AddComposedRewrites(m);
  });
  static_cast<void>(definitions);
  static_cast<void>(fallback);
  static_cast<void>(rewrites);
}

}  // namespace cotan::aot
