// SPDX-License-Identifier: Apache-2.0

#include "runtime/testing/function_builder.h"

#include <utility>

#include "gtest/gtest.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan::testing {

InputAliasInfo Plain() {
  InputAliasInfo info;
  info.is_leaf = true;
  return info;
}

InputAliasInfo LeafInput() {
  InputAliasInfo info = Plain();
  info.requires_grad = true;
  return info;
}

InputAliasInfo NonLeafInput() {
  InputAliasInfo info;
  info.requires_grad = true;
  return info;
}

InputAliasInfo Mutated(InputAliasInfo info) {
  info.mutates_data = true;
  info.mutations_hidden_from_autograd = false;
  return info;
}

OutputAliasInfo Fresh(bool requires_grad) {
  OutputAliasInfo info;
  info.requires_grad = info.requires_grad_for_backward = requires_grad;
  return info;
}

OutputAliasInfo AliasOf(OutputType type, int base, bool requires_grad, std::vector<ViewStep> steps) {
  OutputAliasInfo info = Fresh(requires_grad);
  info.output_type = type;
  info.base_index = base;
  info.view_steps = std::move(steps);
  return info;
}

TensorGeometry RowMajor(const std::vector<int64_t>& sizes) {
  TensorGeometry geometry;
  geometry.dtype = DType::kFloat32;
  geometry.sizes.assign(sizes.begin(), sizes.end());
  for (int64_t stride : ContiguousStrides(sizes)) geometry.strides.push_back(stride);
  return geometry;
}

void SetMetadata(MethodBuilder& method, const ViewAndMutationMetaFields& facts) {
  const absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::Create(facts);
  ASSERT_TRUE(meta.ok()) << meta.status();
  *method.proto().mutable_metadata() = meta->ToProto();
}

void SetProgramMetadata(MethodBuilder& method, const ViewAndMutationMetaFields& facts) {
  const absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::Create(facts);
  ASSERT_TRUE(meta.ok()) << meta.status();
  *method.proto().mutable_program_metadata() = meta->ToProto();
}

void Pair(MethodBuilder& forward, MethodBuilder& backward, int num_saved,
          const std::vector<uint32_t>& gradient_inputs) {
  forward.proto().set_num_saved(static_cast<uint32_t>(num_saved));
  forward.proto().set_backward_method(backward.proto().name());
  for (uint32_t input : gradient_inputs) backward.proto().add_gradient_inputs(input);
}

uint32_t Times(MethodBuilder& m, uint32_t a, uint32_t b) {
  return m.Pointwise(m.SizesOf(a), {a, b}, [](ExprBuilder& e) { return e.Mul(0, 1); });
}

uint32_t Times(MethodBuilder& m, uint32_t a, double factor) {
  return m.Pointwise(m.SizesOf(a), {a}, [&](ExprBuilder& e) { return e.Mul(0, e.Constant(DType::kFloat32, factor)); });
}

uint32_t Plus(MethodBuilder& m, uint32_t a, uint32_t b) {
  return m.Pointwise(m.SizesOf(a), {a, b}, [](ExprBuilder& e) { return e.Add(0, 1); });
}

uint32_t Plus(MethodBuilder& m, uint32_t a, double summand) {
  return m.Pointwise(m.SizesOf(a), {a}, [&](ExprBuilder& e) { return e.Add(0, e.Constant(DType::kFloat32, summand)); });
}

ProgramBuilder Square() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  const uint32_t x = f.Input("x", DType::kFloat32, {"2"});
  f.proto().add_outputs(Times(f, x, x));
  f.proto().add_outputs(x);
  MethodBuilder b = program.AddMethod("b");
  const uint32_t saved = b.Input("saved", DType::kFloat32, {"2"});
  const uint32_t tangent = b.Input("tangent", DType::kFloat32, {"2"});
  b.proto().add_outputs(Times(b, Times(b, saved, 2.0), tangent));
  Pair(f, b, 1, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.deterministic = false;
  facts.input_info = {LeafInput()};
  facts.output_info = {Fresh(true)};
  facts.saved = SavedForBackward();
  facts.saved->num_tensors = 1;
  facts.saved->is_input = {true};
  SetMetadata(f, facts);
  return program;
}

ProgramBuilder SquareOfOrderTwo() {
  ProgramBuilder program = Square();
  MethodBuilder g = program.AddMethod("g");
  const uint32_t x = g.Input("x", DType::kFloat32, {"2"});
  const uint32_t t = g.Input("tangent", DType::kFloat32, {"2"});
  g.proto().add_outputs(Times(g, Times(g, x, 2.0), t));
  g.proto().add_outputs(x);
  g.proto().add_outputs(t);
  MethodBuilder b = program.AddMethod("gb");
  const uint32_t saved_x = b.Input("saved.x", DType::kFloat32, {"2"});
  const uint32_t saved_t = b.Input("saved.t", DType::kFloat32, {"2"});
  const uint32_t tangent = b.Input("tangent", DType::kFloat32, {"2"});
  b.proto().add_outputs(Times(b, Times(b, saved_t, 2.0), tangent));
  b.proto().add_outputs(Times(b, Times(b, saved_x, 2.0), tangent));
  Pair(g, b, 2, {0, 1});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {LeafInput(), LeafInput()};
  facts.output_info = {Fresh(true)};
  facts.saved = SavedForBackward();
  facts.saved->num_tensors = 2;
  facts.saved->is_input = {true, true};
  SetMetadata(g, facts);
  program.artifact().mutable_methods(0)->set_differentiable_backward("g");
  return program;
}

ProgramBuilder TripledSquare() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  const uint32_t tripled = Times(f, f.Input("x", DType::kFloat32, {"2"}), 3.0);
  f.proto().add_outputs(Times(f, tripled, tripled));
  f.proto().add_outputs(tripled);
  MethodBuilder b = program.AddMethod("b");
  const uint32_t saved = b.Input("saved", DType::kFloat32, {"2"});
  const uint32_t scaled = Times(b, saved, 6.0);
  b.proto().add_outputs(Times(b, scaled, b.Input("tangent", DType::kFloat32, {"2"})));
  Pair(f, b, 1, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {LeafInput()};
  facts.output_info = {Fresh(true)};
  facts.saved = SavedForBackward();
  facts.saved->num_tensors = 1;
  facts.saved->donated = {0};
  SetMetadata(f, facts);
  return program;
}

ProgramBuilder TwoParts() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  MethodBuilder b = program.AddMethod("b");
  for (const double factor : {2.0, 3.0}) {
    f.proto().add_outputs(Times(f, f.Input("x", DType::kFloat32, {"2"}), factor));
    b.proto().add_outputs(Times(b, b.Input("tangent", DType::kFloat32, {"2"}), factor));
  }
  Pair(f, b, 0, {0, 1});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {LeafInput(), LeafInput()};
  facts.output_info = {Fresh(true), Fresh(true)};
  SetMetadata(f, facts);
  return program;
}

ProgramBuilder MutatesNonLeaf() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  const uint32_t written = Times(f, f.Input("x", DType::kFloat32, {"2"}), 2.0);
  f.proto().add_outputs(written);
  f.proto().add_outputs(Plus(f, written, 1.0));
  MethodBuilder b = program.AddMethod("b");
  const uint32_t of_x = b.Input("tangent.x", DType::kFloat32, {"2"});
  const uint32_t of_output = b.Input("tangent.output", DType::kFloat32, {"2"});
  b.proto().add_outputs(Times(b, Plus(b, of_x, of_output), 2.0));
  Pair(f, b, 0, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {Mutated(NonLeafInput())};
  facts.output_info = {Fresh(true)};
  SetMetadata(f, facts);
  return program;
}

}  // namespace cotan::testing
