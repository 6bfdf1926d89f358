// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/argument.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "aot/capture/tensor_data.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using c10::IValue;
using c10::TypeKind;

// Returns the declared type without Optional around it. Argument::real_type() distinguishes a ScalarType
// from the int that carries it.
c10::TypePtr BareType(const c10::Argument& declared) {
  c10::TypePtr type = declared.real_type();
  if (type->kind() == TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  return type;
}

absl::Status NoForm(const IValue& value, const c10::Argument& declared) {
  return absl::UnimplementedError(absl::StrCat("argument '", declared.name(), "' of type ", declared.type()->str(),
                                               " (", value.tagKind(), ") cannot be represented in a graph"));
}

bool IsDropped(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::LayoutType:
    case TypeKind::DeviceObjType:
    case TypeKind::GeneratorType:
    case TypeKind::MemoryFormatType:
      return true;
    default:
      return false;
  }
}

// Graphs have no complex numbers; they have the real and the imaginary part.
Argument PartsOf(c10::complex<double> number) { return std::vector<double>{number.real(), number.imag()}; }

Argument NumberOf(const at::Tensor& wrapped) {
  const at::Scalar number = wrapped.item();
  if (number.isComplex()) return PartsOf(number.toComplexDouble());
  if (number.isBoolean()) return number.toBool();
  if (number.isIntegral(/*includeBool=*/false)) return SymInt(number.toLong());
  return number.toDouble();
}

absl::StatusOr<Argument> ListArgument(const IValue& value, const c10::Argument& declared) {
  if (value.isIntList()) {
    std::vector<SymInt> list;
    for (int64_t element : value.toIntVector()) list.push_back(SymInt(element));
    return list;
  }
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const c10::List<bool> list = value.toBoolList();
    return std::vector<bool>(list.begin(), list.end());
  }
  if (value.isSymIntList()) {
    std::vector<SymInt> list;
    for (const c10::SymInt& element : value.toSymIntVector()) {
      list.push_back(SymInt(element.guard_int(__FILE__, __LINE__)));
    }
    return list;
  }
  // Lists of Scalars, whose types may differ, and empty lists without an element type.
  std::vector<SymInt> integers;
  std::vector<double> numbers;
  for (const IValue& element : value.toListRef()) {
    if (element.isInt()) {
      integers.push_back(SymInt(element.toInt()));
    } else if (element.isDouble()) {
      numbers.push_back(element.toDouble());
    } else {
      return NoForm(value, declared);
    }
  }
  if (numbers.empty()) return integers;
  if (integers.empty()) return numbers;
  return NoForm(value, declared);
}

}  // namespace

std::string NodeOpName(const c10::FunctionSchema& schema) {
  return absl::StrCat(absl::StrReplaceAll(schema.name(), {{"::", "."}}), ".",
                      schema.overload_name().empty() ? "default" : schema.overload_name());
}

absl::StatusOr<c10::OperatorHandle> FindOperator(absl::string_view op) {
  const std::vector<std::string> parts = absl::StrSplit(op, '.');
  if (parts.size() != 3) return absl::NotFoundError(absl::StrCat("'", op, "' is not NAMESPACE.NAME.OVERLOAD"));
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {absl::StrCat(parts[0], "::", parts[1]), parts[2] == "default" ? "" : parts[2]});
  if (!handle.has_value()) return absl::NotFoundError(absl::StrCat("LibTorch has no op ", op));
  return *handle;
}

void VisitTensors(const IValue& value, absl::FunctionRef<void(const at::Tensor&)> visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) VisitTensors(element, visit);
  }
}

void ReplaceTensors(IValue& value, absl::FunctionRef<at::Tensor(const at::Tensor&)> replace) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = replace(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& element : value.toTensorVector()) {
      list.push_back(element.defined() ? replace(element) : element);
    }
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& element : value.toOptionalTensorVector()) {
      list.push_back(element.has_value() && element->defined() ? replace(*element) : element);
    }
    value = std::move(list);
  }
}

absl::StatusOr<Argument> ToArgument(const IValue& value, const c10::Argument& declared,
                                    absl::FunctionRef<Argument(const at::Tensor&)> record_tensor,
                                    absl::FunctionRef<bool(const at::Tensor&)> is_constant) {
  const c10::TypePtr type = BareType(declared);
  if (value.isNone() || IsDropped(*type)) return None{};
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return None{};
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && is_constant(tensor)) return NumberOf(tensor);
    return record_tensor(tensor);
  }
  if (value.isTensorList() || value.isOptionalTensorList()) {
    std::vector<Use> uses;
    for (const IValue& element : value.toListRef()) {
      const bool absent = element.isNone() || !element.toTensor().defined();
      uses.push_back(absent ? Use{} : std::get<Use>(record_tensor(element.toTensor())));
    }
    return uses;
  }
  if (type->kind() == TypeKind::ScalarTypeType) {
    const DType dtype = ToDType(static_cast<at::ScalarType>(value.toInt()));
    if (dtype == DType::kUndefined) return NoForm(value, declared);
    return dtype;
  }
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return SymInt(value.toInt());
  if (value.isDouble()) return value.toDouble();
  if (value.isComplexDouble()) return PartsOf(value.toComplexDouble());
  if (value.isString()) return value.toStringRef();
  if (value.isSymInt()) return SymInt(value.toSymInt().guard_int(__FILE__, __LINE__));
  if (value.isList()) return ListArgument(value, declared);
  return NoForm(value, declared);
}

namespace {

struct ToIValueVisitor {
  const c10::Argument& declared;
  const c10::Type& type;
  absl::FunctionRef<at::Tensor(ValueId)> tensor_of;

  absl::StatusOr<IValue> operator()(None) const {
    if (declared.default_value().has_value()) return *declared.default_value();
    if (type.kind() == TypeKind::TensorType) return IValue(at::Tensor());
    return IValue();
  }
  absl::StatusOr<IValue> operator()(Use use) const { return IValue(tensor_of(use.value)); }
  absl::StatusOr<IValue> operator()(const std::vector<Use>& uses) const {
    const c10::TypePtr element = type.containedTypes()[0];
    if (element->kind() == TypeKind::OptionalType) {
      c10::List<std::optional<at::Tensor>> list;
      for (Use use : uses) {
        list.push_back(use.value == kNoValue ? std::nullopt : std::optional(tensor_of(use.value)));
      }
      return IValue(list);
    }
    c10::List<at::Tensor> list;
    for (Use use : uses) list.push_back(tensor_of(use.value));
    return IValue(list);
  }
  absl::StatusOr<IValue> operator()(bool value) const { return Number(value); }
  absl::StatusOr<IValue> operator()(const SymInt& value) const {
    if (!value.is_constant()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a symbolic number, ", value.ToString(), ", where a constant is expected"));
    }
    return Number(value.constant());
  }
  absl::StatusOr<IValue> operator()(double value) const { return Number(value); }
  absl::StatusOr<IValue> operator()(const std::string& value) const { return IValue(value); }
  absl::StatusOr<IValue> operator()(DType value) const { return IValue(static_cast<int64_t>(ToScalarType(value))); }
  absl::StatusOr<IValue> operator()(const std::vector<SymInt>& list) const {
    if (type.kind() == TypeKind::ListType && type.containedTypes()[0]->kind() == TypeKind::FloatType) {
      return (*this)(std::vector<double>());  // an empty list
    }
    std::vector<int64_t> integers;
    for (const SymInt& value : list) {
      if (!value.is_constant()) {
        return absl::InvalidArgumentError(
            absl::StrCat("a symbolic number, ", value.ToString(), ", where a constant is expected"));
      }
      integers.push_back(value.constant());
    }
    return IValue(integers);
  }
  absl::StatusOr<IValue> operator()(const std::vector<double>& list) const {
    if (type.kind() == TypeKind::ListType || list.size() != 2) return IValue(list);
    return Number(c10::complex<double>(list[0], list[1]));
  }
  absl::StatusOr<IValue> operator()(const std::vector<bool>& list) const {
    c10::List<bool> values;
    for (bool value : list) values.push_back(value);
    return IValue(values);
  }

  // A number in a tensor's place is a wrapped number.
  IValue Number(const at::Scalar& number) const {
    if (type.kind() != TypeKind::TensorType) return IValue(number);
    const at::ScalarType dtype = number.isComplex()         ? at::kComplexDouble
                                 : number.isBoolean()       ? at::kBool
                                 : number.isIntegral(false) ? at::kLong
                                                            : at::kDouble;
    at::Tensor tensor = at::scalar_tensor(number, at::TensorOptions(dtype));
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return IValue(tensor);
  }
};

}  // namespace

absl::StatusOr<IValue> ToIValue(const Argument& argument, const c10::Argument& declared,
                                absl::FunctionRef<at::Tensor(ValueId)> tensor_of) {
  const c10::TypePtr type = BareType(declared);
  return std::visit(ToIValueVisitor{declared, *type, tensor_of}, argument);
}

}  // namespace cotan::aot
