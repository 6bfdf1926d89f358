// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/number.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <c10/core/SymNodeImpl.h>

#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

using c10::SymNode;

at::Tensor Wrapped(const at::Scalar& value, at::ScalarType dtype) {
  RealScope scope;
  at::Tensor tensor = at::scalar_tensor(value, at::TensorOptions(dtype));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

bool IsWrapped(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_wrapped_number(); }

// Returns another functional tensor around the same graph value, which is a wrapped number or is not.
at::Tensor Rewrapped(const at::Tensor& functional, bool is_number) {
  const ProxyTensorImpl* proxy = ProxyOf(functional);
  const at::Tensor real = [&] {
    RealScope scope;
    return proxy->real().detach();
  }();
  real.unsafeGetTensorImpl()->set_wrapped_number(false);
  const at::Tensor copy = WrapFunctional(MakeProxy(real, proxy->value(), proxy->epoch()));
  if (is_number) MarkNumber(copy);
  return copy;
}

std::string Text(const at::Scalar& value) {
  if (value.isBoolean()) return value.toBool() ? "true" : "false";
  if (value.isFloatingPoint()) return absl::StrCat(value.toDouble());
  return absl::StrCat(value.toLong());
}

// A number of the traced function: its value in the graph, a tensor without dimensions of dtype f64, i64 or bool that
// is not a wrapped number. Arithmetic on such tensors is that of double, int64 and bool.
class NumberNode final : public c10::SymNodeImpl {
 public:
  NumberNode(at::Tensor tensor, std::string name) : tensor_(std::move(tensor)), name_(std::move(name)) {}

  const at::Tensor& tensor() const { return tensor_; }
  at::Scalar example() const {
    RealScope scope;
    return ProxyOf(tensor_)->real().item();
  }

  bool is_int() override { return tensor_.scalar_type() == at::kLong; }
  bool is_float() override { return tensor_.scalar_type() == at::kDouble; }
  bool is_bool() override { return tensor_.scalar_type() == at::kBool; }
  bool has_hint() override { return true; }
  std::string str() override { return name_; }
  SymNode clone() override { return Made(tensor_, name_); }

  SymNode add(const SymNode& other) override { return Arithmetic(other, "+", Add); }
  SymNode sub(const SymNode& other) override { return Arithmetic(other, "-", Sub); }
  SymNode mul(const SymNode& other) override { return Arithmetic(other, "*", at::mul); }
  SymNode truediv(const SymNode& other) override {
    return Made(at::div(AsDouble(tensor_), AsDouble(TensorOf(other))), Infix(other, "/"));
  }
  SymNode pow(const SymNode& other) override { return Arithmetic(other, "**", at::pow); }
  SymNode floordiv(const SymNode& other) override { return Arithmetic(other, "//", at::floor_divide); }
  SymNode mod(const SymNode& other) override { return Arithmetic(other, "%", at::remainder); }
  SymNode sym_min(const SymNode& other) override { return Arithmetic(other, "min", at::minimum); }
  SymNode sym_max(const SymNode& other) override { return Arithmetic(other, "max", at::maximum); }
  SymNode eq(const SymNode& other) override { return Arithmetic(other, "==", at::eq); }
  SymNode ne(const SymNode& other) override { return Arithmetic(other, "!=", at::ne); }
  SymNode lt(const SymNode& other) override { return Arithmetic(other, "<", at::lt); }
  SymNode le(const SymNode& other) override { return Arithmetic(other, "<=", at::le); }
  SymNode gt(const SymNode& other) override { return Arithmetic(other, ">", at::gt); }
  SymNode ge(const SymNode& other) override { return Arithmetic(other, ">=", at::ge); }
  SymNode sym_and(const SymNode& other) override { return Arithmetic(other, "and", at::logical_and); }
  SymNode sym_or(const SymNode& other) override { return Arithmetic(other, "or", at::logical_or); }
  SymNode sym_not() override { return Made(at::logical_not(tensor_), Prefix("not ")); }
  SymNode sym_ite(const SymNode& if_true, const SymNode& if_false) override {
    return Made(at::where(tensor_, TensorOf(if_true), TensorOf(if_false)), Prefix("choice by "));
  }
  SymNode neg() override { return Made(at::neg(tensor_), Prefix("-")); }
  SymNode ceil() override { return Made(at::ceil(tensor_).to(at::kLong), Prefix("ceil ")); }
  SymNode floor() override { return Made(at::floor(tensor_).to(at::kLong), Prefix("floor ")); }
  SymNode sym_float() override { return Made(AsDouble(tensor_), name_); }

  SymNode wrap_int(int64_t value) override { return Constant(value, at::kLong); }
  SymNode wrap_float(double value) override { return Constant(value, at::kDouble); }
  SymNode wrap_bool(bool value) override { return Constant(value, at::kBool); }

  int64_t guard_int(const char*, int64_t) override {
    Report("decides a size, a dimension or another setting of an op",
           "pass it as a number that decides sizes (SizeNumber) with a dynamic dimension, or make it a constant");
    return example().toLong();
  }
  double guard_float(const char*, int64_t) override {
    Report("is read, as a double that an op takes or that the function computes with",
           "compute with tensors and c10::SymFloat, or make it a constant");
    return example().toDouble();
  }
  bool guard_bool(const char*, int64_t) override {
    Report("decides what the function does next", "choose by torch::where, or make it a constant");
    return example().toBool();
  }
  int64_t int_() override { return guard_int(nullptr, 0); }
  bool bool_() override { return guard_bool(nullptr, 0); }

 private:
  static SymNode Made(at::Tensor tensor, std::string name) {
    return c10::make_intrusive<NumberNode>(std::move(tensor), std::move(name));
  }
  static at::Tensor Add(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
  static at::Tensor Sub(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }
  static at::Tensor AsDouble(const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kDouble);
  }
  static const at::Tensor& TensorOf(const SymNode& node) {
    const auto* number = dynamic_cast<const NumberNode*>(node.get());
    if (number == nullptr) throw std::invalid_argument("arithmetic of a number with a number of another kind");
    return number->tensor();
  }
  std::string Prefix(const char* op) const { return absl::StrCat("(", op, name_, ")"); }
  std::string Infix(const SymNode& other, const char* op) const {
    return absl::StrCat("(", name_, " ", op, " ", other->str(), ")");
  }
  SymNode Arithmetic(const SymNode& other, const char* op,
                     at::Tensor (*function)(const at::Tensor&, const at::Tensor&)) {
    return Made(function(tensor_, TensorOf(other)), Infix(other, op));
  }
  static SymNode Constant(const at::Scalar& value, at::ScalarType dtype) {
    return Made(at::full({}, value, at::TensorOptions(dtype)), Text(value));
  }
  void Report(absl::string_view use, absl::string_view advice) const {
    if (Recorder* recorder = CurrentRecorder()) {
      recorder->ReportUnsupported(absl::StrCat("the number '", name_, "'"), absl::StrCat("it ", use, "; ", advice));
    }
  }

  const at::Tensor tensor_;
  const std::string name_;
};

// Returns the node of a symbolic number; null if `value` is none.
c10::intrusive_ptr<NumberNode> NodeOf(const c10::IValue& value) {
  SymNode node;
  if (value.isSymInt()) node = value.toSymInt().toSymNode();
  if (value.isSymFloat()) node = value.toSymFloat().toSymNodeImpl();
  if (value.isSymBool()) node = value.toSymBool().toSymNodeImpl();
  return c10::dynamic_intrusive_pointer_cast<NumberNode>(node);
}

const char* NameOf(at::ScalarType dtype) {
  return dtype == at::kDouble ? "double" : dtype == at::kLong ? "int64_t" : dtype == at::kBool ? "bool" : "none";
}

// Throws unless `tensor` holds a number of `dtype`.
void CheckNumber(const at::Tensor& tensor, at::ScalarType dtype, const std::string& name) {
  if (tensor.dim() == 0 && tensor.scalar_type() == dtype) return;
  throw std::invalid_argument(absl::StrCat(name, " is a number (", NameOf(dtype),
                                           "), but its example is not; give cotan::aot::Number() of a ",
                                           NameOf(dtype)));
}

}  // namespace

at::Tensor Number(double value) { return Wrapped(value, at::kDouble); }
at::Tensor Number(int64_t value) { return Wrapped(value, at::kLong); }
at::Tensor Number(bool value) { return Wrapped(value, at::kBool); }

at::Tensor SizeNumber(int64_t value) {
  RealScope scope;
  return at::empty({value, 0}, at::TensorOptions(at::kLong));
}

bool IsNumber(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() != 0) return false;
  const ProxyTensorImpl* proxy = ProxyOf(tensor);
  return proxy != nullptr ? IsWrapped(proxy->real()) : IsWrapped(tensor);
}

bool IsSizeNumber(const at::Tensor& tensor) {
  return tensor.defined() && tensor.scalar_type() == at::kLong && tensor.dim() == 2 && tensor.size(1) == 0;
}

void MarkNumber(const at::Tensor& functional) {
  const at::Tensor proxy = at::functionalization::impl::from_functional_tensor(functional);
  proxy.unsafeGetTensorImpl()->set_wrapped_number(true);
  AsProxy(proxy)->real().unsafeGetTensorImpl()->set_wrapped_number(true);
}

c10::SymFloat ToSymFloat(const at::Tensor& tensor, const std::string& name) {
  CheckNumber(tensor, at::kDouble, name);
  if (ProxyOf(tensor) == nullptr) return tensor.item<double>();
  return NumberOfTensor(tensor, name).toSymFloat();
}

c10::SymInt ToSymInt(const at::Tensor& tensor, const std::string& name) {
  if (IsSizeNumber(tensor)) return tensor.size(0);
  CheckNumber(tensor, at::kLong, name);
  if (ProxyOf(tensor) == nullptr) return tensor.item<int64_t>();
  return NumberOfTensor(tensor, name).toSymInt();
}

c10::SymBool ToSymBool(const at::Tensor& tensor, const std::string& name) {
  CheckNumber(tensor, at::kBool, name);
  if (ProxyOf(tensor) == nullptr) return tensor.item<bool>();
  return NumberOfTensor(tensor, name).toSymBool();
}

at::Scalar ToSymScalar(const at::Tensor& tensor, const std::string& name) {
  if (IsSizeNumber(tensor)) return tensor.size(0);
  if (tensor.scalar_type() == at::kLong) return ToSymInt(tensor, name);
  if (tensor.scalar_type() == at::kBool) return ToSymBool(tensor, name);
  return ToSymFloat(tensor, name);
}

bool IsSymbolicNumber(const c10::IValue& value) { return NodeOf(value) != nullptr; }

at::Tensor TensorOfNumber(const c10::IValue& value) { return Rewrapped(NodeOf(value)->tensor(), /*is_number=*/true); }

at::Tensor PlainTensorOfNumber(const c10::IValue& value) { return NodeOf(value)->tensor(); }

c10::IValue NumberOfTensor(const at::Tensor& tensor, const std::string& name) {
  const at::Tensor plain = IsNumber(tensor) ? Rewrapped(tensor, /*is_number=*/false) : tensor;
  const SymNode node = c10::make_intrusive<NumberNode>(plain, name);
  if (node->is_int()) return c10::SymInt(node);
  if (node->is_bool()) return c10::SymBool(node);
  return c10::SymFloat(node);
}

std::string NameOfNumber(const c10::IValue& value) { return NodeOf(value)->str(); }

c10::IValue ExampleOfNumber(const c10::IValue& value) { return NodeOf(value)->example(); }

}  // namespace cotan::aot
