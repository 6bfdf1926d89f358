// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/number_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fill.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/capture/argument.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/number.h"
#include "aot/capture/real_scope.h"

namespace cotan::aot {
namespace {

using c10::IValue;
using torch::jit::Stack;

bool HasNumber(const IValue& value) {
  if (IsSymbolicNumber(value)) return true;
  if (!value.isList()) return false;
  const c10::ArrayRef<IValue> members = value.toListRef();
  return std::any_of(members.begin(), members.end(), IsSymbolicNumber);
}

c10::TypeKind BareKind(const c10::Argument& declared) {
  const c10::TypePtr type = declared.type();
  return type->kind() == c10::TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType()->kind()
                                                     : type->kind();
}

// Returns a number, symbolic or not, as a wrapped number.
at::Tensor Wrapped(const IValue& number) {
  if (IsSymbolicNumber(number)) return TensorOfNumber(number);
  const at::Scalar value = number.toScalar();
  if (value.isBoolean()) return Number(value.toBool());
  if (value.isFloatingPoint()) return Number(value.toDouble());
  TORCH_CHECK(!value.isComplex(), "complex numbers cannot be combined with the numbers of a function's arguments");
  return Number(value.toLong());
}

// --- Overloads that take tensors -----------------------------------------------

// Returns whether `to` is the declaration `from` with tensors in place of numbers, at least in place of the symbolic
// ones among `arguments`.
bool TakesTensorsForNumbers(const c10::FunctionSchema& from, const c10::FunctionSchema& to,
                            c10::ArrayRef<IValue> arguments) {
  if (from.arguments().size() != to.arguments().size()) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& a = from.arguments()[i];
    const c10::Argument& b = to.arguments()[i];
    if (a.name() != b.name()) return false;
    const bool becomes_tensor = BareKind(a) == c10::TypeKind::NumberType && BareKind(b) == c10::TypeKind::TensorType;
    if (!becomes_tensor && (HasNumber(arguments[i]) || *a.type() != *b.type())) return false;
  }
  return true;
}

std::optional<c10::OperatorHandle> TensorOverload(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments) {
  for (const char* overload : {"Tensor", "Tensor_Tensor", "Tensor_mode", "self", "int_Tensor"}) {
    const auto found = c10::Dispatcher::singleton().findSchema({schema.name(), overload});
    if (found.has_value() && TakesTensorsForNumbers(schema, found->schema(), arguments)) return found;
  }
  return std::nullopt;
}

void CallOverload(const c10::OperatorHandle& overload, Stack& stack, size_t count) {
  const std::vector<c10::Argument>& declared = overload.schema().arguments();
  for (size_t i = 0; i < count; ++i) {
    IValue& argument = torch::jit::peek(stack, i, count);
    if (BareKind(declared[i]) == c10::TypeKind::TensorType && argument.isScalar()) argument = Wrapped(argument);
  }
  overload.callBoxed(stack);
}

// --- Ops without such an overload ------------------------------------------------

// The arguments of a call, by name.
class Arguments {
 public:
  Arguments(const c10::FunctionSchema& schema, std::vector<IValue> values)
      : schema_(schema), values_(std::move(values)) {}

  bool Has(const char* name) const { return schema_.argumentIndexWithName(name).has_value(); }
  const IValue& operator[](const char* name) const {
    return values_[static_cast<size_t>(schema_.argumentIndexWithName(name).value())];
  }
  at::Tensor Tensor(const char* name) const { return (*this)[name].toTensor(); }
  // Returns an argument that is a tensor or a number.
  at::Tensor Operand(const char* name) const {
    const IValue& value = (*this)[name];
    return value.isTensor() ? value.toTensor() : Wrapped(value);
  }
  // Returns an optional argument that is not symbolic.
  template <typename T>
  std::optional<T> Option(const char* name) const {
    return Has(name) ? (*this)[name].toOptional<T>() : std::nullopt;
  }

 private:
  const c10::FunctionSchema& schema_;
  std::vector<IValue> values_;
};

// Returns x * factor; x itself if the factor is the number 1. Integers are multiplied in the dtype of the sum with
// `other`, as one op would do it.
at::Tensor Scaled(const at::Tensor& x, const IValue& factor, const at::Tensor& other) {
  if (!IsSymbolicNumber(factor) && factor.toScalar().equal(1)) return x;
  return x.to(at::result_type(x, other)) * Wrapped(factor);
}

at::Tensor Add(const Arguments& in) {
  const at::Tensor self = in.Tensor("self");
  const at::Tensor other = in.Operand("other");
  return self + Scaled(other, in["alpha"], self);
}
at::Tensor Sub(const Arguments& in) {
  const at::Tensor self = in.Tensor("self");
  const at::Tensor other = in.Operand("other");
  return self - Scaled(other, in["alpha"], self);
}
at::Tensor ReverseSub(const Arguments& in) {
  const at::Tensor self = in.Tensor("self");
  const at::Tensor other = in.Operand("other");
  return other - Scaled(self, in["alpha"], other);
}

// Returns beta * self, where NaNs do not count if beta is 0.
at::Tensor Bias(const Arguments& in) {
  const at::Tensor self = in.Tensor("self");
  const IValue& beta = in["beta"];
  if (!IsSymbolicNumber(beta)) return beta.toScalar().equal(0) ? at::zeros_like(self) : Scaled(self, beta, self);
  return at::where(at::ne(PlainTensorOfNumber(beta), 0), self * Wrapped(beta), at::zeros_like(self));
}
at::Tensor SumOfProduct(const Arguments& in, const at::Tensor& product) {
  return Bias(in) + Scaled(product, in["alpha"], product);
}
at::Tensor AddMm(const Arguments& in) { return SumOfProduct(in, at::matmul(in.Tensor("mat1"), in.Tensor("mat2"))); }
at::Tensor AddMv(const Arguments& in) { return SumOfProduct(in, at::matmul(in.Tensor("mat"), in.Tensor("vec"))); }
at::Tensor BAddBmm(const Arguments& in) { return SumOfProduct(in, at::bmm(in.Tensor("batch1"), in.Tensor("batch2"))); }

at::Tensor AddCMul(const Arguments& in) {
  return in.Tensor("self") + Wrapped(in["value"]) * in.Tensor("tensor1") * in.Tensor("tensor2");
}
at::Tensor AddCDiv(const Arguments& in) {
  return in.Tensor("self") + Wrapped(in["value"]) * in.Tensor("tensor1") / in.Tensor("tensor2");
}

at::Tensor LeakyRelu(const Arguments& in) {
  const at::Tensor self = in.Tensor("self");
  return at::where(at::gt(self, 0), self, self * Wrapped(in["negative_slope"]));
}
at::Tensor Threshold(const Arguments& in) {
  const at::Tensor self = in.Tensor("self");
  return at::where(at::le(self, in.Operand("threshold")), in.Operand("value").to(self.scalar_type()), self);
}

// The dtype of a tensor that is made of a number alone.
at::ScalarType DefaultDType(const at::Tensor& number) {
  return number.scalar_type() == at::kDouble ? c10::get_default_dtype_as_scalartype() : number.scalar_type();
}
at::Tensor Full(const Arguments& in) {
  const at::Tensor value = in.Operand("fill_value");
  const auto dtype = in.Option<at::ScalarType>("dtype").value_or(DefaultDType(value));
  return at::zeros(in["size"].toIntVector(), at::TensorOptions(dtype)).fill_(value);
}
at::Tensor FullLike(const Arguments& in) {
  const at::Tensor self = in.Tensor("self");
  const auto dtype = in.Option<at::ScalarType>("dtype").value_or(self.scalar_type());
  return at::zeros_like(self, at::TensorOptions(dtype), in.Option<at::MemoryFormat>("memory_format"))
      .fill_(in.Operand("fill_value"));
}
at::Tensor NewFull(const Arguments& in) {
  const auto dtype = in.Option<at::ScalarType>("dtype").value_or(in.Tensor("self").scalar_type());
  return at::zeros(in["size"].toIntVector(), at::TensorOptions(dtype)).fill_(in.Operand("fill_value"));
}
at::Tensor ScalarTensor(const Arguments& in) {
  const auto dtype = in.Option<at::ScalarType>("dtype").value_or(c10::get_default_dtype_as_scalartype());
  return in.Operand("s").to(dtype);
}

struct Form {
  absl::string_view name;  // without the '_' of the in-place op
  at::Tensor (*function)(const Arguments& in);
};

constexpr Form kForms[] = {
    {"aten::add", Add},
    {"aten::sub", Sub},
    {"aten::rsub", ReverseSub},
    {"aten::addmm", AddMm},
    {"aten::addmv", AddMv},
    {"aten::baddbmm", BAddBmm},
    {"aten::addcmul", AddCMul},
    {"aten::addcdiv", AddCDiv},
    {"aten::full", Full},
    {"aten::full_like", FullLike},
    {"aten::new_full", NewFull},
    {"aten::scalar_tensor", ScalarTensor},
    {"aten::leaky_relu", LeakyRelu},
    {"aten::threshold", Threshold},
};

// Returns the form of an op; null if it has none, or if a number is in another place than that of a Scalar.
const Form* FormOf(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (HasNumber(arguments[i]) && BareKind(schema.arguments()[i]) != c10::TypeKind::NumberType) return nullptr;
  }
  absl::string_view name = schema.name();
  if (schema.is_mutable() && name.back() == '_') name.remove_suffix(1);
  const auto found = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& f) { return f.name == name; });
  return found == std::end(kForms) || schema.returns().size() != 1 ? nullptr : found;
}

void CallForm(const Form& form, const c10::FunctionSchema& schema, Stack& stack) {
  const Arguments in(schema, torch::jit::pop(stack, schema.arguments().size()));
  const at::Tensor result = form.function(in);
  if (!schema.is_mutable()) return torch::jit::push(stack, result);
  const at::Tensor self = in.Tensor("self");
  TORCH_CHECK(c10::canCast(result.scalar_type(), self.scalar_type()), "the result has dtype ", result.scalar_type(),
              ", which cannot be written to a tensor of ", self.scalar_type());
  torch::jit::push(stack, self.copy_(result));
}

// --- Uses as constants -------------------------------------------------------------

// Replaces symbolic numbers by those of the example.
void UseExamples(IValue& value) {
  if (IsSymbolicNumber(value)) {
    value = ExampleOfNumber(value);
    return;
  }
  if (!HasNumber(value)) return;
  std::vector<int64_t> integers;
  for (const IValue& member : value.toListRef()) {
    integers.push_back((IsSymbolicNumber(member) ? ExampleOfNumber(member) : member).toInt());
  }
  value = integers;
}

std::string NamesIn(const IValue& value) {
  if (IsSymbolicNumber(value)) return NameOfNumber(value);
  std::vector<std::string> names;
  for (const IValue& member : value.toListRef()) {
    if (IsSymbolicNumber(member)) names.push_back(NameOfNumber(member));
  }
  return absl::StrJoin(names, "', '");
}

void ReportConstants(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments, Recorder& recorder) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!HasNumber(arguments[i])) continue;
    const c10::Argument& declared = schema.arguments()[i];
    const bool is_scalar = BareKind(declared) == c10::TypeKind::NumberType;
    recorder.ReportUnsupported(
        absl::StrCat("the number '", NamesIn(arguments[i]), "'"),
        absl::StrCat("it is the argument '", declared.name(), "' of ", NodeOpName(schema), ", ",
                     is_scalar
                         ? "which has no form with a tensor in its place; write the op with tensor arithmetic, or "
                           "make the number a constant"
                         : "which decides a size, a dimension or another setting; pass it as a number that "
                           "decides sizes (SizeNumber) with a dynamic dimension, or make it a constant"));
  }
}

}  // namespace

bool CallWithNumbers(const c10::OperatorHandle& op, Stack& stack, Recorder& recorder) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  const c10::ArrayRef<IValue> arguments = torch::jit::last(stack, count);
  if (std::none_of(arguments.begin(), arguments.end(), HasNumber)) return false;
  if (const auto overload = TensorOverload(schema, arguments)) {
    CallOverload(*overload, stack, count);
    return true;
  }
  if (const Form* form = FormOf(schema, arguments)) {
    CallForm(*form, schema, stack);
    return true;
  }
  ReportConstants(schema, arguments, recorder);
  for (size_t i = 0; i < count; ++i) UseExamples(torch::jit::peek(stack, i, count));
  op.callBoxed(stack);
  return true;
}

}  // namespace cotan::aot
