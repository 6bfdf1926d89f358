// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/recurrent_check.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/operand_check.h"
#include "serialization/schema/program.pb.h"

namespace cotan::op_check {
namespace {

// An operand of a recurrent layer, for messages.
struct NamedSizes {
  absl::string_view name;
  DimVector sizes;
};

absl::Status ExpectAll(absl::Span<const TensorSpec> specs, DType dtype, absl::Span<const NamedSizes> expected) {
  for (size_t i = 0; i < specs.size(); ++i) {
    COTAN_RETURN_IF_ERROR(Expect(expected[i].name, specs[i], dtype, expected[i].sizes));
  }
  return absl::OkStatus();
}

struct RecurrentSizes {
  int64_t steps, batch, hidden, gates;
};

// The sizes of a recurrent layer, from `hidden` [T, N, H], an operand of the forward and the backward op.
absl::StatusOr<RecurrentSizes> SizesOf(const serialization::Recurrent& op, const TensorSpec& hidden) {
  using serialization::Recurrent;
  COTAN_RETURN_IF_ERROR(ExpectFloat("hidden", hidden));
  COTAN_RETURN_IF_ERROR(ExpectRank("hidden", hidden, 3, 3));
  const DimVector& sizes = hidden.layout.sizes;
  RecurrentSizes result = {sizes[0], sizes[1], sizes[2], 1};
  for (const int64_t size : sizes) {
    if (size > kMaxAttribute) return absl::InvalidArgumentError(absl::StrCat("hidden is ", Describe(hidden)));
  }
  switch (op.cell()) {
    case Recurrent::RNN_TANH:
    case Recurrent::RNN_RELU:
      return result;
    case Recurrent::LSTM:
      result.gates = 4;
      return result;
    case Recurrent::GRU:
      result.gates = 3;
      return result;
    default:
      return absl::InvalidArgumentError(absl::StrCat("cell ", op.cell(), " is unknown"));
  }
}

}  // namespace

absl::Status CheckRecurrent(const KernelRequest& request) {
  using serialization::Recurrent;
  const Recurrent& op = request.op.recurrent();
  const bool is_lstm = op.cell() == Recurrent::LSTM, is_gru = op.cell() == Recurrent::GRU;
  const size_t states = is_lstm ? 2 : 1;
  COTAN_RETURN_IF_ERROR(
      ExpectCounts(request, 2 + states, is_gru ? 4 : 2 + states, states, states + (is_lstm || is_gru ? 1 : 0)));
  const TensorSpec& hidden = request.outputs[0];
  COTAN_ASSIGN_OR_RETURN(const RecurrentSizes s, SizesOf(op, hidden));
  const int64_t gates = s.gates * s.hidden;
  const NamedSizes state = {is_lstm ? "c0" : "the bias", is_lstm ? DimVector{s.batch, s.hidden} : DimVector{gates}};
  COTAN_RETURN_IF_ERROR(ExpectAll(request.inputs, hidden.dtype,
                                  {{"projected", {s.steps, s.batch, gates}},
                                   {"the weight", {gates, s.hidden}},
                                   {"h0", {s.batch, s.hidden}},
                                   state}));
  const NamedSizes saved = {"gates", {s.steps, s.batch, 4 * s.hidden}};
  const NamedSizes steps = {"hidden", {s.steps, s.batch, s.hidden}};
  if (is_lstm) return ExpectAll(request.outputs, hidden.dtype, {steps, {"cell", steps.sizes}, saved});
  return ExpectAll(request.outputs, hidden.dtype, {steps, saved});
}

absl::Status CheckRecurrentBackward(const KernelRequest& request) {
  using serialization::Recurrent;
  const Recurrent& op = request.op.recurrent_backward();
  const bool is_lstm = op.cell() == Recurrent::LSTM, is_gru = op.cell() == Recurrent::GRU;
  const size_t inputs = is_lstm ? 8 : is_gru ? 5 : 4;
  const size_t outputs = is_lstm ? 3 : 2;
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, inputs, inputs, outputs, outputs));
  const TensorSpec& hidden = request.inputs[1];
  COTAN_ASSIGN_OR_RETURN(const RecurrentSizes s, SizesOf(op, hidden));
  const int64_t gates = s.gates * s.hidden;
  const DimVector steps = {s.steps, s.batch, s.hidden};
  const DimVector state = {s.batch, s.hidden};
  COTAN_RETURN_IF_ERROR(ExpectAll(request.inputs, hidden.dtype,
                                  {{"grad_hidden", steps},
                                   {"hidden", steps},
                                   {"the weight", {gates, s.hidden}},
                                   {"h0", state},
                                   {"gates", {s.steps, s.batch, 4 * s.hidden}},
                                   {"cell", steps},
                                   {"c0", state},
                                   {"the gradient of the last cell", state}}));
  const NamedSizes sums = {is_gru ? "the gradient of gates" : "the gradient of projected",
                           {s.steps, s.batch, is_gru ? 4 * s.hidden : gates}};
  return ExpectAll(request.outputs, hidden.dtype, {sums, {"the gradient of h0", state}, {"the gradient of c0", state}});
}

}  // namespace cotan::op_check
