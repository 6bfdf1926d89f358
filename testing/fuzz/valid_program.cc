// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/valid_program.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/fuzz/method_writer.h"
#include "testing/fuzz/write_ops.h"

namespace cotan::testing {
namespace {

void WriteOp(MethodWriter& w) {
  switch (w.choices().Below(32)) {
    case 0:
    case 1:
      return WriteMatmul(w);
    case 2:
      return WriteGather(w);
    case 3:
      return WriteScatterAdd(w);
    case 4:
    case 5:
      return WriteConcat(w);
    case 6:
      return WriteScan(w);
    case 7:
      return WriteSort(w);
    case 8:
      return WritePool(w);
    case 9:
      return WriteConvolution(w);
    case 10:
      return WriteEffect(w);
    case 11:
    case 12:
      return WriteCopy(w);
    default:
      return w.choices().OneIn(3) ? WriteView(w) : WriteExpr(w);
  }
}

// Returns a value that may become the content of a state or an argument: any value of its type, of a bound that both
// keep.
std::optional<TypedValue> NewContent(MethodWriter& w, DType dtype, const SymSizes& sizes) {
  const auto found = w.Find([&](const TypedValue& v) { return v.dtype == dtype && v.sizes == sizes; });
  if (!found.has_value()) return std::nullopt;
  return w.Clamped(*found, kClampedBound);
}

void UpdateStates(MethodWriter& w, const std::vector<SharedState>& states) {
  for (const SharedState& state : states) {
    if (w.choices().OneIn(2)) continue;
    const std::optional<TypedValue> content = NewContent(w, state.dtype, state.sizes);
    if (content.has_value()) w.builder().Update(state.index, content->id);
  }
}

void UpdateInputs(MethodWriter& w) {
  for (size_t i = 0; i < w.inputs().size(); ++i) {
    if (!w.choices().OneIn(4)) continue;
    const std::optional<TypedValue> content = NewContent(w, w.inputs()[i].dtype, w.inputs()[i].sizes);
    if (!content.has_value()) continue;
    auto& update = *w.builder().proto().add_input_updates();
    update.set_input(static_cast<uint32_t>(i));
    update.set_value(content->id);
  }
}

void WriteMethod(ProgramBuilder& program, const std::string& name, std::vector<SharedState>& states, Choices& choices) {
  MethodWriter w(program, name, states, choices);
  for (const SharedState& state : std::vector<SharedState>(states)) {
    if (!choices.OneIn(3)) w.Read(state);
  }
  for (size_t i = 1 + choices.Below(3); i > 0; --i) {
    const DType dtype = w.RandomDType();
    w.Input(dtype, w.RandomSizes());
  }
  for (size_t i = choices.Below(14); i > 0; --i) WriteOp(w);
  UpdateStates(w, states);
  UpdateInputs(w);
  for (size_t i = 1 + choices.Below(3); i > 0; --i) w.builder().Output(absl::StrCat("output.", i), w.Any().id);
}

}  // namespace

ProgramBuilder ValidProgram(Choices& choices) {
  ProgramBuilder program;
  serialization::SymbolProto& symbol = *program.artifact().add_symbols();
  symbol.set_name("batch");
  symbol.set_min(1);
  symbol.set_max(kMaxSymbol);
  std::vector<SharedState> states;
  constexpr const char* kNames[] = {"first", "second"};
  const size_t methods = 1 + choices.Below(2);
  for (size_t i = 0; i < methods; ++i) WriteMethod(program, kNames[i], states, choices);
  return program;
}

}  // namespace cotan::testing
