// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/method_writer.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::testing {

int64_t MaxElements(const SymSizes& sizes) {
  const std::vector<int64_t> symbols = {kMaxSymbol};
  int64_t elements = 1;
  for (const SymInt& size : sizes) {
    elements *= *size.Evaluate(symbols);
    if (elements > kMaxValueElements) break;
  }
  return elements;
}

bool IsConstant(const SymSizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const SymInt& size) { return size.is_constant(); });
}

Sizes TextOf(const SymSizes& sizes) {
  Sizes texts;
  for (const SymInt& size : sizes) texts.push_back(size.ToString());
  return texts;
}

SymSizes MethodWriter::RandomSizes() {
  const SymInt s0 = SymInt::Symbol(0);
  const SymInt kPool[] = {1, 2, 3, 4, 5, 7, s0, s0, s0 + SymInt(1), s0 * SymInt(2)};
  SymSizes sizes(choices_.Below(4));
  for (SymInt& size : sizes) size = kPool[choices_.Below(std::size(kPool))];
  return sizes;
}

DType MethodWriter::RandomDType() {
  constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat64,
                               DType::kInt64,   DType::kInt32,   DType::kBool};
  return kDTypes[choices_.Below(std::size(kDTypes))];
}

TypedValue MethodWriter::Input(DType dtype, const SymSizes& sizes) {
  const uint32_t id = builder_.Input(absl::StrCat("input.", inputs_.size()), dtype, TextOf(sizes));
  const TypedValue value = {id, dtype, sizes, dtype == DType::kBool ? 1 : kInitialBound};
  inputs_.push_back(value);
  values_.push_back(value);
  return value;
}

TypedValue MethodWriter::Read(const SharedState& state) {
  const auto found = reads_.find(state.index);
  if (found != reads_.end()) return found->second;
  const uint32_t id = builder_.Read(state.index, state.dtype, TextOf(state.sizes));
  // States keep this bound: see Update() in valid_program.cc.
  const TypedValue value = {id, state.dtype, state.sizes, state.dtype == DType::kBool ? 1 : kClampedBound};
  reads_[state.index] = value;
  values_.push_back(value);
  return value;
}

TypedValue MethodWriter::NewState(DType dtype, const SymSizes& sizes) {
  const uint32_t index =
      program_.AddState(absl::StrCat("state.", states_.size()), serialization::State::BUFFER, dtype, TextOf(sizes), 0);
  states_.push_back({index, dtype, sizes});
  return Read(states_.back());
}

std::optional<TypedValue> MethodWriter::Find(absl::FunctionRef<bool(const TypedValue&)> fits) {
  std::vector<const TypedValue*> found;
  for (const TypedValue& value : values_) {
    if (fits(value)) found.push_back(&value);
  }
  if (found.empty()) return std::nullopt;
  return *found[choices_.Below(std::min<size_t>(found.size(), 256))];
}

TypedValue MethodWriter::Any() {
  // Late values depend on most of the method.
  const size_t window = choices_.OneIn(2) ? values_.size() : std::min<size_t>(values_.size(), 4);
  return values_[values_.size() - 1 - choices_.Below(std::min<size_t>(window, 256))];
}

TypedValue MethodWriter::Operand(DType dtype, const SymSizes& sizes, double bound) {
  const std::optional<TypedValue> found =
      Find([&](const TypedValue& v) { return v.dtype == dtype && v.sizes == sizes && v.bound <= bound; });
  if (found.has_value() && !choices_.OneIn(8)) return *found;
  return IsConstant(sizes) && choices_.OneIn(2) ? NewState(dtype, sizes) : Input(dtype, sizes);
}

TypedValue MethodWriter::Result(DType dtype, const SymSizes& sizes, double bound) {
  const uint32_t id = builder_.AddValue(dtype, TextOf(sizes));
  if (sizes.size() > 1 && choices_.OneIn(4)) {
    auto& order = *builder_.proto().mutable_values(static_cast<int>(id))->mutable_type()->mutable_dim_order();
    for (uint32_t d = 0; d < sizes.size(); ++d) order.Add(d);
    std::rotate(order.begin(), order.begin() + 1 + static_cast<int>(choices_.Below(sizes.size() - 1)), order.end());
  }
  values_.push_back({id, dtype, sizes, bound});
  return values_.back();
}

void MethodWriter::Add(serialization::Op op, const std::vector<TypedValue>& inputs,
                       const std::vector<TypedValue>& outputs) {
  std::vector<uint32_t> input_ids, output_ids;
  for (const TypedValue& input : inputs) input_ids.push_back(input.id);
  for (const TypedValue& output : outputs) output_ids.push_back(output.id);
  builder_.AddOp(std::move(op), input_ids, output_ids);
}

TypedValue MethodWriter::Clamped(const TypedValue& value, double bound) {
  if (value.bound <= bound) return value;
  ExprBuilder b({});
  const int x = b.Input(0, value.dtype);
  b.Output(b.Apply(serialization::FN_FMOD, {x, b.Constant(value.dtype, kClampModulus)}));
  for (const SymInt& size : value.sizes) b.expr().add_domain_sizes(size.ToString());
  const TypedValue clamped = Result(value.dtype, value.sizes, kClampedBound);
  Add(b.Build(), {value}, {clamped});
  return clamped;
}

}  // namespace cotan::testing
