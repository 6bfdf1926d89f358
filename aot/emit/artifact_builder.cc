// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/artifact_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/references/tolerance.h"

namespace cotan::aot {
namespace {

using serialization::State;

serialization::TensorType TypeOf(const TensorData& tensor) {
  serialization::TensorType type;
  type.set_dtype(static_cast<serialization::DTypeProto>(tensor.dtype));
  for (int64_t size : tensor.sizes) type.add_sizes(absl::StrCat(size));
  return type;
}

template <typename T>
double LargestOf(const std::string& bytes) {
  double largest = 0;
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

// Returns the largest magnitude of an f32 or f64 tensor; 0 for other dtypes.
double LargestMagnitude(const TensorData& tensor) {
  if (tensor.dtype == DType::kFloat32) return LargestOf<float>(tensor.bytes);
  if (tensor.dtype == DType::kFloat64) return LargestOf<double>(tensor.bytes);
  return 0;
}

std::string RngBytes(uint64_t seed) {
  const uint64_t words[2] = {seed, 0};
  return std::string(reinterpret_cast<const char*>(words), sizeof(words));
}

}  // namespace

State* ArtifactBuilder::AddState(const std::string& name) {
  if (!names_.insert(name).second) return nullptr;
  State& state = states_.emplace_back();
  state.set_name(name);
  return &state;
}

void ArtifactBuilder::AddTracedStates(const TracedProgram& traced, const Graph& graph) {
  absl::flat_hash_set<absl::string_view> read;
  for (const GraphInput& input : graph.inputs()) read.insert(input.name);
  for (const TracedState& traced_state : traced.states) {
    if (traced_state.role == State::CONSTANT && !read.contains(traced_state.name)) continue;
    State* state = AddState(traced_state.name);
    if (state == nullptr) continue;
    state->set_role(traced_state.role);
    *state->mutable_type() = TypeOf(traced_state.initial);
    state->set_segment(writer_.AddSegment(traced_state.initial.bytes));
    state->set_requires_grad(traced_state.requires_grad);
    state->set_persistent(traced_state.persistent);
    for (const std::string& alias : traced_state.aliases) state->add_aliases(alias);
  }
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind != InputKind::kRngState) continue;
    State* state = AddState(input.name);
    if (state == nullptr) continue;
    state->set_role(State::RNG);
    state->mutable_type()->set_dtype(serialization::DTYPE_I64);
    state->mutable_type()->add_sizes("2");
    state->set_segment(writer_.AddSegment(RngBytes(seed_)));
    state->set_persistent(true);
  }
}

void ArtifactBuilder::AddStates(absl::Span<const State> states) {
  for (const State& state : states) {
    if (names_.insert(state.name()).second) states_.push_back(state);
  }
}

serialization::ReferenceTensor ArtifactBuilder::ReferenceOf(const TensorData& tensor, DType half, double slack) {
  serialization::ReferenceTensor reference;
  *reference.mutable_type() = TypeOf(tensor);
  reference.set_segment(writer_.AddSegment(tensor.bytes));
  const double largest = LargestMagnitude(tensor);
  reference.set_tolerance(RelativeTolerance(tensor.dtype, half) + (largest > 0 ? slack / largest : 0));
  return reference;
}

void ArtifactBuilder::AddReference(absl::string_view method, absl::Span<const TensorData> inputs,
                                   absl::Span<const TensorData> outputs, absl::Span<const ExpectedState> states_after,
                                   DType half) {
  serialization::Reference& reference = *artifact_.add_references();
  reference.set_method(std::string(method));
  for (const TensorData& input : inputs) *reference.add_inputs() = ReferenceOf(input, half, 0);
  // Gradients that cancel are compared on the scale of the largest gradient.
  double largest = 0;
  for (const TensorData& output : outputs) largest = std::max(largest, LargestMagnitude(output));
  for (const TensorData& output : outputs) {
    *reference.add_outputs() = ReferenceOf(output, half, CancelledTolerance(output.dtype, half) * largest);
  }
  for (const ExpectedState& expected : states_after) {
    serialization::ReferenceState& state = *reference.add_states_after();
    state.set_state(expected.state);
    *state.mutable_tensor() = ReferenceOf(expected.content, half, expected.slack);
  }
  reference.set_rng_seed(static_cast<int64_t>(seed_));
}

uint32_t ArtifactBuilder::AddBlock(serialization::Method block) {
  *artifact_.add_blocks() = std::move(block);
  return static_cast<uint32_t>(artifact_.blocks_size()) - 1;
}

absl::StatusOr<std::string> ArtifactBuilder::Build(std::string producer) && {
  artifact_.set_producer(std::move(producer));
  for (State& state : states_) *artifact_.add_states() = std::move(state);
  return std::move(writer_).Serialize(std::move(artifact_));
}

}  // namespace cotan::aot
