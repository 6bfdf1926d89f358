// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/op_argument.h"

#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <stdexcept>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/number.h"

namespace cotan::aot::pt2 {
namespace {

using c10::IValue;
using c10::TypeKind;

// Returns the declared type without Optional.
c10::TypePtr Bare(c10::TypePtr type) {
  if (type->kind() == TypeKind::OptionalType) return type->expectRef<c10::OptionalType>().getElementType();
  return type;
}

IValue WrappedNumber(const at::Scalar& number) {
  const at::ScalarType dtype = number.isBoolean()         ? at::kBool
                               : number.isIntegral(false) ? at::kLong
                               : number.isComplex()       ? at::kComplexDouble
                                                          : at::kDouble;
  c10::impl::ExcludeDispatchKeyGuard real(kTracingKeys);
  at::Tensor tensor = at::scalar_tensor(number, at::TensorOptions(dtype));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// Converts a number to the declared number type.
IValue Coerce(const IValue& value, const c10::Type& type) {
  if (!value.isScalar()) return value;
  if (IsSymbolicNumber(value)) return type.kind() == TypeKind::TensorType ? TensorOfNumber(value) : value;
  switch (type.kind()) {
    case TypeKind::FloatType:
      return value.toScalar().toDouble();
    case TypeKind::TensorType:
      return WrappedNumber(value.toScalar());
    default:
      return value;
  }
}

[[noreturn]] void Misfit(const c10::Argument& declared) {
  throw std::invalid_argument(
      absl::StrCat("argument '", declared.name(), "' does not fit its type ", declared.type()->str()));
}

// Returns whether a type is one of the enums that LibTorch passes as integers, without a check of their range.
bool IsEnum(const c10::Type& type) {
  return type.kind() == TypeKind::ScalarTypeType || type.kind() == TypeKind::LayoutType ||
         type.kind() == TypeKind::MemoryFormatType;
}

struct Visitor {
  const c10::Argument& declared;
  const c10::Type& type;  // bare
  const Environment& values;

  IValue operator()(NoValue) const { return IValue(); }
  IValue operator()(const Name& name) const {
    const IValue value = ValueOf(Argument(name), values);
    if (IsEnum(type) && value.isScalar()) Misfit(declared);
    return Coerce(value, type);
  }
  IValue operator()(bool value) const { return Single(value); }
  IValue operator()(int64_t value) const { return Single(value); }
  IValue operator()(double value) const { return Single(value); }
  IValue operator()(std::complex<double> value) const {
    return Single(c10::complex<double>(value.real(), value.imag()));
  }
  IValue operator()(const std::string& value) const { return value; }
  IValue operator()(const std::vector<std::string>& value) const { return value; }
  IValue operator()(DType value) const {
    if (IsEnum(type) && type.kind() != TypeKind::ScalarTypeType) Misfit(declared);
    return static_cast<int64_t>(ToScalarType(value));
  }
  IValue operator()(MemoryFormat format) const {
    switch (format.code) {
      case 1:
        return at::MemoryFormat::Contiguous;
      case 2:
        return at::MemoryFormat::ChannelsLast;
      case 3:
        return at::MemoryFormat::ChannelsLast3d;
      case 4:
        return at::MemoryFormat::Preserve;
      default:
        Misfit(declared);
    }
  }
  IValue operator()(Layout layout) const {
    constexpr int64_t kStrided = 7;
    if (layout.code != kStrided) throw std::invalid_argument("sparse layouts are not supported");
    return at::kStrided;
  }
  IValue operator()(const Device& device) const {
    if (device.type == "meta") throw std::invalid_argument("a tensor without content (device meta)");
    return at::Device(at::kCPU);
  }
  IValue operator()(const Subgraph&) const { Misfit(declared); }
  IValue operator()(const Unsupported& unsupported) const {
    throw std::invalid_argument(
        absl::StrCat("argument '", declared.name(), "' is of kind '", unsupported.kind, "', which is not supported"));
  }

  IValue operator()(const Tensors& names) const {
    if (type.kind() != TypeKind::ListType) Misfit(declared);
    if (type.containedTypes()[0]->kind() == TypeKind::OptionalType) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<Name>& name : names) {
        list.push_back(name.has_value() ? std::optional(TensorOf(*name)) : std::nullopt);
      }
      return list;
    }
    c10::List<at::Tensor> list;
    for (const std::optional<Name>& name : names) list.push_back(name.has_value() ? TensorOf(*name) : at::Tensor());
    return list;
  }

  IValue operator()(const std::vector<Number>& numbers) const {
    if (type.kind() != TypeKind::ListType) Misfit(declared);
    std::vector<at::Scalar> scalars;
    for (const Number& number : numbers) {
      const Argument argument = std::visit([](const auto& value) { return Argument(value); }, number);
      const IValue value = ValueOf(argument, values);
      if (!value.isScalar()) Misfit(declared);
      scalars.push_back(value.toScalar());
    }
    switch (Bare(type.containedTypes()[0])->kind()) {
      case TypeKind::FloatType: {
        std::vector<double> list;
        for (const at::Scalar& scalar : scalars) list.push_back(scalar.toDouble());
        return list;
      }
      case TypeKind::BoolType: {
        c10::List<bool> list;
        for (const at::Scalar& scalar : scalars) list.push_back(scalar.toBool());
        return list;
      }
      case TypeKind::NumberType: {
        c10::impl::GenericList list(c10::NumberType::get());
        for (const at::Scalar& scalar : scalars) list.push_back(IValue(scalar));
        return list;
      }
      default: {
        std::vector<int64_t> list;
        for (const at::Scalar& scalar : scalars) {
          if (!scalar.isIntegral(/*includeBool=*/true)) Misfit(declared);
          list.push_back(scalar.toLong());
        }
        return list;
      }
    }
  }

  at::Tensor TensorOf(const Name& name) const {
    const IValue value = ValueOf(Argument(name), values);
    if (!value.isTensor()) Misfit(declared);
    return value.toTensor();
  }

  // Converts one number, also to a list of fixed length.
  IValue Single(const IValue& value) const {
    if (IsEnum(type)) Misfit(declared);
    if (type.kind() != TypeKind::ListType || !declared.N().has_value() || !value.isInt()) return Coerce(value, type);
    return std::vector<int64_t>(static_cast<size_t>(*declared.N()), value.toInt());
  }
};

}  // namespace

IValue ToOpArgument(const Argument& argument, const c10::Argument& declared, const Environment& values) {
  const c10::TypePtr type = Bare(declared.real_type());
  return std::visit(Visitor{declared, *type, values}, argument);
}

}  // namespace cotan::aot::pt2
