// SPDX-License-Identifier: Apache-2.0

#include "linking/link_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "linking/index_input.h"
#include "linking/substitute.h"
#include "serialization/schema/host_copy.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::Method;
using serialization::Op;
using serialization::ScalarFn;
using serialization::TensorType;

ExprInstruction& AddInstruction(Expr& expr, ScalarFn fn, DType dtype, int num_operands) {
  ExprInstruction& instruction = *expr.add_instructions();
  instruction.set_fn(fn);
  instruction.set_dtype(static_cast<serialization::DTypeProto>(dtype));
  for (int i = 0; i < num_operands; ++i) instruction.add_operands(static_cast<uint32_t>(i));
  return instruction;
}

// Adds an instruction that loads op input `index`.
void AddInput(Expr& expr, int index, DType dtype) {
  AddInstruction(expr, serialization::FN_INPUT, dtype, 0).set_index(static_cast<uint32_t>(index));
}

void AddConstant(Expr& expr, DType dtype, int64_t value) {
  ExprInstruction& instruction = AddInstruction(expr, serialization::FN_CONSTANT, dtype, 0);
  if (IsFloatingPoint(dtype)) {
    instruction.set_float_value(static_cast<double>(value));
  } else {
    instruction.set_int_value(value);
  }
}

void StoreLast(const TensorType& domain, Expr& expr) {
  *expr.mutable_domain_sizes() = domain.sizes();
  expr.add_outputs(static_cast<uint32_t>(expr.instructions_size() - 1));
}

bool HasSameOrder(const TensorType& a, const TensorType& b) {
  const auto order = [](const TensorType& type, int i) {
    return type.dim_order_size() == 0 ? static_cast<uint32_t>(i) : type.dim_order(i);
  };
  if (a.sizes_size() != b.sizes_size()) return false;
  for (int i = 0; i < a.sizes_size(); ++i) {
    if (order(a, i) != order(b, i)) return false;
  }
  return true;
}

absl::StatusOr<SymIntVector> ParseSizes(const TensorType& type) {
  SymIntVector sizes;
  for (const std::string& text : type.sizes()) {
    COTAN_ASSIGN_OR_RETURN(SymInt size, SymInt::Parse(text));
    sizes.push_back(std::move(size));
  }
  return sizes;
}

absl::Status RefuseComplex(DType dtype) {
  if (!IsComplex(dtype)) return absl::OkStatus();
  return absl::UnimplementedError("arithmetic of complex gradients is not linked");
}

}  // namespace

TensorType RowMajorType(DType dtype, absl::Span<const SymInt> sizes) {
  TensorType type;
  type.set_dtype(static_cast<serialization::DTypeProto>(dtype));
  for (const SymInt& size : sizes) type.add_sizes(size.ToString());
  return type;
}

LinkBuilder::LinkBuilder(absl::string_view name, absl::Span<const int64_t> symbols)
    : symbols_(symbols.begin(), symbols.end()) {
  method_.set_name(std::string(name));
}

LinkBuilder::Value LinkBuilder::AddValue(TensorType type, bool is_dense) {
  *method_.add_values()->mutable_type() = std::move(type);
  is_dense_.push_back(is_dense);
  return static_cast<Value>(method_.values_size() - 1);
}

Op& LinkBuilder::AddOp(absl::Span<const Value> inputs, Value output, absl::string_view source) {
  Op& op = *method_.add_ops();
  for (const Value input : inputs) op.add_inputs(input);
  op.add_outputs(output);
  op.set_source(source_.empty() ? std::string(source) : absl::StrCat(source_, "/", source));
  return op;
}

LinkBuilder::Value LinkBuilder::Input(TensorType type, absl::string_view name) {
  const Value value = AddValue(std::move(type), true);
  method_.add_inputs(value);
  method_.add_input_names(std::string(name));
  return value;
}

void LinkBuilder::AddLinkedSource(absl::string_view method, uint64_t fingerprint) {
  for (const serialization::LinkedSource& source : method_.linked().sources()) {
    if (source.fingerprint() == fingerprint) return;
  }
  serialization::LinkedSource& source = *method_.mutable_linked()->add_sources();
  source.set_method(std::string(method));
  source.set_fingerprint(fingerprint);
}

LinkBuilder::Value LinkBuilder::Index(const SymInt& n, const view::AsStrided& place,
                                      const std::optional<SymInt>& extent) {
  serialization::LinkedBackward& linked = *method_.mutable_linked();
  *linked.add_index_inputs() = ToProto(num_inputs(), place, extent);
  return Input(RowMajorType(DType::kInt64, {n}), absl::StrCat("index.", linked.index_inputs_size() - 1));
}

void LinkBuilder::Output(Value value, absl::string_view name) {
  TensorType type = TypeOf(value);
  type.clear_dim_order();
  method_.add_outputs(Dense(value, type));
  method_.add_output_names(std::string(name));
}

void LinkBuilder::Update(int input, Value value) {
  serialization::InputUpdate& update = *method_.add_input_updates();
  update.set_input(static_cast<uint32_t>(input));
  update.set_value(value);
}

const TensorType& LinkBuilder::TypeOf(Value value) const { return method_.values(static_cast<int>(value)).type(); }

absl::StatusOr<SymIntVector> LinkBuilder::SizesOf(Value value) const { return ParseSizes(TypeOf(value)); }

absl::StatusOr<bool> LinkBuilder::Equal(const SymInt& a, const SymInt& b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return a.constant() == b.constant();
  COTAN_ASSIGN_OR_RETURN(const int64_t a_now, a.Evaluate(symbols_));
  COTAN_ASSIGN_OR_RETURN(const int64_t b_now, b.Evaluate(symbols_));
  serialization::SizeGuard& guard = *method_.mutable_linked()->add_guards();
  guard.set_a(a.ToString());
  guard.set_b(b.ToString());
  guard.set_equal(a_now == b_now);
  return a_now == b_now;
}

absl::StatusOr<LinkBuilder::Value> LinkBuilder::Zeros(const TensorType& type) {
  const DType dtype = ToDType(type.dtype());
  COTAN_RETURN_IF_ERROR(RefuseComplex(dtype));
  const Value zeros = AddValue(type, true);
  Expr& expr = *AddOp({}, zeros, "zeros").mutable_expr();
  AddConstant(expr, dtype, 0);
  StoreLast(type, expr);
  return zeros;
}

LinkBuilder::Value LinkBuilder::Flag(bool value) {
  const TensorType type = RowMajorType(DType::kBool, {});
  const Value flag = AddValue(type, true);
  Expr& expr = *AddOp({}, flag, "flag").mutable_expr();
  AddConstant(expr, DType::kBool, value ? 1 : 0);
  StoreLast(type, expr);
  return flag;
}

absl::StatusOr<LinkBuilder::Value> LinkBuilder::Add(Value a, Value b) {
  TensorType type = TypeOf(a);
  const DType dtype = ToDType(type.dtype());
  COTAN_RETURN_IF_ERROR(RefuseComplex(dtype));
  type.clear_dim_order();
  const Value sum = AddValue(type, true);
  Expr& expr = *AddOp({a, b}, sum, "sum").mutable_expr();
  AddInput(expr, 0, dtype);
  AddInput(expr, 1, dtype);
  AddInstruction(expr, serialization::FN_ADD, dtype, 2);
  StoreLast(type, expr);
  return sum;
}

absl::StatusOr<LinkBuilder::Value> LinkBuilder::Conform(Value value, DType dtype, absl::Span<const SymInt> sizes) {
  COTAN_ASSIGN_OR_RETURN(value, SumTo(value, sizes));
  const DType from = ToDType(TypeOf(value).dtype());
  if (from == dtype) return value;
  COTAN_RETURN_IF_ERROR(RefuseComplex(from));
  COTAN_RETURN_IF_ERROR(RefuseComplex(dtype));
  TensorType type = TypeOf(value);
  type.clear_dim_order();
  type.set_dtype(static_cast<serialization::DTypeProto>(dtype));
  const Value cast = AddValue(type, true);
  Expr& expr = *AddOp({value}, cast, "cast").mutable_expr();
  AddInput(expr, 0, from);
  AddInstruction(expr, serialization::FN_CAST, dtype, 1);
  StoreLast(type, expr);
  return cast;
}

absl::StatusOr<LinkBuilder::Value> LinkBuilder::ConformTo(Value value, const TensorType& type) {
  COTAN_ASSIGN_OR_RETURN(const SymIntVector sizes, ParseSizes(type));
  return Conform(value, ToDType(type.dtype()), sizes);
}

absl::StatusOr<LinkBuilder::Value> LinkBuilder::SumTo(Value value, absl::Span<const SymInt> sizes) {
  COTAN_ASSIGN_OR_RETURN(const SymIntVector from, SizesOf(value));
  if (from.size() < sizes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("invalid gradient: got ", TensorTypeText(TypeOf(value)),
                                                   " of lower rank than the value it belongs to"));
  }
  const size_t added = from.size() - sizes.size();
  SymIntVector kept = from;
  std::vector<uint32_t> reduced;
  for (size_t i = 0; i < from.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(const bool same, Equal(from[i], i < added ? SymInt(1) : sizes[i - added]));
    if (same) continue;
    kept[i] = 1;
    reduced.push_back(static_cast<uint32_t>(i));
    if (i < added) continue;
    COTAN_ASSIGN_OR_RETURN(const bool is_one, Equal(sizes[i - added], 1));
    if (is_one) continue;
    return absl::InvalidArgumentError(absl::StrCat("invalid gradient: got ", TensorTypeText(TypeOf(value)),
                                                   " but expected shape compatible with ",
                                                   TensorTypeText(RowMajorType(DType::kFloat32, sizes))));
  }
  const DType dtype = ToDType(TypeOf(value).dtype());
  if (!reduced.empty()) {
    COTAN_RETURN_IF_ERROR(RefuseComplex(dtype));
    const TensorType domain = TypeOf(value);
    const Value sum = AddValue(RowMajorType(dtype, kept), true);
    Expr& expr = *AddOp({value}, sum, "sum_to").mutable_expr();
    AddInput(expr, 0, dtype);
    AddInstruction(expr, serialization::FN_REDUCE_SUM, dtype, 1);
    for (const uint32_t dim : reduced) expr.add_reduce_dims(dim);
    StoreLast(domain, expr);
    value = sum;
  }
  if (added == 0) return value;
  return View(value, view::View{.sizes = SymIntVector(sizes.begin(), sizes.end())}, sizes);
}

absl::StatusOr<LinkBuilder::Value> LinkBuilder::View(Value value, const ViewStep& step,
                                                     absl::Span<const SymInt> sizes) {
  const DType dtype = ToDType(TypeOf(value).dtype());
  const Value view = AddValue(RowMajorType(dtype, sizes), false);
  *AddOp({value}, view, "view").mutable_view()->add_steps() = ToProto(step);
  return view;
}

LinkBuilder::Value LinkBuilder::Dense(Value value, const TensorType& type) {
  if (is_dense_[value] && HasSameOrder(TypeOf(value), type)) return value;
  TensorType copied = TypeOf(value);
  *copied.mutable_dim_order() = type.dim_order();
  const Value copy = AddValue(std::move(copied), true);
  AddOp({value}, copy, "copy").mutable_copy();
  return copy;
}

absl::StatusOr<LinkBuilder::Value> LinkBuilder::Scatter(Value value, Value index, const SymInt& n) {
  const DType dtype = ToDType(TypeOf(value).dtype());
  COTAN_RETURN_IF_ERROR(RefuseComplex(dtype));
  value = Dense(value, TypeOf(value));
  const Value whole = AddValue(RowMajorType(dtype, {n}), true);
  AddOp({value, index}, whole, "scatter").mutable_scatter_add()->set_padding_index(-1);
  return whole;
}

absl::StatusOr<LinkBuilder::Value> LinkBuilder::Replace(Value whole, const SymInt& n, Value part, const SymInt& k,
                                                        Value index) {
  const DType dtype = ToDType(TypeOf(whole).dtype());
  COTAN_RETURN_IF_ERROR(RefuseComplex(dtype));
  whole = Dense(whole, TypeOf(whole));
  part = Dense(part, TypeOf(part));
  const Value both = AddValue(RowMajorType(dtype, {n + k}), true);
  AddOp({whole, part}, both, "concat").mutable_concat();
  const Value replaced = AddValue(RowMajorType(dtype, {n}), true);
  AddOp({both, index}, replaced, "gather").mutable_gather();
  return replaced;
}

absl::Status LinkBuilder::CopyOp(const Op& op, absl::Span<const SymInt> symbols, const Method& method,
                                 std::vector<int64_t>& value_of) {
  std::vector<Value> outputs;
  for (const uint32_t output : op.outputs()) {
    TensorType type = method.values(static_cast<int>(output)).type();
    COTAN_RETURN_IF_ERROR(SubstituteType(symbols, type));
    outputs.push_back(AddValue(std::move(type), !op.has_view()));
    value_of[output] = outputs.back();
  }
  Op& copy = *method_.add_ops();
  copy = op;
  for (int i = 0; i < op.inputs_size(); ++i) copy.set_inputs(i, static_cast<Value>(value_of[op.inputs(i)]));
  for (int i = 0; i < op.outputs_size(); ++i) copy.set_outputs(i, outputs[static_cast<size_t>(i)]);
  copy.set_source(absl::StrCat(source_, "/", op.source()));
  return SubstituteOp(symbols, copy);
}

absl::StatusOr<std::vector<LinkBuilder::Value>> LinkBuilder::Splice(const Method& method,
                                                                    absl::Span<const SymInt> symbols,
                                                                    absl::Span<const Value> inputs,
                                                                    absl::Span<const Value> states) {
  if (method.state_updates_size() != 0 || method.input_updates_size() != 0) {
    return absl::UnimplementedError(absl::StrCat("method '", method.name(), "' writes states or inputs"));
  }
  std::vector<int64_t> value_of(static_cast<size_t>(method.values_size()), -1);
  for (int i = 0; i < method.inputs_size(); ++i) {
    const uint32_t value = method.inputs(i);
    value_of[value] = Dense(inputs[static_cast<size_t>(i)], method.values(static_cast<int>(value)).type());
  }
  for (int i = 0; i < method.state_reads_size(); ++i) {
    value_of[method.state_reads(i).value()] = states[static_cast<size_t>(i)];
  }
  for (const Op& op : method.ops()) {
    if (op.has_effect() || op.has_collective()) {
      return absl::UnimplementedError(
          absl::StrCat("method '", method.name(), "' has ", op.has_effect() ? "effects" : "collectives"));
    }
    if (HostCopyOf(method, op) != HostCopy::kNone) {  // a linked method has no values on the host
      const uint32_t copy = op.outputs(0);
      value_of[copy] = Dense(static_cast<Value>(value_of[op.inputs(0)]), method.values(static_cast<int>(copy)).type());
      continue;
    }
    COTAN_RETURN_IF_ERROR(CopyOp(op, symbols, method, value_of));
  }
  std::vector<Value> outputs;
  for (const uint32_t output : method.outputs()) {
    const auto value = static_cast<Value>(value_of[output]);
    outputs.push_back(is_dense_[value] ? value : Dense(value, method.values(static_cast<int>(output)).type()));
  }
  return outputs;
}

absl::Status CheckGuards(const serialization::LinkedBackward& linked, absl::Span<const int64_t> symbols) {
  for (const serialization::SizeGuard& guard : linked.guards()) {
    COTAN_ASSIGN_OR_RETURN(const int64_t a, EvaluateSize(guard.a(), symbols));
    COTAN_ASSIGN_OR_RETURN(const int64_t b, EvaluateSize(guard.b(), symbols));
    if ((a == b) == guard.equal()) continue;
    return absl::InvalidArgumentError(absl::StrCat("sizes ", guard.a(), " = ", a, " and ", guard.b(), " = ", b,
                                                   guard.equal() ? " are no longer equal" : " are equal now"));
  }
  return absl::OkStatus();
}

}  // namespace cotan
