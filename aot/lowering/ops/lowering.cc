// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/ops/lowering.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// bool < integers < floats < complex.
int Category(DType dtype) {
  if (IsComplex(dtype)) return 3;
  if (IsFloatingPoint(dtype)) return 2;
  return IsInteger(dtype) ? 1 : 0;
}

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool BroadcastsTo(const SymIntVector& from, const SymIntVector& to) {
  if (from.size() > to.size()) return false;
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (!(from[i] == SymInt(1)) && !(from[i] == to[lead + i])) return false;
  }
  return true;
}

}  // namespace

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (Category(a) != Category(b)) return Category(a) > Category(b) ? a : b;
  if (Category(a) == 2) {
    const bool halves = ByteSize(a) == 2 && ByteSize(b) == 2;  // f16 and bf16
    if (halves) return DType::kFloat32;
  }
  if (Category(a) == 1 && ByteSize(a) == 1 && ByteSize(b) == 1) return DType::kInt16;  // u8 and i8
  return ByteSize(a) > ByteSize(b) ? a : b;
}

absl::Status Lowering::Lower(const Node& node, const OpRow& row) {
  node_ = &node;
  b.set_source(node.source.empty() ? node.op : absl::StrCat(node.op, " ", node.source));
  const absl::Status status = row.lower(*this);
  const absl::Status& first = b.status().ok() ? status : b.status();
  if (first.ok()) return first;
  return absl::Status(first.code(), absl::StrCat(first.message(), "\n  while lowering ", PrintNode(*from_, node)));
}

void Lowering::Mismatch(int i, const char* expected) {
  b.Fail(absl::UnimplementedError(absl::StrCat(node_->op, ": argument ", i, " is not ", expected)));
}

bool Lowering::is_none(int i) const { return std::holds_alternative<None>(node_->arguments[static_cast<size_t>(i)]); }

Tensor Lowering::tensor(int i) {
  const Argument& argument = node_->arguments[static_cast<size_t>(i)];
  if (const Use* use = std::get_if<Use>(&argument); use != nullptr && use->value != kNoValue)
    return b.Value(Mapped(use->value));
  return literal(i);
}

Tensor Lowering::literal(int i) {
  const Argument& argument = node_->arguments[static_cast<size_t>(i)];
  if (const SymInt* integer = std::get_if<SymInt>(&argument)) return b.Literal(*integer);
  if (const double* number = std::get_if<double>(&argument)) return b.Literal(*number);
  if (const bool* flag = std::get_if<bool>(&argument)) return b.Literal(SymInt(*flag ? 1 : 0));
  Mismatch(i, "a tensor or number");
  return b.Literal(0.0);
}

Tensor Lowering::optional_tensor(int i) {
  const Argument& argument = node_->arguments[static_cast<size_t>(i)];
  const Use* use = std::get_if<Use>(&argument);
  if (is_none(i) || (use != nullptr && use->value == kNoValue)) return Tensor();
  return tensor(i);
}

std::vector<Tensor> Lowering::tensors(int i) {
  std::vector<Tensor> result = optional_tensors(i);
  for (const Tensor& tensor : result) {
    if (!tensor.defined()) Mismatch(i, "a list of present tensors");
  }
  return result;
}

std::vector<Tensor> Lowering::optional_tensors(int i) {
  std::vector<Tensor> result;
  const auto* uses = std::get_if<std::vector<Use>>(&node_->arguments[static_cast<size_t>(i)]);
  if (uses == nullptr) {
    Mismatch(i, "a list of tensors");
    return result;
  }
  for (const Use use : *uses) result.push_back(use.value == kNoValue ? Tensor() : b.Value(Mapped(use.value)));
  return result;
}

double Lowering::number(int i) {
  const Argument& argument = node_->arguments[static_cast<size_t>(i)];
  if (const double* number = std::get_if<double>(&argument)) return *number;
  if (const bool* flag = std::get_if<bool>(&argument)) return *flag ? 1 : 0;
  const SymInt* integer = std::get_if<SymInt>(&argument);
  if (integer != nullptr && integer->is_constant()) return static_cast<double>(integer->constant());
  Mismatch(i, "a constant number");
  return 0;
}

bool Lowering::flag(int i) {
  const Argument& argument = node_->arguments[static_cast<size_t>(i)];
  if (const bool* flag = std::get_if<bool>(&argument)) return *flag;
  if (const SymInt* integer = std::get_if<SymInt>(&argument); integer != nullptr) return !(*integer == SymInt(0));
  Mismatch(i, "a bool");
  return false;
}

SymInt Lowering::size(int i) {
  if (const SymInt* integer = std::get_if<SymInt>(&node_->arguments[static_cast<size_t>(i)])) return *integer;
  Mismatch(i, "an integer");
  return 0;
}

int64_t Lowering::integer(int i) {
  const SymInt value = size(i);
  if (!value.is_constant()) Mismatch(i, "a constant integer");
  return value.is_constant() ? value.constant() : 0;
}

std::optional<int64_t> Lowering::optional_integer(int i) {
  if (is_none(i)) return std::nullopt;
  return integer(i);
}

SymIntVector Lowering::sizes(int i) {
  const Argument& argument = node_->arguments[static_cast<size_t>(i)];
  if (const SymInt* one = std::get_if<SymInt>(&argument)) return {*one};
  if (const auto* list = std::get_if<std::vector<SymInt>>(&argument)) return SymIntVector(list->begin(), list->end());
  if (const auto* uses = std::get_if<std::vector<Use>>(&argument); uses != nullptr && uses->empty()) return {};
  Mismatch(i, "a list of integers");
  return {};
}

std::vector<int64_t> Lowering::integers(int i) {
  std::vector<int64_t> result;
  if (is_none(i)) return result;
  for (const SymInt& value : sizes(i)) {
    if (!value.is_constant()) Mismatch(i, "a list of constant integers");
    result.push_back(value.is_constant() ? value.constant() : 0);
  }
  return result;
}

std::vector<bool> Lowering::flags(int i) {
  if (const auto* list = std::get_if<std::vector<bool>>(&node_->arguments[static_cast<size_t>(i)])) return *list;
  Mismatch(i, "a list of bools");
  return std::vector<bool>(3, false);
}

std::string Lowering::text(int i) {
  if (is_none(i)) return "";
  if (const auto* text = std::get_if<std::string>(&node_->arguments[static_cast<size_t>(i)])) return *text;
  Mismatch(i, "a string");
  return "";
}

const TensorType& Lowering::result(int k) const { return from_->value(node_->outputs[static_cast<size_t>(k)]).type; }

std::pair<Tensor, Tensor> Lowering::promoted(int i, int j) {
  const Tensor x = tensor(i);
  const Tensor y = tensor(j);
  if (x.is_literal() || y.is_literal()) {
    const Tensor& other = x.is_literal() ? y : x;
    const Tensor& literal = x.is_literal() ? x : y;
    const bool is_float = std::holds_alternative<double>(node_->arguments[static_cast<size_t>(x.is_literal() ? i : j)]);
    DType dtype = other.dtype();
    if (is_float && !IsFloatingPoint(dtype) && !IsComplex(dtype)) dtype = DType::kFloat32;
    if (!is_float && dtype == DType::kBool) dtype = DType::kInt64;
    const Tensor cast = b.Cast(other, dtype);
    return x.is_literal() ? std::make_pair(literal, cast) : std::make_pair(cast, literal);
  }
  DType dtype = PromoteTypes(x.dtype(), y.dtype());
  const bool one_scalar = (x.rank() == 0) != (y.rank() == 0);
  const DType big = x.rank() == 0 ? y.dtype() : x.dtype();
  const DType small = x.rank() == 0 ? x.dtype() : y.dtype();
  if (one_scalar && Category(big) >= Category(small)) dtype = big;
  return {b.Cast(x, dtype), b.Cast(y, dtype)};
}

Tensor Lowering::widened(const Tensor& x) { return IsHalf(x.dtype()) ? b.Cast(x, DType::kFloat32) : x; }

Tensor Lowering::wide(int i) { return widened(tensor(i)); }

Tensor Lowering::wide_operand(int i) {
  const DType dtype = result().dtype;
  return b.Cast(tensor(i), IsHalf(dtype) ? DType::kFloat32 : dtype);
}

Tensor Lowering::wide_optional(int i) { return is_none(i) ? Tensor() : wide(i); }

absl::Status Lowering::ReturnCast(std::vector<Tensor> results) {
  for (size_t k = 0; k < results.size() && k < node_->outputs.size(); ++k) {
    if (results[k].defined() && node_->outputs[k] != kNoValue) {
      results[k] = b.Cast(results[k], result(static_cast<int>(k)).dtype);
    }
  }
  return ReturnAll(results);
}

absl::Status Lowering::Unsupported(const std::string& what) const {
  return absl::UnimplementedError(absl::StrCat(node_->op, ": ", what));
}

absl::Status Lowering::ReturnAll(const std::vector<Tensor>& results) {
  COTAN_RETURN_IF_ERROR(b.status());
  if (results.size() < node_->outputs.size()) return absl::InternalError(absl::StrCat(node_->op, ": too few results"));
  for (size_t k = 0; k < node_->outputs.size(); ++k) {
    const ValueId output = node_->outputs[k];
    if (output == kNoValue) continue;
    const TensorType& expected = from_->value(output).type;
    Tensor value = results[k];
    if (!value.defined()) return absl::InternalError(absl::StrCat(node_->op, ": result ", k, " is not computed"));
    if (value.is_literal()) value = b.Full(value, expected.dtype, expected.sizes);
    if (value.dtype() == expected.dtype && BroadcastsTo(value.sizes(), expected.sizes))
      value = b.Expand(value, expected.sizes);
    if (value.dtype() != expected.dtype || !(value.sizes() == expected.sizes)) {
      return absl::InternalError(absl::StrCat(node_->op, ": result ", k, " has the type ", PrintType(value.type()),
                                              ", the tracer recorded ", PrintType(expected)));
    }
    Map(output, value.id());
  }
  return b.status();
}

}  // namespace cotan::aot
