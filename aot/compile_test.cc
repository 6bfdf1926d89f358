// SPDX-License-Identifier: Apache-2.0

#include "aot/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "serialization/container/container.h"
#include "serialization/metadata/graph_signature.h"

namespace cotan::aot {
namespace {

namespace nn = torch::nn;
using serialization::Artifact;
using serialization::Method;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using Tensors = std::vector<at::Tensor>;

nn::Sequential SmallNet() {
  return nn::Sequential(nn::Linear(4, 8), nn::BatchNorm1d(8), nn::ReLU(), nn::Dropout(0.5), nn::Linear(8, 3));
}

at::Tensor CrossEntropy(const Tensors& outputs, const Tensors& targets) {
  return nn::functional::cross_entropy(outputs[0], targets[0]);
}

CompileOptions TrainOptions() {
  CompileOptions options;
  options.loss.function = CrossEntropy;
  options.loss.targets = {torch::tensor({0, 1, 2, 0, 1})};
  options.optimizer = OptimizerConfig{SgdOptions{.lr = 0.1, .momentum = 0.9}, {}, {}, {}};
  return options;
}

Tensors Examples() { return {torch::arange(20, torch::kFloat).view({5, 4}).sin()}; }

Artifact ArtifactOf(const CompiledModel& model) { return ArtifactFile::Parse(model.bytes())->artifact(); }

std::vector<std::string> MethodNames(const Artifact& artifact) {
  std::vector<std::string> names;
  for (const Method& method : artifact.methods()) names.push_back(method.name());
  return names;
}

std::vector<std::string> Strings(const auto& field) { return {field.begin(), field.end()}; }

TEST(CompileTest, ModuleHasAllMethods) {
  const auto model = CompileModule(SmallNet, Examples(), TrainOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  const Artifact artifact = ArtifactOf(*model);
  EXPECT_THAT(MethodNames(artifact), ElementsAre("train_step", "forward", "backward", "eval"));

  const Method& step = artifact.methods(0);
  EXPECT_THAT(Strings(step.input_names()), ElementsAre("input.0", "target.0"));
  EXPECT_THAT(Strings(step.output_names()), ElementsAre("output.0", "loss"));
  EXPECT_EQ(step.signature().loss_output(), "loss");
  EXPECT_EQ(step.rng_blocks(), "10");  // 5 * 8 / 4
  EXPECT_TRUE(step.metadata().is_train());
  EXPECT_EQ(artifact.methods(1).backward_method(), "backward");
  EXPECT_THAT(Strings(artifact.methods(1).input_names()), ElementsAre("input.0"));
  EXPECT_FALSE(artifact.methods(3).metadata().is_train());
  EXPECT_EQ(artifact.methods(3).rng_blocks(), "");
}

TEST(CompileTest, SignaturesBindStatesAndTellTheStructure) {
  const auto model = CompileModule(SmallNet, Examples(), TrainOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  const Artifact artifact = ArtifactOf(*model);
  const auto step = GraphSignature::FromProto(artifact.methods(0).signature());
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_THAT(step->inputs_to_parameters,
              ElementsAre(NamedTarget{"parameter.0.weight", "0.weight"}, NamedTarget{"parameter.0.bias", "0.bias"},
                          NamedTarget{"parameter.1.weight", "1.weight"}, NamedTarget{"parameter.1.bias", "1.bias"},
                          NamedTarget{"parameter.4.weight", "4.weight"}, NamedTarget{"parameter.4.bias", "4.bias"}));
  EXPECT_THAT(step->inputs_to_buffers,
              ElementsAre(NamedTarget{"buffer.1.running_mean", "1.running_mean"},
                          NamedTarget{"buffer.1.running_var", "1.running_var"},
                          NamedTarget{"buffer.1.num_batches_tracked", "1.num_batches_tracked"}));
  EXPECT_EQ(step->in_spec, TreeSpec::FlatTuple(2)) << "the input and the target";
  EXPECT_EQ(step->out_spec, TreeSpec::FlatTuple(2)) << "the output and the loss";
  const auto eval = GraphSignature::FromProto(artifact.methods(3).signature());
  ASSERT_TRUE(eval.ok()) << eval.status();
  EXPECT_EQ(eval->in_spec, TreeSpec::FlatTuple(1));
  EXPECT_EQ(eval->inputs_to_parameters, step->inputs_to_parameters);
}

TEST(CompileTest, MethodsShareOneState) {
  const auto model = CompileModule(SmallNet, Examples(), TrainOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  const Artifact artifact = ArtifactOf(*model);
  std::vector<std::string> names;
  for (const auto& state : artifact.states()) names.push_back(state.name());
  EXPECT_THAT(names, ::testing::IsSupersetOf(
                         {"0.weight", "0.bias", "1.running_mean", "rng", "optimizer.0.weight.momentum_buffer"}));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(CompileTest, StoresWhatLibTorchComputes) {
  const auto model = CompileModule(SmallNet, Examples(), TrainOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  const Artifact artifact = ArtifactOf(*model);
  std::vector<std::string> methods;
  for (const auto& reference : artifact.references()) methods.push_back(reference.method());
  EXPECT_THAT(methods, ElementsAre("train_step", "forward", "backward", "eval"));
  // Three mutated buffers and six parameters.
  EXPECT_EQ(artifact.references(0).states_after_size(), 9);
  EXPECT_EQ(artifact.references(2).inputs_size(), 1);   // one tangent
  EXPECT_EQ(artifact.references(2).outputs_size(), 6);  // gradients

  CompileOptions without = TrainOptions();
  without.debug.store_references = false;
  const auto smaller = CompileModule(SmallNet, Examples(), without);
  ASSERT_TRUE(smaller.ok()) << smaller.status();
  EXPECT_EQ(ArtifactOf(*smaller).references_size(), 0);
}

TEST(CompileTest, EqualInputGivesEqualBytes) {
  const auto first = CompileModule(SmallNet, Examples(), TrainOptions());
  const auto second = CompileModule(SmallNet, Examples(), TrainOptions());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(first->bytes() == second->bytes());
}

TEST(CompileTest, AccumulationAddsItsMethods) {
  CompileOptions options = TrainOptions();
  options.methods.accumulate = true;
  options.methods.forward_backward = false;
  options.methods.eval = false;
  const auto model = CompileModule(SmallNet, Examples(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  const Artifact artifact = ArtifactOf(*model);
  EXPECT_THAT(MethodNames(artifact), ElementsAre("train_step", "accumulate", "apply_optimizer"));
  EXPECT_EQ(artifact.methods(2).inputs_size(), 0);
}

TEST(CompileTest, OnlyFrozenParametersAreNotUpdated) {
  CompileOptions options = TrainOptions();
  options.module.frozen = {"0.*"};
  const auto model = CompileModule(SmallNet, Examples(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  const Artifact artifact = ArtifactOf(*model);
  std::vector<std::string> updated;
  for (const auto& update : artifact.methods(0).state_updates()) {
    const auto& state = artifact.states(static_cast<int>(update.state()));
    if (state.role() == serialization::State::PARAMETER) updated.push_back(state.name());
  }
  EXPECT_THAT(updated, UnorderedElementsAre("1.weight", "1.bias", "4.weight", "4.bias"));
}

TEST(CompileTest, LossMayBeAnOutputOfTheModel) {
  struct WithLoss : nn::Module {
    WithLoss() : linear(register_module("linear", nn::Linear(4, 1))) {}
    std::tuple<at::Tensor, at::Tensor> forward(at::Tensor x, at::Tensor y) {
      const at::Tensor prediction = linear(x).squeeze(1);
      return {torch::mse_loss(prediction, y), prediction};
    }
    nn::Linear linear;
  };
  CompileOptions options;
  options.loss.output = 0;
  options.optimizer = OptimizerConfig{AdamW(), {}, {}, {}};
  const auto model =
      CompileModule([] { return std::make_shared<WithLoss>(); }, {Examples()[0], torch::ones({5})}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  const Artifact artifact = ArtifactOf(*model);
  EXPECT_THAT(MethodNames(artifact), ElementsAre("train_step", "forward", "backward", "eval"));
  EXPECT_THAT(Strings(artifact.methods(0).output_names()), ElementsAre("loss", "output.1"));
}

TEST(CompileTest, FunctionWithGradients) {
  const auto model =
      CompileFunction([](const at::Tensor& x, const at::Tensor& y) { return std::make_pair(x * y, x.exp()); },
                      {torch::rand({3}).requires_grad_(), torch::rand({3})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const Artifact artifact = ArtifactOf(*model);
  EXPECT_THAT(MethodNames(artifact), ElementsAre("forward", "backward"));
  EXPECT_THAT(Strings(artifact.methods(0).output_names()), ElementsAre("output.0", "output.1"));
}

TEST(CompileTest, FunctionWithoutGradientsIsInferenceOnly) {
  const auto model = CompileFunction([](const at::Tensor& x) { return x * 2; }, {torch::rand({3})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(MethodNames(ArtifactOf(*model)), ElementsAre("forward"));
}

// The stages "trace", "lower", ... of a method in the order of their numbers, which count from 00.
std::vector<std::string> StagesOf(const std::string& method, const std::string& folder) {
  std::map<std::string, std::string> stages;  // by number
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!absl::StartsWith(name, method + ".")) continue;
    const std::vector<std::string> parts = absl::StrSplit(name, absl::MaxSplits('.', 2));
    if (parts.size() < 3) continue;  // not of a stage: metadata, program, schedule
    EXPECT_TRUE(stages.emplace(parts[1], parts[2]).second) << name;
  }
  std::vector<std::string> in_order;
  for (const auto& [number, stage] : stages) {
    EXPECT_EQ(number, absl::StrFormat("%02d", in_order.size())) << method;
    in_order.push_back(stage);
  }
  return in_order;
}

// Returns the graph after the last stage of a method.
std::string LastGraphOf(const std::string& method, const std::string& folder) {
  const std::vector<std::string> stages = StagesOf(method, folder);
  std::ostringstream text;
  text << std::ifstream(absl::StrFormat("%s/%s.%02d.%s.txt", folder, method, stages.size() - 1, stages.back())).rdbuf();
  return text.str();
}

TEST(CompileTest, DumpsEachStageOfEachMethod) {
  CompileOptions options = TrainOptions();
  options.debug.dump_dir = ::testing::TempDir() + "/stages";
  ASSERT_TRUE(CompileModule(SmallNet, Examples(), options).ok());
  for (const char* method : {"train_step", "forward", "eval"}) {
    const std::vector<std::string> stages = StagesOf(method, options.debug.dump_dir);
    ASSERT_FALSE(stages.empty()) << method;
    EXPECT_EQ(stages.front(), "trace") << method;
    EXPECT_THAT(stages, Contains("lower")) << method;
    EXPECT_THAT(stages.back(), StartsWith("optimize.")) << method;
  }
  EXPECT_THAT(StagesOf("forward", options.debug.dump_dir), Contains("partition"));
  const std::vector<std::string> backward = StagesOf("backward", options.debug.dump_dir);
  ASSERT_GE(backward.size(), 2u);
  EXPECT_EQ(backward.front(), "partition");
  EXPECT_THAT(backward.back(), StartsWith("optimize."));
  // The dump of the forward has no passes over the backward.
  EXPECT_THAT(LastGraphOf("forward", options.debug.dump_dir),
              AllOf(HasSubstr("user_output"), Not(HasSubstr("  gradient "))));
  EXPECT_THAT(LastGraphOf("backward", options.debug.dump_dir),
              AllOf(HasSubstr("  gradient "), Not(HasSubstr("user_output"))));
}

// The files of a dump except the timings, one after another.
std::string ContentOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    files[entry.path().filename()] = text.str();
  }
  std::string content;
  for (const auto& [name, text] : files) absl::StrAppend(&content, "== ", name, "\n", text);
  return content;
}

TEST(CompileTest, DumpsEqualTheGoldenFile) {
  CompileOptions options;
  options.debug.dump_dir = ::testing::TempDir() + "/dump";
  const auto function = [](const at::Tensor& x, const at::Tensor& w) { return at::mm(x, w).exp() * 2; };
  const std::vector<at::Tensor> examples = {torch::ones({2, 3}), torch::ones({3, 4}).requires_grad_()};
  ASSERT_TRUE(CompileFunction(function, examples, options).ok());
  const std::string content = ContentOf(options.debug.dump_dir);
  std::ostringstream golden;
  golden << std::ifstream("aot/testdata/dump.golden").rdbuf();
  EXPECT_EQ(content, golden.str());
  if (content == golden.str()) return;
  const std::string path = ::testing::TempDir() + "/dump.golden";
  std::ofstream(path) << content;
  std::printf("the new content is in %s\n", path.c_str());
}

TEST(CompileTest, DumpsTheTimeOfEachStage) {
  CompileOptions options = TrainOptions();
  options.debug.dump_dir = ::testing::TempDir() + "/times";
  ASSERT_TRUE(CompileModule(SmallNet, Examples(), options).ok());
  const auto json = nlohmann::json::parse(std::ifstream(options.debug.dump_dir + "/timings.json"));
  std::map<std::string, std::vector<std::string>> stages;  // by method
  for (const auto& time : json["stages"]) {
    stages[time["method"]].push_back(time["stage"]);
    EXPECT_GE(time["seconds"].get<double>(), 0);
  }
  for (const char* method : {"train_step", "forward", "eval"}) {
    EXPECT_THAT(stages[method], ElementsAre("trace", "lower", "optimizer", "partition", "optimize", "emit", "record"));
  }
}

TEST(CompileTest, SavesTheBytes) {
  const auto model = CompileFunction([](const at::Tensor& x) { return x * 2; }, {torch::rand({3})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string path = ::testing::TempDir() + "/double.cotan";
  ASSERT_TRUE(model->Save(path).ok());
  EXPECT_EQ(std::filesystem::file_size(path), model->bytes().size());
  EXPECT_FALSE(model->Save("/nowhere/at/all.cotan").ok());
}

TEST(CompileTest, RefusesOptionsThatContradictEachOther) {
  const auto refusal = [](const CompileOptions& options) {
    return std::string(CompileModule(SmallNet, Examples(), options).status().message());
  };
  CompileOptions both = TrainOptions();
  both.loss.output = 0;
  EXPECT_THAT(refusal(both), HasSubstr("either loss.output or loss.function, not both"));
  CompileOptions targets;
  targets.loss.targets = {torch::ones({1})};
  EXPECT_THAT(refusal(targets), HasSubstr("loss.targets are the inputs of a loss function"));
  CompileOptions accumulate;
  accumulate.methods.accumulate = true;
  EXPECT_THAT(refusal(accumulate), HasSubstr("methods.accumulate needs an optimizer"));
}

TEST(CompileTest, NamesEverythingItRefuses) {
  const auto model = CompileFunction(
      [](const at::Tensor& x) {
        const at::Tensor factors = std::get<0>(torch::linalg_ldl_factor(x));
        return x.sum().item<float>() > 0 ? std::get<0>(torch::geqrf(factors)) : x;
      },
      {torch::eye(3)}, {});
  EXPECT_THAT(std::string(model.status().message()),
              AllOf(HasSubstr("aten._local_scalar_dense.default: it reads"),
                    HasSubstr("aten.linalg_ldl_factor_ex.default: it is not supported"),
                    HasSubstr("aten.geqrf.default: it is not supported")));
}

}  // namespace
}  // namespace cotan::aot
