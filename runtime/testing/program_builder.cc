// SPDX-License-Identifier: Apache-2.0

#include "runtime/testing/program_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::testing {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using serialization::State;
using serialization::TensorType;

TensorType TypeOf(DType dtype, const Sizes& sizes) {
  TensorType type;
  type.set_dtype(static_cast<serialization::DTypeProto>(dtype));
  for (const std::string& size : sizes) type.add_sizes(size);
  return type;
}

uint32_t MethodBuilder::AddValue(DType dtype, const Sizes& sizes) {
  *method_.add_values()->mutable_type() = TypeOf(dtype, sizes);
  return static_cast<uint32_t>(method_.values_size()) - 1;
}

uint32_t MethodBuilder::Input(absl::string_view name, DType dtype, const Sizes& sizes) {
  const uint32_t value = AddValue(dtype, sizes);
  method_.add_inputs(value);
  method_.add_input_names(std::string(name));
  return value;
}

uint32_t MethodBuilder::Read(uint32_t state, DType dtype, const Sizes& sizes) {
  const uint32_t value = AddValue(dtype, sizes);
  method_.add_state_reads()->set_state(state);
  method_.mutable_state_reads(method_.state_reads_size() - 1)->set_value(value);
  return value;
}

void MethodBuilder::Update(uint32_t state, uint32_t value) {
  method_.add_state_updates()->set_state(state);
  method_.mutable_state_updates(method_.state_updates_size() - 1)->set_value(value);
}

void MethodBuilder::Output(absl::string_view name, uint32_t value) {
  method_.add_outputs(value);
  method_.add_output_names(std::string(name));
}

Op& MethodBuilder::AddOp(Op op, const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs) {
  for (uint32_t input : inputs) op.add_inputs(input);
  for (uint32_t output : outputs) op.add_outputs(output);
  *method_.add_ops() = std::move(op);
  return *method_.mutable_ops(method_.ops_size() - 1);
}

DType MethodBuilder::DTypeOf(uint32_t value) const {
  return ToDType(method_.values(static_cast<int>(value)).type().dtype());
}

Sizes MethodBuilder::SizesOf(uint32_t value) const {
  const auto& sizes = method_.values(static_cast<int>(value)).type().sizes();
  return {sizes.begin(), sizes.end()};
}

uint32_t MethodBuilder::Permute(uint32_t value, const std::vector<uint32_t>& dims) {
  Op op;
  Sizes sizes;
  auto& permute = *op.mutable_view()->add_steps()->mutable_permute();
  for (uint32_t dim : dims) {
    permute.add_dims(dim);
    sizes.push_back(SizesOf(value)[dim]);
  }
  const uint32_t output = AddValue(DTypeOf(value), sizes);
  AddOp(std::move(op), {value}, {output});
  return output;
}

uint32_t MethodBuilder::View(uint32_t value, const Sizes& sizes) {
  Op op;
  auto& view = *op.mutable_view()->add_steps()->mutable_view();
  for (const std::string& size : sizes) view.add_sizes(size);
  const uint32_t output = AddValue(DTypeOf(value), sizes);
  AddOp(std::move(op), {value}, {output});
  return output;
}

uint32_t MethodBuilder::Matmul(uint32_t a, uint32_t b, const Sizes& sizes) {
  Op op;
  op.mutable_matmul();
  const uint32_t output = AddValue(DTypeOf(a), sizes);
  AddOp(std::move(op), {a, b}, {output});
  return output;
}

uint32_t MethodBuilder::Sum(uint32_t value, int dim) {
  ExprBuilder builder({}, {dim});
  builder.Output(builder.Sum(builder.Input(0, DTypeOf(value))));
  Sizes sizes = SizesOf(value);
  for (const std::string& size : sizes) builder.expr().add_domain_sizes(size);
  sizes[static_cast<size_t>(dim)] = "1";
  const uint32_t output = AddValue(DTypeOf(value), sizes);
  AddOp(builder.Build(), {value}, {output});
  return output;
}

uint32_t ProgramBuilder::AddState(absl::string_view name, State::Role role, DType dtype, const Sizes& sizes,
                                  double fill) {
  State& state = *artifact_.add_states();
  state.set_name(std::string(name));
  state.set_role(role);
  state.set_persistent(role != State::CONSTANT);
  *state.mutable_type() = TypeOf(dtype, sizes);
  state.set_fill(fill);
  return static_cast<uint32_t>(artifact_.states_size()) - 1;
}

uint32_t ProgramBuilder::AddState(absl::string_view name, State::Role role, const Sizes& sizes,
                                  const std::vector<float>& values) {
  const uint32_t index = AddState(name, role, DType::kFloat32, sizes, 0);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  artifact_.mutable_states(static_cast<int>(index))->set_segment(writer_.AddSegment(bytes));
  return index;
}

MethodBuilder ProgramBuilder::AddMethod(absl::string_view name) {
  Method& method = *artifact_.add_methods();
  method.set_name(std::string(name));
  return MethodBuilder(method);
}

std::string ProgramBuilder::Bytes() {
  absl::StatusOr<std::string> bytes = std::move(writer_).Serialize(std::move(artifact_));
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

std::shared_ptr<const Program> ProgramBuilder::Load() {
  absl::StatusOr<std::shared_ptr<const Program>> program = Program::LoadBytes(Bytes());
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : nullptr;
}

namespace {

// Indices of the states below.
enum : uint32_t { kWeight, kBias, kMomentum, kStep, kLr, kRng };

// Prediction of [batch, 3] inputs.
uint32_t Predict(MethodBuilder& m, const std::string& batch, uint32_t input, uint32_t weight, uint32_t bias) {
  const uint32_t product = m.Matmul(input, m.Permute(weight, {1, 0}), {batch, "2"});
  return m.Pointwise({batch, "2"}, {product, bias}, [](ExprBuilder& b) { return b.Add(0, 1); });
}

struct Gradients {
  uint32_t weight;
  uint32_t bias;
};

Gradients Backward(MethodBuilder& m, uint32_t input, uint32_t tangent) {
  const uint32_t weight = m.Matmul(m.Permute(tangent, {1, 0}), input, {"2", "3"});
  return {weight, m.View(m.Sum(tangent, 0), {"2"})};
}

void AddTrainStep(ProgramBuilder& program, const std::string& batch) {
  MethodBuilder m = program.AddMethod("train_step");
  const uint32_t input = m.Input("input", DType::kFloat32, {batch, "3"});
  const uint32_t target = m.Input("target", DType::kFloat32, {batch, "2"});
  const uint32_t weight = m.Read(kWeight, DType::kFloat32, {"2", "3"});
  const uint32_t bias = m.Read(kBias, DType::kFloat32, {"2"});
  const uint32_t momentum = m.Read(kMomentum, DType::kFloat32, {"2", "3"});
  const uint32_t step = m.Read(kStep, DType::kInt64, {});
  const uint32_t lr = m.Read(kLr, DType::kFloat32, {});
  const uint32_t rng = m.Read(kRng, DType::kInt64, {"2"});

  const uint32_t prediction = Predict(m, batch, input, weight, bias);
  const uint32_t difference =
      m.Pointwise({batch, "2"}, {prediction, target}, [](ExprBuilder& b) { return b.Sub(0, 1); });
  const uint32_t squares = m.Pointwise({batch, "2"}, {difference}, [&](ExprBuilder& b) {
    return b.Div(b.Mul(0, 0), b.Cast(b.Size(DType::kInt64, absl::StrCat("(", batch, " * 2)")), DType::kFloat32));
  });
  m.Output("loss", m.View(m.Sum(m.Sum(squares, 0), 1), {}));
  const uint32_t tangent = m.Pointwise({batch, "2"}, {difference}, [&](ExprBuilder& b) {
    return b.Div(0, b.Cast(b.Size(DType::kInt64, batch), DType::kFloat32));
  });
  const Gradients gradients = Backward(m, input, tangent);
  const uint32_t noisy = m.Pointwise({"2"}, {gradients.bias, rng}, [](ExprBuilder& b) {
    return b.Add(0, b.Mul(b.Random(1, "1"), b.Constant(DType::kFloat32, 1e-3)));
  });
  const uint32_t new_momentum = m.Pointwise({"2", "3"}, {momentum, gradients.weight}, [](ExprBuilder& b) {
    return b.Add(b.Mul(0, b.Constant(DType::kFloat32, 0.5)), 1);
  });
  const auto descend = [](ExprBuilder& b) { return b.Sub(0, b.Mul(1, 2)); };
  m.Update(kWeight, m.Pointwise({"2", "3"}, {weight, lr, new_momentum}, descend));
  m.Update(kBias, m.Pointwise({"2"}, {bias, lr, noisy}, descend));
  m.Update(kMomentum, new_momentum);
  m.Update(kStep, m.Pointwise({}, {step}, [](ExprBuilder& b) { return b.Add(0, b.Constant(DType::kInt64, 1)); }));
  m.Update(kRng, m.Pointwise({"2"}, {rng}, [](ExprBuilder& b) {
    return b.Add(0, b.Mul(b.Iota(DType::kInt64, 0), b.Constant(DType::kInt64, 2)));
  }));
  m.proto().set_rng_blocks("2");
}

void AddEval(ProgramBuilder& program, const std::string& batch) {
  MethodBuilder m = program.AddMethod("eval");
  const uint32_t input = m.Input("input", DType::kFloat32, {batch, "3"});
  const uint32_t weight = m.Read(kWeight, DType::kFloat32, {"2", "3"});
  const uint32_t bias = m.Read(kBias, DType::kFloat32, {"2"});
  m.Output("prediction", Predict(m, batch, input, weight, bias));
}

void AddPair(ProgramBuilder& program, const std::string& batch) {
  MethodBuilder forward = program.AddMethod("forward");
  const uint32_t input = forward.Input("input", DType::kFloat32, {batch, "3"});
  const uint32_t weight = forward.Read(kWeight, DType::kFloat32, {"2", "3"});
  const uint32_t bias = forward.Read(kBias, DType::kFloat32, {"2"});
  forward.Output("prediction", Predict(forward, batch, input, weight, bias));
  forward.proto().add_outputs(input);
  forward.proto().set_num_saved(1);
  forward.proto().set_backward_method("backward");

  MethodBuilder backward = program.AddMethod("backward");
  const uint32_t saved = backward.Input("saved.0", DType::kFloat32, {batch, "3"});
  const uint32_t tangent = backward.Input("tangent.prediction", DType::kFloat32, {batch, "2"});
  const uint32_t read = backward.Read(kWeight, DType::kFloat32, {"2", "3"});
  const Gradients gradients = Backward(backward, saved, tangent);
  backward.Output("weight", gradients.weight);
  backward.Output("bias", gradients.bias);
  backward.Output("input", backward.Matmul(tangent, read, {batch, "3"}));
}

}  // namespace

ProgramBuilder LinearRegression(int static_batch) {
  ProgramBuilder program;
  std::string batch = absl::StrCat(static_batch);
  if (static_batch == 0) {
    batch = "s0";
    serialization::SymbolProto& symbol = *program.artifact().add_symbols();
    symbol.set_name("batch");
    symbol.set_min(1);
    symbol.set_max(64);
  }
  program.AddState("weight", State::PARAMETER, {"2", "3"}, {0.1f, -0.2f, 0.3f, 0.4f, 0.5f, -0.6f});
  program.AddState("bias", State::PARAMETER, {"2"}, {0.25f, -0.25f});
  program.AddState("optimizer.weight.momentum", State::OPTIMIZER_SLOT, DType::kFloat32, {"2", "3"}, 0);
  program.AddState("step", State::OPTIMIZER_SLOT, DType::kInt64, {}, 0);
  program.AddState("hyperparameter.lr.0", State::HYPERPARAMETER, DType::kFloat32, {}, 0.125);
  program.AddState("rng", State::RNG, DType::kInt64, {"2"}, 0);
  program.artifact().mutable_states(kMomentum)->set_owner("weight");
  AddTrainStep(program, batch);
  AddEval(program, batch);
  AddPair(program, batch);
  return program;
}

}  // namespace cotan::testing
