// SPDX-License-Identifier: Apache-2.0

// Tests the metadata and results of artifacts for functions that write to their inputs and
// functions whose outputs share memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "aot/compile.h"
#include "serialization/container/container.h"
#include "serialization/verifier/artifact_verifier.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;
using ::testing::ElementsAre;
using Tensors = std::vector<at::Tensor>;

std::vector<std::string> Strings(const auto& field) { return {field.begin(), field.end()}; }

Artifact Compile(const TensorFunction& function, const Tensors& examples, const CompileOptions& options = {}) {
  const auto model = CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const Artifact artifact = ArtifactFile::Parse(model->bytes())->artifact();
  const absl::Status verified = VerifyArtifact(artifact);
  EXPECT_TRUE(verified.ok()) << verified;
  return artifact;
}

at::Tensor Leaf() { return torch::rand({2, 3}).requires_grad_(true); }
at::Tensor NonLeafTensor() { return Leaf().clone(); }

TEST(CompileAliasingTest, AWrittenInputIsReturnedAndHasATangent) {
  const Artifact artifact = Compile(
      [](const Tensors& in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {x * 3};
      },
      {NonLeafTensor()});
  ASSERT_EQ(artifact.methods_size(), 2);
  EXPECT_THAT(Strings(artifact.methods(0).output_names()), ElementsAre("input.0", "output.0"));
  EXPECT_EQ(artifact.methods(0).input_updates_size(), 0);
  EXPECT_THAT(
      Strings(artifact.methods(1).input_names()),
      ElementsAre("tangent.input.0", "tangent.output.0", "tangent.input.0.is_defined", "tangent.output.0.is_defined"));
  EXPECT_EQ(artifact.methods(1).outputs_size(), 1);
}

TEST(CompileAliasingTest, BackwardTellsWhoseGradientsItReturns) {
  const Artifact artifact = Compile([](const Tensors& in) -> Tensors { return {in[0] * in[1] * in[2]}; },
                                    {torch::rand({2, 3}), Leaf(), Leaf()});
  ASSERT_EQ(artifact.methods_size(), 2);
  EXPECT_THAT(artifact.methods(1).gradient_inputs(), ElementsAre(1, 2));
  EXPECT_FALSE(artifact.methods(0).traced_without_grad());
}

TEST(CompileAliasingTest, BackwardTellsWhatGradientsDependOnUnseen) {
  const Artifact artifact = Compile(
      [](const Tensors& in) -> Tensors {
        return {(in[0] * 2).zero_(), in[0] * 3};
      },
      {Leaf()});
  ASSERT_EQ(artifact.methods_size(), 2);
  ASSERT_EQ(artifact.methods(1).structural_tangents_size(), 1);
  EXPECT_EQ(artifact.methods(1).structural_tangents(0).gradient(), 0u);
  EXPECT_THAT(artifact.methods(1).structural_tangents(0).tangents(), ElementsAre(0));
}

TEST(CompileAliasingTest, ForwardTellsWhichResultsAreComputedFromOthers) {
  const Artifact artifact = Compile(
      [](const Tensors& in) -> Tensors {
        const at::Tensor h = in[0] * 2;
        return {h * h, in[0] * 3, h};
      },
      {Leaf()});
  ASSERT_EQ(artifact.methods_size(), 2);
  ASSERT_EQ(artifact.methods(0).result_dependencies_size(), 1);
  EXPECT_EQ(artifact.methods(0).result_dependencies(0).result(), 0u);
  EXPECT_THAT(artifact.methods(0).result_dependencies(0).sources(), ElementsAre(2));
}

TEST(CompileAliasingTest, ViewsMadeUnderNoGradHaveNoGradient) {
  const at::Tensor leaf = Leaf();
  const at::Tensor view = [&] {
    const at::NoGradGuard no_grad;
    return leaf.t();
  }();
  const Artifact artifact = Compile([](const Tensors& in) -> Tensors { return {in[0].t() * in[1]}; }, {Leaf(), view});
  ASSERT_EQ(artifact.methods_size(), 2);
  EXPECT_THAT(artifact.methods(0).no_grad_view_inputs(), ElementsAre(1));
  EXPECT_THAT(artifact.methods(1).gradient_inputs(), ElementsAre(0));
}

TEST(CompileAliasingTest, GradientsOfABaseComeBeforeTheOthers) {
  const at::Tensor all = torch::rand({6}).requires_grad_(true).clone();
  const Artifact artifact = Compile(
      [](const Tensors& in) -> Tensors {
        at::Tensor written = in[1];
        written.mul_(2);
        return {in[0] * in[1] * in[2]};
      },
      {torch::rand({4}).requires_grad_(true), all.slice(0, 0, 4), all.slice(0, 2, 6)});
  ASSERT_EQ(artifact.methods_size(), 2);
  EXPECT_EQ(artifact.methods(0).input_binding().num_bases(), 1u);
  EXPECT_THAT(artifact.methods(1).gradient_inputs(), ::testing::UnorderedElementsAre(0, 1));
}

TEST(CompileAliasingTest, TheGradModeOfTheTraceIsTold) {
  const at::NoGradGuard no_grad;
  const Artifact artifact = Compile([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {Leaf()});
  ASSERT_EQ(artifact.methods_size(), 1);
  EXPECT_TRUE(artifact.methods(0).traced_without_grad());
}

TEST(CompileAliasingTest, AnInputThatRequiresNoGradIsWrittenByTheProgramUnlessAskedNotTo) {
  const TensorFunction function = [](const Tensors& in) -> Tensors {
    at::Tensor x = in[0];
    x.mul_(2);
    return {x * 3};
  };
  const Artifact written = Compile(function, {torch::rand({2, 3})});
  ASSERT_EQ(written.methods_size(), 1);
  EXPECT_EQ(written.methods(0).input_updates_size(), 1);
  EXPECT_EQ(written.methods(0).outputs_size(), 1);
  CompileOptions options;
  options.tracing.keep_input_mutations = false;
  const Artifact returned = Compile(function, {torch::rand({2, 3})}, options);
  ASSERT_EQ(returned.methods_size(), 1);
  EXPECT_EQ(returned.methods(0).input_updates_size(), 0);
  EXPECT_EQ(returned.methods(0).outputs_size(), 2);
}

TEST(CompileAliasingTest, AViewOfAnInputNeedsNoProgram) {
  const Artifact artifact = Compile(
      [](const Tensors& in) -> Tensors {
        return {in[0].view({-1}), in[0]};
      },
      {NonLeafTensor()});
  ASSERT_EQ(artifact.methods_size(), 1);
  const Method& forward = artifact.methods(0);
  EXPECT_EQ(forward.outputs_size(), 0);
  EXPECT_EQ(forward.ops_size(), 0);
  EXPECT_THAT(Strings(forward.signature().user_outputs()), ElementsAre("output.0", "output.1"));
  ASSERT_EQ(forward.metadata().output_info_size(), 2);
  EXPECT_EQ(forward.metadata().output_info(1).output_type(), serialization::IS_INPUT);
}

}  // namespace
}  // namespace cotan::aot
