// SPDX-License-Identifier: Apache-2.0

#include "aot/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "aot/aotautograd/graph_interpreter.h"
#include "aot/capture/tensor_data.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "aot/partitioner/partition.h"

namespace cotan::aot {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Tensors = std::vector<at::Tensor>;

at::Tensor Parameter() { return torch::rand({3}).requires_grad_(true); }

// w is a parameter or a buffer, x an input.
ExportOptions Joint(int loss = 0) {
  ExportOptions options;
  options.trace_joint = true;
  options.output_loss_index = loss;
  options.num_parameters_and_buffers = 1;
  return options;
}

std::string Refusal(const TensorFunction& function, const Tensors& examples, const ExportOptions& options) {
  const auto exported = ExportTensorFunction(function, examples, options);
  if (exported.ok()) return "nothing was refused";
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kInvalidArgument) << exported.status();
  return std::string(exported.status().message());
}

std::string JointRefusal(const TensorFunction& function, const Tensors& examples, bool trace_joint) {
  const auto exported = ExportJointTensorFunction(function, examples, trace_joint);
  return exported.ok() ? "nothing was refused" : std::string(exported.status().message());
}

std::vector<std::string> Strings(const auto& field) { return {field.begin(), field.end()}; }

std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.op);
  return ops;
}

std::vector<std::string> TargetsOf(const auto& pairs) {
  std::vector<std::string> targets;
  for (const auto& pair : pairs) targets.push_back(pair.target());
  return targets;
}

Tensors Loss(const Tensors& in) { return {(in[0] * in[1]).sum(), in[1] + 1}; }

TEST(ExportTest, JointGraphHasGradientsAndNoTangents) {
  const at::Tensor w = Parameter(), x = torch::rand({3});
  const auto exported = ExportTensorFunction(Loss, {w, x}, Joint());
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_TRUE(VerifyGraph(exported->graph).ok());
  ASSERT_EQ(exported->graph.inputs().size(), 2u);
  EXPECT_EQ(exported->graph.inputs()[0].kind, InputKind::kParameter);
  const serialization::GraphSignature& signature = exported->signature;
  EXPECT_THAT(Strings(signature.parameters()), ElementsAre("p0"));
  EXPECT_THAT(Strings(signature.user_inputs()), ElementsAre("input.0"));
  EXPECT_THAT(Strings(signature.user_outputs()), ElementsAre("loss", "output.1"));
  EXPECT_EQ(signature.loss_output(), "loss");
  ASSERT_EQ(signature.gradients_to_parameters_size(), 1);
  EXPECT_EQ(signature.gradients_to_parameters(0).target(), "p0");

  const auto results = InterpretGraph(exported->graph, {w.detach(), x});
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  EXPECT_TRUE(torch::allclose((*results)[0], (w.detach() * x).sum()));
  EXPECT_TRUE(torch::allclose((*results)[2], x));
}

TEST(ExportTest, InferenceGraphReturnsNewContentsOfBuffers) {
  ExportOptions options;
  options.num_parameters_and_buffers = 1;
  const auto exported = ExportTensorFunction(
      [](const Tensors& in) -> Tensors {
        at::Tensor buffer = in[0];
        buffer.add_(in[1]);
        return {buffer * 2};
      },
      {torch::rand({3}), torch::rand({3})}, options);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(Strings(exported->signature.buffers()), ElementsAre("p0"));
  ASSERT_EQ(exported->signature.buffers_to_mutate_size(), 1);
  EXPECT_EQ(exported->signature.buffers_to_mutate(0).target(), "p0");
  ASSERT_EQ(exported->graph.outputs().size(), 2u);
  EXPECT_EQ(exported->graph.outputs()[0].kind, OutputKind::kMutatedInput);
}

TEST(ExportTest, CallablesAreExportedAsTheyAre) {
  const at::Tensor w = Parameter(), x = torch::rand({3});
  const auto loss = ExportFunction(
      [](const at::Tensor& weight, const at::Tensor& input) {
        return std::make_pair((weight * input).sum(), std::vector<at::Tensor>{input + 1, input * 2});
      },
      {w, x}, Joint());
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_THAT(Strings(loss->signature.user_outputs()), ElementsAre("loss", "output.1", "output.2"));
  EXPECT_EQ(loss->signature.gradients_to_parameters_size(), 1);

  const auto joint = ExportJoint([](const at::Tensor& weight, const at::Tensor& input) { return weight * input; },
                                 {w, x}, /*trace_joint=*/true);
  ASSERT_TRUE(joint.ok()) << joint.status();
  EXPECT_EQ(joint->graph.inputs().back().kind, InputKind::kTangent);
  EXPECT_THAT(Strings(joint->signature.user_inputs()), ElementsAre("input.0", "input.1"));
}

TEST(ExportTest, ModulesExportTheirParametersByName) {
  struct Net : torch::nn::Module {
    Net() : layer(register_module("layer", torch::nn::Linear(3, 2))) {}
    at::Tensor forward(const at::Tensor& x) { return layer(x).pow(2).mean(); }
    torch::nn::Linear layer;
  };
  ExportOptions options;
  options.trace_joint = true;
  options.output_loss_index = 0;
  const auto exported = ExportModule([] { return std::make_shared<Net>(); }, {torch::rand({4, 3})}, options);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(Strings(exported->signature.parameters()), ElementsAre("layer.weight", "layer.bias"));
  EXPECT_EQ(exported->signature.gradients_to_parameters_size(), 2);
  EXPECT_EQ(exported->states.size(), 2u);
}

// A convolution, a batch norm and a relu; the loss and a detached result.
struct ConvolvedNet : torch::nn::Module {
  ConvolvedNet()
      : conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 1).stride(2)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(3))) {}
  Tensors forward(const at::Tensor& x) {
    const at::Tensor y = torch::relu(norm(conv(x)));
    return {y.sum(), y.detach()};
  }
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
};

TEST(ExportTest, StatesResultsAndGradientsOfANormalizedConvolutionHaveTheirNames) {
  const auto make = [] { return std::make_shared<ConvolvedNet>(); };
  ExportOptions options;
  options.trace_joint = true;
  options.output_loss_index = 0;
  const auto joint = ExportModule(make, {torch::rand({1, 1, 3, 3})}, options);
  ASSERT_TRUE(joint.ok()) << joint.status();
  const serialization::GraphSignature& signature = joint->signature;
  EXPECT_EQ(joint->graph.inputs().size(), 8u);
  EXPECT_EQ(joint->graph.outputs().size(), 9u);
  EXPECT_THAT(Strings(signature.parameters()), ElementsAre("conv.weight", "conv.bias", "norm.weight", "norm.bias"));
  const std::vector<std::string> buffers = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"};
  EXPECT_EQ(Strings(signature.buffers()), buffers);
  EXPECT_THAT(Strings(signature.user_inputs()), ElementsAre("input.0"));
  EXPECT_THAT(Strings(signature.user_outputs()), ElementsAre("loss", "output.1"));
  EXPECT_EQ(signature.loss_output(), "loss");
  EXPECT_EQ(TargetsOf(signature.buffers_to_mutate()), buffers);
  EXPECT_EQ(TargetsOf(signature.gradients_to_parameters()), Strings(signature.parameters()));

  const auto inference = ExportModule(make, {torch::rand({1, 1, 3, 3})}, {});
  ASSERT_TRUE(inference.ok()) << inference.status();
  EXPECT_EQ(inference->graph.outputs().size(), 5u);
  EXPECT_EQ(TargetsOf(inference->signature.buffers_to_mutate()), buffers);
  EXPECT_EQ(inference->signature.user_outputs_size(), 2);
  EXPECT_EQ(inference->signature.gradients_to_parameters_size(), 0);
}

TEST(ExportTest, WrittenBuffersComeBeforeWrittenInputs) {
  ExportOptions options;
  options.num_parameters_and_buffers = 1;
  const auto exported = ExportTensorFunction(
      [](const Tensors& in) -> Tensors {
        at::Tensor buffer = in[0], x = in[1], y = in[2];
        x.add_(4);
        y.add_(4);
        buffer.add_(5);
        return {x + y + buffer};
      },
      {torch::zeros({3}), torch::zeros({3}), torch::ones({3})}, options);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(TargetsOf(exported->signature.buffers_to_mutate()), ElementsAre("p0"));
  EXPECT_THAT(TargetsOf(exported->signature.user_inputs_to_mutate()), ElementsAre("input.0", "input.1"));
  const auto results = InterpretGraph(exported->graph, {torch::zeros({3}), torch::zeros({3}), torch::ones({3})});
  ASSERT_TRUE(results.ok()) << results.status();
  std::vector<float> firsts;
  for (const at::Tensor& result : *results) firsts.push_back(result[0].item<float>());
  EXPECT_THAT(firsts, ElementsAre(5, 4, 5, 14));
}

// Gradients take composite ops apart.
TEST(ExportTest, JointGraphsNeedNoDecompositions) {
  const Tensors given = {Parameter(), Parameter()};
  const auto joint = ExportJointTensorFunction(
      [](const Tensors& in) -> Tensors { return {at::matmul(in[0], in[1]) + (in[0] * in[1]).sum()}; }, given,
      /*trace_joint=*/true);
  ASSERT_TRUE(joint.ok()) << joint.status();
  ASSERT_EQ(joint->graph.outputs().size(), 3u);
  EXPECT_THAT(OpsOf(joint->graph), Not(Contains(HasSubstr("matmul"))));
  const auto results = InterpretGraph(joint->graph, {given[0].detach(), given[1].detach(), torch::ones({})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(torch::allclose((*results)[1], 2 * given[1].detach()));
  EXPECT_TRUE(torch::allclose((*results)[2], 2 * given[0].detach()));
}

// The forward takes and returns what the function does, plus what it saves; the backward gets that and the tangents.
TEST(ExportTest, SimpleJointGraphsMayBePartitioned) {
  const TensorFunction function = [](const Tensors& in) -> Tensors { return {(in[0] * in[1]).sin(), in[1].exp()}; };
  const Tensors given = {Parameter(), Parameter()}, plain = {given[0].detach(), given[1].detach()};
  const auto joint = ExportJointTensorFunction(function, given, /*trace_joint=*/true);
  ASSERT_TRUE(joint.ok()) << joint.status();
  const auto parts = Partition(joint->graph, {.partitioner = Partitioner::kDefault});
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->forward.inputs().size(), 2u);
  const auto results = InterpretGraph(parts->forward, plain);
  ASSERT_TRUE(results.ok()) << results.status();
  const Tensors expected = function(given);
  EXPECT_TRUE(torch::equal((*results)[0], expected[0]));
  EXPECT_TRUE(torch::equal((*results)[1], expected[1]));

  const Tensors tangents = {torch::rand({3}), torch::rand({3})};
  Tensors arguments;
  size_t saved = 2, tangent = 0;
  for (const GraphInput& input : parts->backward.inputs()) {
    if (input.kind == InputKind::kSaved) {
      arguments.push_back((*results)[saved++]);
    } else if (input.kind == InputKind::kTangent) {
      arguments.push_back(tangents[tangent++]);
    } else {
      arguments.push_back(plain[static_cast<size_t>(input.index)]);
    }
  }
  EXPECT_EQ(saved, results->size());
  const auto gradients = InterpretGraph(parts->backward, arguments);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Tensors eager = torch::autograd::grad(expected, given, tangents);
  ASSERT_EQ(gradients->size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(torch::allclose((*gradients)[i], eager[i])) << i;
}

TEST(ExportTest, RefusesWhatIsNoLoss) {
  const Tensors examples = {Parameter(), torch::rand({3})};
  EXPECT_THAT(Refusal([](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }, examples, Joint()),
              HasSubstr("output 0 is to be the loss, but is not a scalar: it is f32[3]"));
  EXPECT_THAT(Refusal(Loss, examples, Joint(5)), HasSubstr("output 0 requires grad, but the loss is output 5"));
  EXPECT_THAT(Refusal(
                  [](const Tensors& in) -> Tensors {
                    return {(in[0].detach() * in[1]).sum(), in[1] + 1};
                  },
                  examples, Joint(5)),
              HasSubstr("the loss is output 5, but the function returns 2 tensors"));
  EXPECT_THAT(Refusal([](const Tensors& in) -> Tensors { return {(in[0].detach() * in[1]).sum()}; }, examples, Joint()),
              HasSubstr("output 0 is to be the loss, but does not require grad"));
  EXPECT_THAT(Refusal(
                  [](const Tensors& in) -> Tensors {
                    return {(in[0] * in[1]).sum(), in[0] * 2};
                  },
                  examples, Joint()),
              HasSubstr("output 1 requires grad, but the loss is output 0"));
  ExportOptions without_index = Joint();
  without_index.output_loss_index.reset();
  EXPECT_THAT(Refusal(Loss, examples, without_index), HasSubstr("trace_joint needs output_loss_index"));
}

TEST(ExportTest, RefusesParametersWithoutGradient) {
  EXPECT_THAT(Refusal([](const Tensors& in) -> Tensors { return {in[1].sum() + in[0].sum()}; },
                      {Parameter(), Parameter()}, Joint()),
              "nothing was refused");
  EXPECT_THAT(Refusal([](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {Parameter(), Parameter()}, Joint()),
              HasSubstr("'input.0' requires grad, but the loss does not depend on it"));
}

TEST(ExportTest, RefusesPreDispatch) {
  ExportOptions options = Joint();
  options.pre_dispatch = true;
  EXPECT_THAT(Refusal(Loss, {Parameter(), torch::rand({3})}, options), HasSubstr("pre_dispatch"));
}

TEST(ExportTest, RefusesDynamicDimensions) {
  ExportOptions options;
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "batch"}};
  const auto exported =
      ExportTensorFunction([](const Tensors& in) -> Tensors { return {in[0] + 1}; }, {torch::rand({3})}, options);
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(exported.status().message(), HasSubstr("dynamic_dims are not supported"));
}

TEST(ExportTest, DecomposesOpsOfTheForwardAndOfTheBackward) {
  ExportOptions options = Joint();
  options.decompositions["aten.tanh.default"] = [](const std::vector<c10::IValue>& a) -> std::vector<c10::IValue> {
    return {at::sin(a[0].toTensor())};
  };
  options.decompositions["aten.tanh_backward.default"] =
      [](const std::vector<c10::IValue>& a) -> std::vector<c10::IValue> {
    return {a[0].toTensor() * at::cos(a[1].toTensor())};
  };
  const auto exported =
      ExportTensorFunction([](const Tensors& in) -> Tensors { return {in[0].tanh().sum()}; }, {Parameter()}, options);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(OpsOf(exported->graph),
              AllOf(Contains("aten.sin.default"), Contains("aten.cos.default"), Not(Contains(HasSubstr("tanh")))));
  const auto joint = ExportJointTensorFunction([](const Tensors& in) -> Tensors { return {in[0].tanh()}; },
                                               {Parameter()}, true, options.decompositions);
  ASSERT_TRUE(joint.ok()) << joint.status();
  EXPECT_THAT(OpsOf(joint->graph), Not(Contains(HasSubstr("tanh"))));
}

TEST(ExportTest, RefusesWritesToWhatRequiresGrad) {
  EXPECT_THAT(Refusal(
                  [](const Tensors& in) -> Tensors {
                    {
                      const at::NoGradGuard no_grad;
                      at::Tensor w = in[0];
                      w.mul_(2);
                    }
                    return {(in[0] * in[1]).sum()};
                  },
                  {Parameter(), torch::rand({3})}, Joint()),
              HasSubstr("'p0' requires grad and is written to"));
}

TEST(ExportTest, RefusesWritesToParametersOfJointGraphs) {
  struct Net : torch::nn::Module {
    Net() : layer(register_module("layer", torch::nn::Linear(3, 2))) { layer->bias.requires_grad_(false); }
    at::Tensor forward(const at::Tensor& x) {
      layer->bias.mul_(2);
      return layer(x).mean();
    }
    torch::nn::Linear layer;
  };
  const auto export_net = [](const ExportOptions& options) {
    return ExportModule([] { return std::make_shared<Net>(); }, {torch::rand({4, 3})}, options);
  };
  ExportOptions joint = Joint();
  joint.num_parameters_and_buffers = 0;
  EXPECT_THAT(std::string(export_net(joint).status().message()),
              HasSubstr("'layer.bias' is a parameter and is written to"));
  const auto inference = export_net({});
  ASSERT_TRUE(inference.ok()) << inference.status();
  ASSERT_EQ(inference->signature.parameters_to_mutate_size(), 1);
  EXPECT_EQ(inference->signature.parameters_to_mutate(0).target(), "layer.bias");
}

TEST(ExportTest, RefusesChangesOfSizesAndStrides) {
  const TensorFunction transpose = [](const Tensors& in) -> Tensors {
    at::Tensor x = in[0];
    x.t_();
    return {x + 1};
  };
  EXPECT_THAT(Refusal(transpose, {torch::rand({2, 3})}, {}),
              HasSubstr("input 0 has other sizes, strides or storage when the function returns"));
  EXPECT_THAT(JointRefusal(transpose, {torch::rand({2, 3})}, false), HasSubstr("other sizes, strides or storage"));
}

TEST(ExportTest, RefusesInputsThatAreOneTensorOrShareMemory) {
  const TensorFunction write_first = [](const Tensors& in) -> Tensors {
    at::Tensor x = in[0];
    x.mul_(2);
    return {x + in[1]};
  };
  const at::Tensor whole = torch::rand({6});
  EXPECT_THAT(Refusal(write_first, {whole.slice(0, 0, 4), whole.slice(0, 2, 6)}, {}),
              HasSubstr("inputs share memory, and one of them is written to"));
  EXPECT_THAT(Refusal(write_first, {whole, whole}, {}), HasSubstr("the same tensor is given as two inputs"));
}

TEST(ExportTest, SimpleJointGraphHasATangentForEachOutput) {
  const auto exported = ExportJointTensorFunction([](const Tensors& in) -> Tensors { return {in[0] * in[1]}; },
                                                  {Parameter(), torch::rand({3})}, true);
  ASSERT_TRUE(exported.ok()) << exported.status();
  ASSERT_EQ(exported->graph.inputs().size(), 3u);
  EXPECT_EQ(exported->graph.inputs()[2].kind, InputKind::kTangent);
  EXPECT_EQ(exported->graph.outputs().size(), 2u);
}

TEST(ExportTest, SimpleJointRefusesWritesAndAliases) {
  const at::Tensor x = torch::rand({2, 3});
  EXPECT_THAT(JointRefusal([](const Tensors& in) -> Tensors { return {in[0]}; }, {x}, false),
              HasSubstr("output 0 is an alias of another tensor (is_input)"));
  EXPECT_THAT(JointRefusal([](const Tensors& in) -> Tensors { return {in[0].view({-1})}; }, {x}, false),
              HasSubstr("(alias_of_input)"));
  EXPECT_THAT(JointRefusal([](const Tensors& in) -> Tensors { return {(in[0] * 2).t()}; },
                           {torch::rand({2, 3}).requires_grad_(true)}, true),
              HasSubstr("(unsafe_view_alias)"));
  const TensorFunction write = [](const Tensors& in) -> Tensors {
    at::Tensor y = in[0];
    y.mul_(2);
    return {y + 1};
  };
  EXPECT_THAT(JointRefusal(write, {x}, false), HasSubstr("input 0 is written to"));
  EXPECT_THAT(JointRefusal(write, {Parameter().clone()}, true), HasSubstr("input 0 requires grad and is written to"));
}

}  // namespace
}  // namespace cotan::aot
