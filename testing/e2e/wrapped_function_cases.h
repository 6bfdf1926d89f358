// SPDX-License-Identifier: Apache-2.0

// Compiles functions of wrapper types and compares them with LibTorch eager: results, arguments after the
// call, shared memory, gradients.
#ifndef COTAN_TESTING_E2E_WRAPPED_FUNCTION_CASES_H_
#define COTAN_TESTING_E2E_WRAPPED_FUNCTION_CASES_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/wrapped_function.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "testing/tolerance.h"

namespace cotan::testing {

inline Tensor ToCotan(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  const auto dtype = dense.scalar_type() == at::kFloat  ? DType::kFloat32
                     : dense.scalar_type() == at::kChar ? DType::kInt8
                                                        : DType::kInt64;
  Tensor result = *Tensor::Empty(dtype, {dense.sizes().data(), dense.sizes().size()});
  std::memcpy(result.address(), dense.const_data_ptr(), dense.nbytes());
  return result;
}

inline void ExpectNear(const Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(std::vector<int64_t>(actual.sizes().begin(), actual.sizes().end()), expected.sizes().vec()) << what;
  const Tensor dense = *actual.Contiguous(), wanted = ToCotan(expected);
  ASSERT_EQ(dense.ToString(), wanted.ToString()) << what;
  if (wanted.dtype() != DType::kFloat32) {
    EXPECT_EQ(std::memcmp(dense.address(), wanted.address(), static_cast<size_t>(expected.nbytes())), 0) << what;
    return;
  }
  EXPECT_LE(ErrorInEps<float>(*dense.ToVector<float>(), *wanted.ToVector<float>()), kMatmul) << what;
}

// Roots of the arguments: computed tensors, which may be written. They are computed from leaves
// that require grad if the given tensors do.
struct EagerRoots {
  explicit EagerRoots(const std::vector<at::Tensor>& given) {
    for (const at::Tensor& root : given) {
      leaves.push_back(root.detach().clone().requires_grad_(root.requires_grad()));
      roots.push_back(root.requires_grad() ? leaves.back().clone() : leaves.back());
    }
  }
  std::vector<at::Tensor> leaves, roots;
};

struct CotanRoots {
  CotanRoots(const std::vector<at::Tensor>& given, TensorOps& ops) {
    for (const at::Tensor& root : given) {
      Variable& leaf = leaves.emplace_back(ToCotan(root));
      Variable& made = roots.emplace_back(leaf);
      if (!root.requires_grad()) continue;
      leaf = *Variable::Leaf(ToCotan(root));
      made = Variable(ToCotan(root));
      EXPECT_TRUE(made.CopyInPlace(leaf, ops).ok());
    }
  }
  std::vector<Variable> leaves, roots;
};

inline bool Same(const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); }
inline bool Same(const Variable& a, const Variable& b) { return a.is_same(b); }
inline bool Shares(const at::Tensor& a, const at::Tensor& b) { return a.is_alias_of(b); }
inline bool Shares(const Variable& a, const Variable& b) { return a.tensor().storage() == b.tensor().storage(); }

// Returns which of the tensors are one object ("0=3") or share a storage ("1~2").
template <typename T>
std::string Identities(const std::vector<T>& tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t k = i + 1; k < tensors.size(); ++k) {
      if (Same(tensors[i], tensors[k])) {
        absl::StrAppend(&text, i, "=", k, " ");
      } else if (Shares(tensors[i], tensors[k])) {
        absl::StrAppend(&text, i, "~", k, " ");
      }
    }
  }
  return text;
}

// Returns a tangent of the tensor's sizes with the last two dimensions transposed in memory.
inline at::Tensor TangentFor(const at::Tensor& tensor) {
  return at::arange(tensor.numel(), at::kFloat).add(0.5).view(tensor.sizes());
}
inline Tensor Transposed(const at::Tensor& tangent) {
  if (tangent.dim() < 2) return ToCotan(tangent);
  StridedLayout layout = Variable(ToCotan(tangent.transpose(-1, -2))).layout();
  const size_t last = layout.sizes.size() - 1;
  std::swap(layout.sizes[last], layout.sizes[last - 1]);
  std::swap(layout.strides[last], layout.strides[last - 1]);
  const Tensor dense = ToCotan(tangent.transpose(-1, -2));
  return *Tensor::InStorage(dense.storage(), dense.dtype(), layout);
}

// Compares one call of a compiled function with the same call in eager mode.
class WrappedCall {
 public:
  WrappedCall(Session session, const std::vector<at::Tensor>& given)
      : session_(std::move(session)), eager_(given), run_(given, session_.ops()) {}

  template <typename Make, typename Callable>
  void Compare(Make make, Callable callable) {
    const auto eager_arguments = make(eager_.roots);
    std::apply([&](const auto&... one) { (Wrap(one).Append(eager_tensors_), ...); }, eager_arguments);
    std::vector<WrappedVariable> arguments;
    std::apply([&](const auto&... one) { (arguments.push_back(Wrap(one)), ...); }, make(run_.roots));
    for (const WrappedVariable& argument : arguments) argument.Append(run_tensors_);

    std::vector<aot::WrappedTensor> expected;
    aot::internal::WrapResult(std::apply(callable, eager_arguments), expected);
    absl::StatusOr<Function> forward = Function::Create(session_, "forward");
    ASSERT_TRUE(forward.ok()) << forward.status();
    auto actual = forward->CallWrapped(arguments);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_EQ(actual->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto& result = std::get<WrappedVariable>((*actual)[i]);
      EXPECT_EQ(result.StructureText(), expected[i].StructureText());
      EXPECT_EQ(result.outer_sizes(), expected[i].outer_sizes()) << "of result " << i;
      expected[i].Append(eager_tensors_);
      result.Append(run_tensors_);
    }
    ASSERT_EQ(run_tensors_.size(), eager_tensors_.size());
    CompareTensors();
    CompareGradients();
  }

 private:
  void CompareTensors() {
    EXPECT_EQ(Identities(run_tensors_), Identities(eager_tensors_)) << "of the parts of arguments, then of results";
    for (size_t i = 0; i < eager_tensors_.size(); ++i) {
      const std::string what = absl::StrCat("part ", i, " of arguments and results");
      ExpectNear(run_tensors_[i].tensor(), eager_tensors_[i], what);
      EXPECT_EQ(run_tensors_[i].requires_grad(), eager_tensors_[i].requires_grad()) << what;
    }
  }

  // Compares gradients of a backward from all results that require grad, with tangents in a layout other
  // than the traced one.
  void CompareGradients() {
    std::vector<at::Tensor> roots, tangents;
    std::vector<Variable> run_roots;
    std::vector<Tensor> run_tangents;
    for (size_t i = 0; i < eager_tensors_.size(); ++i) {
      if (!eager_tensors_[i].requires_grad()) continue;
      roots.push_back(eager_tensors_[i]);
      tangents.push_back(TangentFor(roots.back()));
      run_roots.push_back(run_tensors_[i]);
      run_tangents.push_back(Transposed(tangents.back()));
    }
    if (roots.empty()) return;
    torch::autograd::backward(roots, tangents);
    const absl::Status ran = autograd::Backward(run_roots, run_tangents, session_.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    for (size_t i = 0; i < eager_.leaves.size(); ++i) {
      const at::Tensor expected = eager_.leaves[i].grad();
      const Variable& actual = run_.leaves[i].grad();
      ASSERT_EQ(actual.defined(), expected.defined()) << "gradient of root " << i;
      if (expected.defined()) ExpectNear(actual.tensor(), expected, absl::StrCat("gradient of root ", i));
    }
  }

  Session session_;
  EagerRoots eager_;
  CotanRoots run_;
  std::vector<at::Tensor> eager_tensors_;
  std::vector<Variable> run_tensors_;
};

// Compiles a function for the first of `calls` and compares it on each. `make` makes a tuple of
// arguments from roots: std::vector<at::Tensor> or std::vector<Variable>.
template <typename Make, typename Callable>
void ExpectAsInEager(const std::vector<std::vector<at::Tensor>>& calls, Make make, Callable callable,
                     aot::CompileOptions options = {}) {
  for (const bool in_graph : {true, false}) {
    SCOPED_TRACE(in_graph ? "the program may write inputs" : "the runtime writes inputs");
    options.tracing.keep_input_mutations = in_graph;
    const auto model = aot::CompileWrapped(callable, make(EagerRoots(calls[0]).roots), options);
    ASSERT_TRUE(model.ok()) << model.status();
    for (const std::vector<at::Tensor>& given : calls) {
      auto session = Session::Create(*Program::LoadBytes(model->bytes()), {.kernels = &CpuKernels(), .threads = 1});
      ASSERT_TRUE(session.ok()) << session.status();
      WrappedCall(*std::move(session), given).Compare(make, callable);
    }
  }
}

}  // namespace cotan::testing

#endif  // COTAN_TESTING_E2E_WRAPPED_FUNCTION_CASES_H_
