// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/builder.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/ir/expr_text.h"
#include "aot/ir/prim_ops.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::ScalarFn;

std::vector<SymInt> ToList(const SymIntVector& sizes) { return {sizes.begin(), sizes.end()}; }
std::vector<SymInt> ToList(absl::Span<const int64_t> values) { return {values.begin(), values.end()}; }

bool IsComparison(ScalarFn fn) { return fn >= serialization::FN_EQ && fn <= serialization::FN_GE; }

bool HasBoolResult(ScalarFn fn) {
  return IsComparison(fn) || fn == serialization::FN_ISNAN || fn == serialization::FN_ISINF;
}

uint32_t AddInstruction(Expr& expr, ScalarFn fn, DType dtype, absl::Span<const uint32_t> operands) {
  ExprInstruction& instruction = *expr.add_instructions();
  instruction.set_fn(fn);
  instruction.set_dtype(ToProto(dtype));
  for (const uint32_t operand : operands) instruction.add_operands(operand);
  return static_cast<uint32_t>(expr.instructions_size() - 1);
}

void SetDomain(Expr& expr, const SymIntVector& sizes) {
  for (const SymInt& size : sizes) expr.add_domain_sizes(size.ToString());
}

void AppendConfig(const ConvolutionConfig& config, std::vector<Argument>& arguments) {
  arguments.insert(arguments.end(), {ToList(config.stride), ToList(config.padding), ToList(config.dilation),
                                     config.transposed, ToList(config.output_padding), SymInt(config.groups)});
}

void AppendConfig(const PoolConfig& config, std::vector<Argument>& arguments) {
  arguments.insert(arguments.end(),
                   {ToList(config.kernel), ToList(config.stride), ToList(config.padding), ToList(config.dilation),
                    config.ceil_mode, config.count_include_pad, SymInt(config.divisor_override)});
}

// Returns None for an undefined tensor.
Argument OptionalUse(const Tensor& tensor) {
  Argument argument;
  if (tensor.defined()) argument = Use{tensor.id()};
  return argument;
}

}  // namespace

SymInt NumElementsOf(const SymIntVector& sizes) {
  SymInt product = 1;
  for (const SymInt& size : sizes) product = product * size;
  return product;
}

const TensorType& Tensor::type() const {
  static const TensorType* const kNone = new TensorType();
  return is_literal() ? *kNone : builder_->graph().value(id_).type;
}

Tensor operator+(const Tensor& a, const Tensor& b) { return a.builder_->Binary(serialization::FN_ADD, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return a.builder_->Binary(serialization::FN_SUB, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return a.builder_->Binary(serialization::FN_MUL, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return a.builder_->Binary(serialization::FN_DIV, a, b); }
Tensor operator-(const Tensor& a) { return a.builder_->Unary(serialization::FN_NEG, a); }

Builder::Builder(Graph* graph) : graph_(graph) {
  for (const Node& node : graph->nodes()) {
    for (const ValueId output : node.outputs) producers_[output] = &node;
  }
}

void Builder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Tensor Builder::Value(ValueId id) {
  Tensor tensor;
  tensor.builder_ = this;
  tensor.id_ = id;
  return tensor;
}

Tensor Builder::Literal(double number) {
  Tensor tensor;
  tensor.builder_ = this;
  tensor.is_float_ = true;
  tensor.number_ = number;
  return tensor;
}

Tensor Builder::Literal(SymInt integer) {
  Tensor tensor;
  tensor.builder_ = this;
  tensor.integer_ = std::move(integer);
  return tensor;
}

const Node* Builder::Producer(ValueId id) const {
  const auto it = producers_.find(id);
  return it == producers_.end() ? nullptr : it->second;
}

int64_t Builder::WrapDim(int64_t dim, int rank) {
  const int64_t bound = std::max(rank, 1);
  if (dim < -bound || dim >= bound) {
    Fail(absl::InternalError(absl::StrCat("dimension ", dim, " of a tensor of rank ", rank)));
    return 0;
  }
  return dim < 0 ? dim + bound : dim;
}

std::vector<Tensor> Builder::Emit(std::string op, std::vector<Argument> arguments, absl::Span<const TensorType> types) {
  return EmitNode(std::move(op), std::move(arguments), types, nullptr);
}

std::vector<Tensor> Builder::EmitNode(std::string op, std::vector<Argument> arguments,
                                      absl::Span<const TensorType> types, std::shared_ptr<const Expr> expr) {
  Node& node = graph_->InsertNode(graph_->nodes().end(), std::move(op), std::move(arguments), types, source_);
  node.expr = std::move(expr);
  std::vector<Tensor> results;
  for (const ValueId output : node.outputs) {
    producers_[output] = &node;
    results.push_back(Value(output));
  }
  return results;
}

Tensor Builder::EmitExpr(Expr expr, std::vector<Argument> arguments, TensorType type) {
  expr.add_outputs(static_cast<uint32_t>(expr.instructions_size() - 1));
  return EmitNode("cotan.expr", std::move(arguments), {std::move(type)},
                  std::make_shared<const Expr>(std::move(expr)))[0];
}

Tensor Builder::StripExpand(const Tensor& tensor) const {
  Tensor result = tensor;
  for (const Node* node = Producer(result.id_); node != nullptr && node->op == "prim.expand";
       node = Producer(result.id_)) {
    result.id_ = std::get<Use>(node->arguments[0]).value;
  }
  return result;
}

uint32_t Builder::Load(const Tensor& tensor, DType dtype, Expr& expr, std::vector<Argument>& arguments) {
  if (tensor.is_literal()) {
    if (!tensor.is_float_ && !tensor.integer_.is_constant()) {
      const uint32_t position = AddInstruction(expr, serialization::FN_SIZE, dtype, {});
      expr.mutable_instructions(static_cast<int>(position))->set_size(tensor.integer_.ToString());
      return position;
    }
    const uint32_t position = AddInstruction(expr, serialization::FN_CONSTANT, dtype, {});
    ExprInstruction& instruction = *expr.mutable_instructions(static_cast<int>(position));
    const double number = tensor.is_float_ ? tensor.number_ : static_cast<double>(tensor.integer_.constant());
    if (IsFloatingPoint(dtype)) {
      instruction.set_float_value(number);
    } else if (dtype == DType::kBool) {
      instruction.set_int_value(number != 0);
    } else {
      instruction.set_int_value(tensor.is_float_ ? static_cast<int64_t>(number) : tensor.integer_.constant());
    }
    return position;
  }
  const Use use{StripExpand(tensor).id()};
  size_t index = 0;
  while (index < arguments.size() && !(std::get<Use>(arguments[index]) == use)) ++index;
  if (index == arguments.size()) arguments.push_back(use);
  const uint32_t position = AddInstruction(expr, serialization::FN_INPUT, tensor.dtype(), {});
  expr.mutable_instructions(static_cast<int>(position))->set_index(static_cast<uint32_t>(index));
  if (tensor.dtype() != dtype) {
    Fail(absl::InternalError(
        absl::StrCat("operand has dtype ", DTypeName(tensor.dtype()), ", expected ", DTypeName(dtype))));
  }
  return position;
}

SymIntVector Builder::Broadcast(absl::Span<const Tensor> tensors) {
  SymIntVector sizes;
  for (const Tensor& tensor : tensors) {
    if (tensor.is_literal()) continue;
    const SymIntVector& other = tensor.sizes();
    if (other.size() > sizes.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), SymInt(1));
    const size_t lead = sizes.size() - other.size();
    for (size_t i = 0; i < other.size(); ++i) {
      SymInt& size = sizes[lead + i];
      if (size == SymInt(1)) {
        size = other[i];
      } else if (!(other[i] == SymInt(1)) && !(other[i] == size)) {
        Fail(absl::InternalError(
            absl::StrCat("sizes that do not broadcast: ", size.ToString(), " and ", other[i].ToString())));
      }
    }
  }
  return sizes;
}

Tensor Builder::Pointwise(ScalarFn fn, absl::Span<const Tensor> operands, DType operand_dtype, DType dtype) {
  Expr expr;
  std::vector<Argument> arguments;
  std::vector<uint32_t> positions;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_condition = fn == serialization::FN_SELECT && i == 0;
    positions.push_back(Load(operands[i], is_condition ? DType::kBool : operand_dtype, expr, arguments));
  }
  TensorType type{dtype, Broadcast(operands), {}};
  SetDomain(expr, type.sizes);
  AddInstruction(expr, fn, dtype, positions);
  return EmitExpr(std::move(expr), std::move(arguments), std::move(type));
}

Tensor Builder::Full(const Tensor& value, DType dtype, SymIntVector sizes) {
  if (!value.is_literal()) return Expand(Cast(value, dtype), std::move(sizes));
  Expr expr;
  std::vector<Argument> arguments;
  Load(value, dtype, expr, arguments);
  SetDomain(expr, sizes);
  return EmitExpr(std::move(expr), {}, {dtype, std::move(sizes), {}});
}

Tensor Builder::Unary(ScalarFn fn, const Tensor& a) {
  if (a.is_literal() && fn == serialization::FN_NEG)
    return a.is_float_ ? Literal(-a.number_) : Literal(SymInt(0) - a.integer_);
  if (a.is_literal()) {
    Fail(absl::InternalError("a function of a literal alone"));
    return a;
  }
  return Pointwise(fn, {a}, a.dtype(), HasBoolResult(fn) ? DType::kBool : a.dtype());
}

Tensor Builder::Binary(ScalarFn fn, Tensor a, Tensor b) {
  if (a.is_literal() && b.is_literal()) {
    if (a.is_float_ || b.is_float_) {
      const double x = a.is_float_ ? a.number_ : static_cast<double>(a.integer_.constant());
      const double y = b.is_float_ ? b.number_ : static_cast<double>(b.integer_.constant());
      if (fn == serialization::FN_ADD) return Literal(x + y);
      if (fn == serialization::FN_SUB) return Literal(x - y);
      if (fn == serialization::FN_MUL) return Literal(x * y);
      if (fn == serialization::FN_DIV) return Literal(x / y);
    } else {
      if (fn == serialization::FN_ADD) return Literal(a.integer_ + b.integer_);
      if (fn == serialization::FN_SUB) return Literal(a.integer_ - b.integer_);
      if (fn == serialization::FN_MUL) return Literal(a.integer_ * b.integer_);
    }
    Fail(absl::InternalError("a function of literals alone"));
    return a;
  }
  const DType dtype = a.is_literal() ? b.dtype() : a.dtype();
  const bool b_is_one = b.is_literal() && (b.is_float_ ? b.number_ == 1 : b.integer_ == SymInt(1));
  const bool a_is_one = a.is_literal() && (a.is_float_ ? a.number_ == 1 : a.integer_ == SymInt(1));
  if (b_is_one && (fn == serialization::FN_MUL || fn == serialization::FN_DIV)) return a;
  if (a_is_one && fn == serialization::FN_MUL) return b;
  return Pointwise(fn, {a, b}, dtype, HasBoolResult(fn) ? DType::kBool : dtype);
}

Tensor Builder::Select(const Tensor& condition, Tensor a, Tensor b) {
  if (a.is_literal() && b.is_literal()) {
    a = Full(a, a.is_float_ || b.is_float_ ? DType::kFloat32 : DType::kInt64, {});
  }
  const DType dtype = a.is_literal() ? b.dtype() : a.dtype();
  return Pointwise(serialization::FN_SELECT, {condition, a, b}, dtype, dtype);
}

Tensor Builder::Cast(const Tensor& a, DType dtype) {
  if (a.is_literal() || a.dtype() == dtype) return a;
  return Pointwise(serialization::FN_CAST, {a}, a.dtype(), dtype);
}

Tensor Builder::Iota(int dim, DType dtype, SymIntVector sizes) {
  Expr expr;
  const uint32_t position = AddInstruction(expr, serialization::FN_IOTA, dtype, {});
  expr.mutable_instructions(static_cast<int>(position))->set_index(static_cast<uint32_t>(dim));
  SetDomain(expr, sizes);
  return EmitExpr(std::move(expr), {}, {dtype, std::move(sizes), {}});
}

Tensor Builder::Random(const Tensor& rng_state, const SymInt& slice, SymIntVector sizes) {
  Expr expr;
  const uint32_t position = AddInstruction(expr, serialization::FN_RANDOM_UNIFORM, DType::kFloat32, {});
  expr.mutable_instructions(static_cast<int>(position))->set_slice(slice.ToString());
  SetDomain(expr, sizes);
  return EmitExpr(std::move(expr), {Use{rng_state.id()}}, {DType::kFloat32, std::move(sizes), {}});
}

Tensor Builder::Reduce(ScalarFn fn, const Tensor& a, absl::Span<const int64_t> dims) {
  std::vector<uint32_t> wrapped;
  for (const int64_t dim : dims) wrapped.push_back(static_cast<uint32_t>(WrapDim(dim, a.rank())));
  std::sort(wrapped.begin(), wrapped.end());
  if (a.rank() == 0 || wrapped.empty()) return a;
  Expr expr;
  std::vector<Argument> arguments;
  TensorType type{a.dtype(), a.sizes(), {}};
  const uint32_t operand = Load(a, a.dtype(), expr, arguments);
  SetDomain(expr, type.sizes);
  for (const uint32_t dim : wrapped) {
    expr.add_reduce_dims(dim);
    type.sizes[dim] = SymInt(1);
  }
  AddInstruction(expr, fn, a.dtype(), {operand});
  return EmitExpr(std::move(expr), std::move(arguments), std::move(type));
}

Tensor Builder::ReduceMean(const Tensor& a, absl::Span<const int64_t> dims) {
  SymInt count = 1;
  for (const int64_t dim : dims) {
    if (a.rank() > 0) count = count * a.sizes()[static_cast<size_t>(WrapDim(dim, a.rank()))];
  }
  return ReduceSum(a, dims) / Literal(count);
}

Tensor Builder::View(const Tensor& a, SymIntVector sizes) {
  if (a.sizes() == sizes) return a;
  ValueId source = a.id();
  while (true) {
    const Node* node = Producer(source);
    if (node == nullptr || node->op != "prim.view") break;
    source = std::get<Use>(node->arguments[0]).value;
  }
  if (graph_->value(source).type.sizes == sizes) return Value(source);
  const TensorType type{a.dtype(), sizes, {}};
  return Emit("prim.view", {Use{source}, ToList(sizes)}, {type})[0];
}

Tensor Builder::Permute(const Tensor& a, std::vector<int64_t> dims) {
  for (int64_t& dim : dims) dim = WrapDim(dim, a.rank());
  ValueId source = a.id();
  if (const Node* node = Producer(source); node != nullptr && node->op == "prim.permute") {
    const auto& inner = std::get<std::vector<SymInt>>(node->arguments[1]);
    for (int64_t& dim : dims) dim = inner[static_cast<size_t>(dim)].constant();
    source = std::get<Use>(node->arguments[0]).value;
  }
  const SymIntVector& from = graph_->value(source).type.sizes;
  TensorType type{a.dtype(), {}, {}};
  bool identity = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    type.sizes.push_back(from[static_cast<size_t>(dims[i])]);
    identity = identity && dims[i] == static_cast<int64_t>(i);
  }
  if (identity) return Value(source);
  return Emit("prim.permute", {Use{source}, ToList(dims)}, {type})[0];
}

Tensor Builder::Transpose(const Tensor& a, int64_t dim0, int64_t dim1) {
  if (a.rank() == 0) return a;
  std::vector<int64_t> dims(static_cast<size_t>(a.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<size_t>(WrapDim(dim0, a.rank()))], dims[static_cast<size_t>(WrapDim(dim1, a.rank()))]);
  return Permute(a, std::move(dims));
}

Tensor Builder::Expand(const Tensor& a, SymIntVector sizes) {
  if (a.sizes() == sizes) return a;
  const TensorType type{a.dtype(), sizes, {}};
  return Emit("prim.expand", {Use{StripExpand(a).id()}, ToList(sizes)}, {type})[0];
}

Tensor Builder::Slice(const Tensor& a, int64_t dim, SymInt start, SymInt end, SymInt step) {
  dim = WrapDim(dim, a.rank());
  const SymInt size = a.sizes()[static_cast<size_t>(dim)];
  if (start == SymInt(0) && end == size && step == SymInt(1)) return a;
  TensorType type{a.dtype(), a.sizes(), {}};
  const SymInt length = end - start;
  type.sizes[static_cast<size_t>(dim)] =
      step == SymInt(1) ? length : SymInt::Binary(SymInt::Kind::kFloorDiv, length + step - SymInt(1), step);
  return Emit("prim.slice", {Use{a.id()}, SymInt(dim), start, end, step}, {type})[0];
}

Tensor Builder::SelectIndex(const Tensor& a, int64_t dim, SymInt index) {
  dim = WrapDim(dim, a.rank());
  TensorType type{a.dtype(), a.sizes(), {}};
  type.sizes.erase(type.sizes.begin() + dim);
  return Emit("prim.select", {Use{a.id()}, SymInt(dim), std::move(index)}, {type})[0];
}

Tensor Builder::Unsqueeze(const Tensor& a, int64_t dim) {
  SymIntVector sizes = a.sizes();
  sizes.insert(sizes.begin() + WrapDim(dim, a.rank() + 1), SymInt(1));
  return View(a, std::move(sizes));
}

Tensor Builder::Squeeze(const Tensor& a, absl::Span<const int64_t> dims) {
  std::vector<bool> drop(a.sizes().size(), false);
  for (const int64_t dim : dims) {
    if (a.rank() > 0) drop[static_cast<size_t>(WrapDim(dim, a.rank()))] = true;
  }
  SymIntVector sizes;
  for (size_t i = 0; i < drop.size(); ++i) {
    if (!drop[i]) sizes.push_back(a.sizes()[i]);
  }
  return View(a, std::move(sizes));
}

Tensor Builder::Diagonal(const Tensor& a, int64_t offset, int64_t dim1, int64_t dim2) {
  dim1 = WrapDim(dim1, a.rank());
  dim2 = WrapDim(dim2, a.rank());
  const SymInt& rows = a.sizes()[static_cast<size_t>(dim1)];
  const SymInt& columns = a.sizes()[static_cast<size_t>(dim2)];
  const SymInt length = offset >= 0 ? SymInt::Binary(SymInt::Kind::kMin, rows, columns - SymInt(offset))
                                    : SymInt::Binary(SymInt::Kind::kMin, rows + SymInt(offset), columns);
  TensorType type{a.dtype(), {}, {}};
  for (int64_t i = 0; i < a.rank(); ++i) {
    if (i != dim1 && i != dim2) type.sizes.push_back(a.sizes()[static_cast<size_t>(i)]);
  }
  type.sizes.push_back(SymInt::Binary(SymInt::Kind::kMax, length, 0));
  return Emit("prim.diagonal", {Use{a.id()}, SymInt(offset), SymInt(dim1), SymInt(dim2)}, {type})[0];
}

Tensor Builder::ViewAsReal(const Tensor& a) {
  TensorType type{a.dtype() == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64, a.sizes(), {}};
  type.sizes.push_back(SymInt(2));
  return Emit("prim.view_as_real", {Use{a.id()}}, {type})[0];
}

bool Builder::IsInterleavedComplex(ValueId id) const {
  const Node* node = Producer(id);
  if (node == nullptr || node->op == "prim.view_as_real") return true;
  if (node->op == "prim.permute") {
    const auto& dims = std::get<std::vector<SymInt>>(node->arguments[1]);
    const bool keeps_last = dims.back() == SymInt(static_cast<int64_t>(dims.size()) - 1);
    return keeps_last && IsInterleavedComplex(std::get<Use>(node->arguments[0]).value);
  }
  return !IsViewOp(node->op);
}

Tensor Builder::ViewAsComplex(const Tensor& a) {
  TensorType type{a.dtype() == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128, a.sizes(), {}};
  type.sizes.pop_back();
  const Tensor pairs =
      IsInterleavedComplex(a.id()) ? a : Emit("prim.copy", {Use{a.id()}}, {{a.dtype(), a.sizes(), {}}})[0];
  return Emit("prim.view_as_complex", {Use{pairs.id()}}, {type})[0];
}

Tensor Builder::Unfold(const Tensor& a, int64_t dim, int64_t size, int64_t step) {
  dim = WrapDim(dim, a.rank());
  TensorType type{a.dtype(), a.sizes(), {}};
  SymInt& windows = type.sizes[static_cast<size_t>(dim)];
  windows = SymInt::Binary(SymInt::Kind::kFloorDiv, windows - SymInt(size), step) + SymInt(1);
  type.sizes.push_back(SymInt(size));
  return Emit("prim.unfold", {Use{a.id()}, SymInt(dim), SymInt(size), SymInt(step)}, {type})[0];
}

Tensor Builder::AsStrided(const Tensor& a, SymIntVector sizes, SymIntVector strides, SymInt offset) {
  const TensorType type{a.dtype(), sizes, {}};
  return Emit("prim.as_strided", {Use{a.id()}, ToList(sizes), ToList(strides), std::move(offset)}, {type})[0];
}

Tensor Builder::Matmul(const Tensor& a, const Tensor& b, const Tensor& bias) {
  TensorType type{a.dtype(), a.sizes(), {}};
  if (a.rank() < 2 || b.rank() != a.rank() || b.dtype() != a.dtype()) {
    Fail(absl::InternalError(absl::StrCat("matmul of ", PrintType(a.type()), " and ", PrintType(b.type()))));
    return a;
  }
  for (size_t i = 0; i + 2 < type.sizes.size(); ++i) {
    if (type.sizes[i] == SymInt(1)) type.sizes[i] = b.sizes()[i];
  }
  type.sizes.back() = b.sizes().back();
  const Tensor added = bias.defined() ? StripExpand(bias) : bias;
  return Emit("prim.matmul", {Use{a.id()}, Use{b.id()}, OptionalUse(added)}, {type})[0];
}

Tensor Builder::Convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionConfig& config,
                            SymIntVector output_sizes) {
  std::vector<Argument> arguments = {Use{x.id()}, Use{weight.id()}, OptionalUse(bias)};
  AppendConfig(config, arguments);
  const TensorType type{x.dtype(), std::move(output_sizes), {}};
  return Emit("prim.convolution", std::move(arguments), {type})[0];
}

Tensor Builder::ConvolutionBackwardInput(const Tensor& grad, const Tensor& weight, const ConvolutionConfig& config,
                                         SymIntVector input_sizes) {
  std::vector<Argument> arguments = {Use{grad.id()}, Use{weight.id()}};
  AppendConfig(config, arguments);
  const TensorType type{grad.dtype(), std::move(input_sizes), {}};
  return Emit("prim.convolution_backward_input", std::move(arguments), {type})[0];
}

Tensor Builder::ConvolutionBackwardWeight(const Tensor& grad, const Tensor& x, const ConvolutionConfig& config,
                                          SymIntVector weight_sizes) {
  std::vector<Argument> arguments = {Use{grad.id()}, Use{x.id()}};
  AppendConfig(config, arguments);
  const TensorType type{grad.dtype(), std::move(weight_sizes), {}};
  return Emit("prim.convolution_backward_weight", std::move(arguments), {type})[0];
}

std::pair<Tensor, Tensor> Builder::MaxPool(const Tensor& x, const PoolConfig& config, SymIntVector output_sizes) {
  std::vector<Argument> arguments = {Use{x.id()}};
  AppendConfig(config, arguments);
  const TensorType values{x.dtype(), output_sizes, {}};
  const TensorType indices{DType::kInt64, output_sizes, {}};
  const std::vector<Tensor> results = Emit("prim.max_pool", std::move(arguments), {values, indices});
  return {results[0], results[1]};
}

Tensor Builder::MaxPoolBackward(const Tensor& grad, const Tensor& indices, const PoolConfig& config,
                                SymIntVector input_sizes) {
  std::vector<Argument> arguments = {Use{grad.id()}, Use{indices.id()}};
  AppendConfig(config, arguments);
  const TensorType type{grad.dtype(), std::move(input_sizes), {}};
  return Emit("prim.max_pool_backward", std::move(arguments), {type})[0];
}

Tensor Builder::AvgPool(const Tensor& x, const PoolConfig& config, SymIntVector output_sizes) {
  std::vector<Argument> arguments = {Use{x.id()}};
  AppendConfig(config, arguments);
  const TensorType type{x.dtype(), std::move(output_sizes), {}};
  return Emit("prim.avg_pool", std::move(arguments), {type})[0];
}

Tensor Builder::AvgPoolBackward(const Tensor& grad, const PoolConfig& config, SymIntVector input_sizes) {
  std::vector<Argument> arguments = {Use{grad.id()}};
  AppendConfig(config, arguments);
  const TensorType type{grad.dtype(), std::move(input_sizes), {}};
  return Emit("prim.avg_pool_backward", std::move(arguments), {type})[0];
}

Tensor Builder::Gather(const Tensor& x, const Tensor& index, int64_t dim) {
  dim = WrapDim(dim, x.rank());
  TensorType type{x.dtype(), x.sizes(), {}};
  type.sizes.erase(type.sizes.begin() + dim);
  type.sizes.insert(type.sizes.begin() + dim, index.sizes().begin(), index.sizes().end());
  return Emit("prim.gather", {Use{x.id()}, Use{index.id()}, SymInt(dim)}, {type})[0];
}

Tensor Builder::ScatterAdd(const Tensor& rows, const Tensor& index, const Tensor& base, int64_t dim,
                           int64_t padding_index, SymIntVector output_sizes) {
  if (rows.dtype() == DType::kBool) {
    // bool adds as logical or: count the true elements, then compare with 0.
    const Tensor count = base.defined() ? Cast(base, DType::kInt32) : base;
    const Tensor sum = ScatterAdd(Cast(rows, DType::kInt32), index, count, dim, padding_index, std::move(output_sizes));
    return Cast(sum, DType::kBool);
  }
  const TensorType type{rows.dtype(), std::move(output_sizes), {}};
  return Emit("prim.scatter_add",
              {Use{rows.id()}, Use{index.id()}, OptionalUse(base), SymInt(dim), SymInt(padding_index)}, {type})[0];
}

Tensor Builder::CheckedIndex(const Tensor& index, const SymInt& size, bool from_end, std::optional<int64_t> ignored) {
  const Tensor wide = index.dtype() == DType::kInt32 ? index : Cast(index, DType::kInt64);
  const Argument passes = ignored.has_value() ? Argument(SymInt(*ignored)) : Argument(None{});
  return Emit("prim.checked_index", {Use{wide.id()}, size, from_end, passes}, {{wide.dtype(), wide.sizes(), {}}})[0];
}

std::pair<Tensor, Tensor> Builder::Scan(serialization::Scan::Function function, const Tensor& x, int64_t dim,
                                        bool reverse) {
  std::vector<TensorType> types = {{x.dtype(), x.sizes(), {}}};
  const bool has_indices = function == serialization::Scan::MAX || function == serialization::Scan::MIN;
  if (has_indices) types.push_back({DType::kInt64, x.sizes(), {}});
  const std::vector<Tensor> results =
      Emit("prim.scan", {Use{x.id()}, SymInt(static_cast<int64_t>(function)), SymInt(WrapDim(dim, x.rank())), reverse},
           types);
  return {results[0], has_indices ? results[1] : Tensor()};
}

std::pair<Tensor, Tensor> Builder::Sort(const Tensor& x, int64_t dim, SymInt count, bool descending) {
  dim = WrapDim(dim, x.rank());
  SymIntVector sizes = x.sizes();
  sizes[static_cast<size_t>(dim)] = std::move(count);
  const std::vector<Tensor> results =
      Emit("prim.sort", {Use{x.id()}, SymInt(dim), descending}, {{x.dtype(), sizes, {}}, {DType::kInt64, sizes, {}}});
  return {results[0], results[1]};
}

Tensor Builder::Concat(absl::Span<const Tensor> tensors, int64_t dim) {
  if (tensors.size() == 1) return tensors[0];
  dim = WrapDim(dim, tensors[0].rank());
  TensorType type{tensors[0].dtype(), tensors[0].sizes(), {}};
  SymInt total = 0;
  std::vector<Use> uses;
  for (const Tensor& tensor : tensors) {
    total = total + tensor.sizes()[static_cast<size_t>(dim)];
    uses.push_back(Use{tensor.id()});
  }
  type.sizes[static_cast<size_t>(dim)] = total;
  return Emit("prim.concat", {std::move(uses), SymInt(dim)}, {type})[0];
}

}  // namespace cotan::aot
