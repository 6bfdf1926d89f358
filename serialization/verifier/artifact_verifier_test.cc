// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/artifact_verifier.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Expr;
using serialization::Method;
using serialization::Op;
using serialization::State;
using serialization::TensorType;
using ::testing::HasSubstr;

TensorType Vector(const std::string& size) {
  TensorType type;
  type.set_dtype(serialization::DTYPE_F32);
  type.add_sizes(size);
  return type;
}

// One state w f32[4]; step(x f32[s0]) -> x as a view, w += 1; a pair forward,
// backward that saves x; a recorded run of the pair's forward.
Artifact Sound() {
  Artifact artifact;
  auto& symbol = *artifact.add_symbols();
  symbol.set_name("batch");
  symbol.set_min(1);
  symbol.set_max(8);
  artifact.add_segments()->set_size(16);
  State& state = *artifact.add_states();
  state.set_name("w");
  state.set_role(State::PARAMETER);
  *state.mutable_type() = Vector("4");
  state.set_segment(0);

  Method& step = *artifact.add_methods();
  step.set_name("step");
  for (const char* size : {"s0", "4", "s0", "4"}) *step.add_values()->mutable_type() = Vector(size);
  step.add_inputs(0);
  step.add_state_reads()->set_value(1);
  Op& view = *step.add_ops();
  view.add_inputs(0);
  view.add_outputs(2);
  view.mutable_view()->add_steps()->mutable_view()->add_sizes("s0");
  Op& add = *step.add_ops();
  add.add_inputs(1);
  add.add_outputs(3);
  Expr& expr = *add.mutable_expr();
  expr.add_domain_sizes("4");
  for (auto fn : {serialization::FN_INPUT, serialization::FN_CONSTANT, serialization::FN_ADD}) {
    expr.add_instructions()->set_fn(fn);
    expr.mutable_instructions(expr.instructions_size() - 1)->set_dtype(serialization::DTYPE_F32);
  }
  expr.mutable_instructions(2)->add_operands(0);
  expr.mutable_instructions(2)->add_operands(1);
  expr.add_outputs(2);
  step.add_outputs(2);
  step.add_state_updates()->set_value(3);

  Method& forward = *artifact.add_methods();
  forward.set_name("forward");
  *forward.add_values()->mutable_type() = Vector("4");
  forward.add_inputs(0);
  forward.add_outputs(0);
  forward.add_outputs(0);
  forward.set_num_saved(1);
  forward.set_backward_method("backward");
  Method& backward = *artifact.add_methods();
  backward.set_name("backward");
  for (int i = 0; i < 2; ++i) *backward.add_values()->mutable_type() = Vector("4");
  backward.add_inputs(0);
  backward.add_inputs(1);
  backward.add_outputs(1);

  auto& reference = *artifact.add_references();
  reference.set_method("forward");
  *reference.add_inputs()->mutable_type() = Vector("4");
  *reference.add_outputs()->mutable_type() = Vector("4");
  return artifact;
}

struct Fault {
  std::string message;  // part of it
  std::function<void(Artifact&)> make;
};

Op& ExprOp(Artifact& a) { return *a.mutable_methods(0)->mutable_ops(1); }
Method& Step(Artifact& a) { return *a.mutable_methods(0); }

const std::vector<Fault>& Faults() {
  static const auto& faults = *new std::vector<Fault>{
      {"has the range [-1, 8]", [](Artifact& a) { a.mutable_symbols(0)->set_min(-1); }},
      {"has the range [1, 0]", [](Artifact& a) { a.mutable_symbols(0)->set_max(0); }},
      {"a state has no name", [](Artifact& a) { a.mutable_states(0)->clear_name(); }},
      {"two states are called 'w'", [](Artifact& a) { a.mutable_states(0)->add_aliases("w"); }},
      {"role 0 is unknown", [](Artifact& a) { a.mutable_states(0)->clear_role(); }},
      {"role 99 is unknown", [](Artifact& a) { a.mutable_states(0)->set_role(static_cast<State::Role>(99)); }},
      {"no initial content", [](Artifact& a) { a.mutable_states(0)->clear_initial(); }},
      {"segment 7 of 1", [](Artifact& a) { a.mutable_states(0)->set_segment(7); }},
      {"a CUDA kernel has no text", [](Artifact& a) { a.mutable_cuda_kernels()->add_kernels(); }},
      {"two CUDA kernels have the same text",
       [](Artifact& a) {
         for (int i = 0; i < 2; ++i) a.mutable_cuda_kernels()->add_kernels()->set_text("kernel");
       }},
      {"an image of a CUDA kernel is segment 9 of 1",
       [](Artifact& a) {
         a.mutable_cuda_kernels()->add_kernels()->set_text("kernel");
         a.mutable_cuda_kernels()->mutable_kernels(0)->add_images()->set_segment(9);
       }},
      {"segment 0 has 12 bytes, f32[4] has 16", [](Artifact& a) { a.mutable_segments(0)->set_size(12); }},
      {"state 'w': size expression 's0'", [](Artifact& a) { a.mutable_states(0)->mutable_type()->set_sizes(0, "s0"); }},
      {"its owner 'v'", [](Artifact& a) { a.mutable_states(0)->set_owner("v"); }},
      {"i64[2], not f32[4]", [](Artifact& a) { a.mutable_states(0)->set_role(State::RNG); }},
      {"a method has no name", [](Artifact& a) { Step(a).clear_name(); }},
      {"two methods are called 'forward'", [](Artifact& a) { Step(a).set_name("forward"); }},
      {"value 0: dtype 0 is unknown", [](Artifact& a) { Step(a).mutable_values(0)->mutable_type()->clear_dtype(); }},
      {"uses s1", [](Artifact& a) { Step(a).mutable_values(0)->mutable_type()->set_sizes(0, "s1"); }},
      {"inputs: value 9 of 4", [](Artifact& a) { Step(a).set_inputs(0, 9); }},
      {"inputs: value 0 is defined twice", [](Artifact& a) { Step(a).add_inputs(0); }},
      {"state reads: value 0 is defined twice", [](Artifact& a) { Step(a).mutable_state_reads(0)->set_value(0); }},
      {"state reads: state 5 of 1", [](Artifact& a) { Step(a).mutable_state_reads(0)->set_state(5); }},
      {"op 0: value 3 is used before it is defined", [](Artifact& a) { Step(a).mutable_ops(0)->set_inputs(0, 3); }},
      {"op 1 from fc: value 4 of 4",
       [](Artifact& a) {
         ExprOp(a).set_source("fc");
         ExprOp(a).set_outputs(0, 4);
       }},
      {"op 1: value 2 is defined twice", [](Artifact& a) { ExprOp(a).set_outputs(0, 2); }},
      {"op 1: it has no output", [](Artifact& a) { ExprOp(a).clear_outputs(); }},
      {"op 1: unknown op", [](Artifact& a) { ExprOp(a).clear_kind(); }},
      {"a view has one input", [](Artifact& a) { Step(a).mutable_ops(0)->add_inputs(1); }},
      {"a view step of an unknown kind", [](Artifact& a) { Step(a).mutable_ops(0)->mutable_view()->add_steps(); }},
      {"instruction 2: operand 2 comes later",
       [](Artifact& a) { ExprOp(a).mutable_expr()->mutable_instructions(2)->set_operands(0, 2); }},
      {"instruction 0: input 1 of 1",
       [](Artifact& a) { ExprOp(a).mutable_expr()->mutable_instructions(0)->set_index(1); }},
      {"instruction 1: function 0 is unknown",
       [](Artifact& a) { ExprOp(a).mutable_expr()->mutable_instructions(1)->clear_fn(); }},
      {"instruction 1: dtype 0 is unknown",
       [](Artifact& a) { ExprOp(a).mutable_expr()->mutable_instructions(1)->clear_dtype(); }},
      {"input updates: value 9 of 4", [](Artifact& a) { Step(a).add_input_updates()->set_value(9); }},
      {"input updates: input 3 of 1", [](Artifact& a) { Step(a).add_input_updates()->set_input(3); }},
      {"input updates: input 0 shares a storage, but gets none",
       [](Artifact& a) { Step(a).add_input_updates()->set_shares_storage(true); }},
      {"input updates: input 0 is f32[s0], its new content f32[4]",
       [](Artifact& a) { Step(a).add_input_updates()->set_value(3); }},
      {"'backward' returns 1 gradients, of 2 inputs",
       [](Artifact& a) {
         for (uint32_t input : {0, 1}) a.mutable_methods(2)->add_gradient_inputs(input);
       }},
      {"'backward' returns two gradients of input 0",
       [](Artifact& a) {
         a.mutable_methods(2)->add_outputs(0);
         for (int i = 0; i < 2; ++i) a.mutable_methods(2)->add_gradient_inputs(0);
       }},
      {"'backward': structural tangents of gradient 1 of 1",
       [](Artifact& a) { a.mutable_methods(2)->add_structural_tangents()->set_gradient(1); }},
      {"'backward' lists the structural tangents of gradient 0 twice",
       [](Artifact& a) {
         for (int i = 0; i < 2; ++i) a.mutable_methods(2)->add_structural_tangents()->set_gradient(0);
       }},
      {"'backward': structural tangent 7 of 1",
       [](Artifact& a) { a.mutable_methods(2)->add_structural_tangents()->add_tangents(7); }},
      {"dependencies of result 1 are not among the 1 tangents",
       [](Artifact& a) {
         serialization::ResultDependencies& entry = *a.mutable_methods(1)->add_result_dependencies();
         entry.set_result(1);
         entry.add_sources(0);
       }},
      {"dependencies of result 0 are not among the 1 tangents",
       [](Artifact& a) { a.mutable_methods(1)->add_result_dependencies()->add_sources(1); }},
      {"dependencies of result 0 are none or do not ascend",
       [](Artifact& a) { a.mutable_methods(1)->add_result_dependencies(); }},
      {"dependencies of result 0 are none or do not ascend",
       [](Artifact& a) {
         serialization::ResultDependencies& entry = *a.mutable_methods(1)->add_result_dependencies();
         for (int i = 0; i < 2; ++i) entry.add_sources(0);
       }},
      {"dependencies of result 0 are listed twice",
       [](Artifact& a) {
         for (int i = 0; i < 2; ++i) a.mutable_methods(1)->add_result_dependencies()->add_sources(0);
       }},
      {"has 2 outputs, the op 1", [](Artifact& a) { ExprOp(a).mutable_expr()->add_outputs(0); }},
      {"it stores instruction 3", [](Artifact& a) { ExprOp(a).mutable_expr()->set_outputs(0, 3); }},
      {"op 1: it multiplies 1 of 2 matrices",
       [](Artifact& a) {
         const Expr expr = ExprOp(a).expr();
         *ExprOp(a).mutable_matmul()->mutable_epilogue() = expr;
       }},
      {"instruction 0: input 1 of 1",
       [](Artifact& a) {
         Expr expr = ExprOp(a).expr();
         expr.mutable_instructions(0)->set_index(1);
         ExprOp(a).add_inputs(1);
         *ExprOp(a).mutable_matmul()->mutable_epilogue() = expr;
       }},
      {"its epilogue reduces dimensions",
       [](Artifact& a) {
         Expr expr = ExprOp(a).expr();
         expr.add_reduce_dims(0);
         ExprOp(a).add_inputs(1);
         *ExprOp(a).mutable_matmul()->mutable_epilogue() = expr;
       }},
      {"it reduces dimension 1", [](Artifact& a) { ExprOp(a).mutable_expr()->add_reduce_dims(1); }},
      {"size expression 'x'", [](Artifact& a) { ExprOp(a).mutable_expr()->set_domain_sizes(0, "x"); }},
      {"outputs: value 8 of 4", [](Artifact& a) { Step(a).set_outputs(0, 8); }},
      {"value 2 f32[s0] stands for state 'w' f32[4]",
       [](Artifact& a) { Step(a).mutable_state_updates(0)->set_value(2); }},
      {"state 'w' is updated twice", [](Artifact& a) { *Step(a).add_state_updates() = Step(a).state_updates(0); }},
      {"constant 'w' is updated", [](Artifact& a) { a.mutable_states(0)->set_role(State::CONSTANT); }},
      {"3 of 2 outputs are saved", [](Artifact& a) { a.mutable_methods(1)->set_num_saved(3); }},
      {"has no backward method", [](Artifact& a) { a.mutable_methods(1)->clear_backward_method(); }},
      {"'elsewhere' does not exist", [](Artifact& a) { a.mutable_methods(1)->set_backward_method("elsewhere"); }},
      {"is already the backward method of another method",
       [](Artifact& a) { Step(a).set_backward_method("backward"); }},
      {"it has a differentiable backward, but no backward method",
       [](Artifact& a) { a.mutable_methods(0)->set_differentiable_backward("backward"); }},
      {"its differentiable backward 'elsewhere' does not exist",
       [](Artifact& a) { a.mutable_methods(1)->set_differentiable_backward("elsewhere"); }},
      {"its differentiable backward 'backward' is the backward method of another method",
       [](Artifact& a) { a.mutable_methods(1)->set_differentiable_backward("backward"); }},
      {"its differentiable backward 'step' comes before it",
       [](Artifact& a) { a.mutable_methods(1)->set_differentiable_backward("step"); }},
      {"its differentiable backward 'again' returns 0 gradients, 'backward' 1",
       [](Artifact& a) {
         a.mutable_methods(1)->set_differentiable_backward("again");
         a.add_methods()->set_name("again");
       }},
      {"its backward method has a backward method",
       [](Artifact& a) { a.mutable_methods(2)->set_backward_method("step"); }},
      {"saved value 0 is f32[4], 'backward' takes f32[5]",
       [](Artifact& a) { a.mutable_methods(2)->mutable_values(0)->mutable_type()->set_sizes(0, "5"); }},
      {"size expression 'many'", [](Artifact& a) { Step(a).set_rng_blocks("many"); }},
      {"more names than inputs",
       [](Artifact& a) {
         Step(a).add_input_names("x");
         Step(a).add_input_names("y");
       }},
      {"reference 0: no method is called 'gone'", [](Artifact& a) { a.mutable_references(0)->set_method("gone"); }},
      {"reference 0: 1 inputs and 0 outputs; 'forward' has 1 and 1",
       [](Artifact& a) { a.mutable_references(0)->clear_outputs(); }},
      {"reference 0: segment 3 of 1", [](Artifact& a) { a.mutable_references(0)->mutable_inputs(0)->set_segment(3); }},
      {"reference 0: no state is called 'v'",
       [](Artifact& a) { a.mutable_references(0)->add_states_after()->set_state("v"); }},
  };
  return faults;
}

TEST(ArtifactVerifierTest, ASoundArtifactPasses) {
  const absl::Status status = VerifyArtifact(Sound());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(VerifyArtifact(Artifact()).ok());
}

TEST(ArtifactVerifierTest, EveryFaultIsNamed) {
  for (const Fault& fault : Faults()) {
    Artifact artifact = Sound();
    fault.make(artifact);
    const absl::Status status = VerifyArtifact(artifact);
    ASSERT_FALSE(status.ok()) << fault.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(fault.message));
  }
}

TEST(ArtifactVerifierTest, ABackwardsReferenceTakesOnlyTangents) {
  Artifact artifact = Sound();
  artifact.mutable_references(0)->set_method("backward");
  EXPECT_TRUE(VerifyArtifact(artifact).ok());
}

TEST(ArtifactVerifierTest, OneGeneratorIsAllowed) {
  Artifact artifact = Sound();
  for (const char* name : {"rng", "rng2"}) {
    State& state = *artifact.add_states();
    state.set_name(name);
    state.set_role(State::RNG);
    state.mutable_type()->set_dtype(serialization::DTYPE_I64);
    state.mutable_type()->add_sizes("2");
    state.set_fill(0);
  }
  EXPECT_THAT(std::string(VerifyArtifact(artifact).message()), HasSubstr("2 states have the role RNG"));
}

}  // namespace
}  // namespace cotan
