// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <iterator>
#include <random>

#include "aot/frontend/pt2/archive_builder.h"
#include "aot/ir/text.h"

namespace cotan::aot::pt2 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kProgram[] = "m/models/model.json";
constexpr char kWeights[] = "m/data/weights/model_weights_config.json";

absl::StatusOr<Model> LoadFiles(const ArchiveFiles& files) { return Model::Load(WriteArchive("model.pt2", files)); }

void ExpectError(const ArchiveFiles& files, absl::StatusCode code, const std::string& message) {
  const absl::Status status = LoadFiles(files).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.pt2"));
}

ArchiveFiles With(const std::string& file, const std::string& from, const std::string& to) {
  ArchiveFiles files = SmallModel();
  Replace(files, file, from, to);
  return files;
}

ArchiveFiles Without(const std::string& file) {
  ArchiveFiles files = SmallModel();
  std::erase_if(files, [&](const auto& entry) { return entry.first == file; });
  return files;
}

TEST(Pt2ModelTest, HasTheStatesOfTheArchive) {
  const auto model = LoadFiles(SmallModel());
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_THAT(model->states(), SizeIs(2));
  const InitialState& weight = model->states()[0];
  EXPECT_EQ(weight.name, "fc.weight");
  EXPECT_TRUE(weight.requires_grad);
  EXPECT_TRUE(weight.value.equal(torch::arange(12).to(torch::kFloat).view({4, 3})));
  const InitialState& count = model->states()[1];
  EXPECT_EQ(count.name, "count");
  EXPECT_EQ(count.role, serialization::State::BUFFER);
  EXPECT_FALSE(count.persistent);
}

TEST(Pt2ModelTest, ComputesWhatTheProgramSays) {
  const auto model = LoadFiles(SmallModel());
  ASSERT_TRUE(model.ok()) << model.status();
  const torch::Tensor weight = model->states()[0].value.clone();
  const torch::Tensor count = model->states()[1].value.clone();
  const torch::Tensor x = torch::randn({2, 3});
  const std::vector<at::Tensor> results = model->function()({weight, count}, {x});
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_TRUE(results[0].allclose(torch::relu(x.matmul(weight.t()) + 1)));
  EXPECT_EQ(count.item<float>(), 1) << "the buffer is written in place";
}

TEST(Pt2ModelTest, IsTracedLikeAModule) {
  const auto model = LoadFiles(SmallModel());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto module = TraceableModule::FromFunction(model->function(), model->states(), {});
  ASSERT_TRUE(module.ok()) << module.status();
  const auto traced = Trace(module->forward(), module->states(), *model->ExampleInputs(),
                            {.backward = TraceOptions::Backward::kOutputs});
  ASSERT_TRUE(traced.ok()) << traced.status();
  const std::string text = PrintGraph(traced->graph);
  EXPECT_THAT(text, HasSubstr("parameter 0 \"fc.weight\""));
  EXPECT_THAT(text, HasSubstr("buffer 0 \"count\""));
  EXPECT_THAT(text, HasSubstr("mutated_input 1 \"count\""));
  EXPECT_THAT(text, HasSubstr("gradient 0 \"fc.weight\""));
}

TEST(Pt2ModelTest, KeepsTheTreesOfTensorArgumentsAndResults) {
  const auto model = LoadFiles(SmallModel());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->in_spec().ToString(), "((*), {})");
  EXPECT_EQ(model->out_spec().ToString(), "*");

  // forward(x, 2), where the export fixed 2, with None as a second result.
  ArchiveFiles files = With(kProgram, R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})",
                            R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
                               {"constant_input": {"name": "n", "value": {"as_int": 2}}})");
  Replace(files, kProgram, R"({"as_tensor": {"name": "x"}}],)", R"({"as_tensor": {"name": "x"}}, {"as_int": 2}],)");
  const std::string leaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";
  Replace(files, kProgram, "\\\"children_spec\\\": []}]}, {", "\\\"children_spec\\\": []}, " + leaf + "]}, {");
  const auto with_number = LoadFiles(files);
  ASSERT_TRUE(with_number.ok()) << with_number.status();
  EXPECT_EQ(with_number->in_spec().ToString(), "((*, none), {})");
  EXPECT_EQ(with_number->InputSizes().size(), 1u);

  Replace(files, kProgram, R"("out_spec": "[1, {\"type\": null,)",
          R"("out_spec": "[1, {\"type\": \"builtins.tuple\",)");
  EXPECT_THAT(std::string(LoadFiles(files).status().message()),
              HasSubstr("out_spec has 0 leaves, but the program has 1"));
}

TEST(Pt2ModelTest, RefusesAResultThatIsADynamicSize) {
  ArchiveFiles files = With(kProgram, R"("outputs": [{"as_tensor": {"name": "relu"}}],)",
                            R"("outputs": [{"as_sym_int": {"as_name": "rows"}}],)");
  Replace(files, kProgram, R"({"user_output": {"arg": {"as_tensor": {"name": "relu"}}}})",
          R"({"user_output": {"arg": {"as_sym_int": {"as_name": "rows"}}}})");
  Replace(files, kProgram, R"("nodes": [)", R"("nodes": [{"target": "torch.ops.aten.sym_size.int", "metadata": {},
            "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
                       {"name": "dim", "arg": {"as_int": 0}, "kind": 1}],
            "outputs": [{"as_sym_int": {"as_name": "rows"}}]},)");
  Replace(files, kProgram, R"("sym_int_values": {})",
          R"json("sym_int_values": {"rows": {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)",
                                                     "hint": {"as_int": 2}}}})json");
  const auto model = LoadFiles(files);
  ASSERT_TRUE(model.ok()) << model.status();
  try {
    model->function()({model->states()[0].value, model->states()[1].value}, {torch::randn({2, 3})});
    FAIL() << "the size was omitted";
  } catch (const std::exception& error) {
    EXPECT_THAT(std::string(error.what()), HasSubstr("the result 'rows' is a number that depends on an input"));
  }
}

TEST(Pt2ModelTest, MakesExampleInputsForAnySizes) {
  const auto model = LoadFiles(SmallModel());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->ExampleInputs()->at(0).sizes(), (std::vector<int64_t>{2, 3}));
  const std::vector<int64_t> symbols = {5};
  EXPECT_EQ(model->ExampleInputs(symbols)->at(0).sizes(), (std::vector<int64_t>{5, 3}));
}

// Returns a small model with an argument of the export of these sizes.
ArchiveFiles WithArgument(const std::vector<int>& sizes) {
  std::ifstream file(WriteArchive("argument.pt", SavedTensors({{"x", sizes}})), std::ios::binary);
  ArchiveFiles files = SmallModel();
  files.emplace_back("m/data/sample_inputs/model.pt", std::string(std::istreambuf_iterator<char>(file), {}));
  return files;
}

TEST(Pt2ModelTest, ExampleInputsAreTheArgumentsOfTheExport) {
  const auto model = LoadFiles(WithArgument({2, 3}));
  ASSERT_TRUE(model.ok()) << model.status();
  for (int call = 0; call < 2; ++call) {
    at::Tensor example = model->ExampleInputs()->at(0);
    EXPECT_TRUE(example.equal(torch::arange(6).to(torch::kFloat).view({2, 3})));
    example.zero_();  // a copy
  }
  const std::vector<int64_t> symbols = {5};
  EXPECT_EQ(model->ExampleInputs(symbols)->at(0).sizes(), (std::vector<int64_t>{5, 3}));
}

TEST(Pt2ModelTest, ArgumentsThatDoNotFitAreNoExamples) {
  ArchiveFiles garbled = WithArgument({2, 3});
  garbled.back().second = "no zip";
  for (const ArchiveFiles& files : {WithArgument({2, 4}), WithArgument({6}), garbled}) {
    const auto model = LoadFiles(files);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->ExampleInputs()->at(0).sizes(), (std::vector<int64_t>{2, 3}));
  }
}

TEST(Pt2ModelTest, KnowsTheShapesOfItsResultsWithoutRunning) {
  const auto model = LoadFiles(SmallModel());
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<at::Tensor> results =
      model->function()({model->states()[0].value.clone(), model->states()[1].value.clone()}, *model->ExampleInputs());
  const std::vector<at::Tensor> shapes = model->OutputShapes();
  ASSERT_EQ(shapes.size(), results.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_TRUE(shapes[i].is_meta());
    EXPECT_EQ(shapes[i].sizes(), results[i].sizes());
    EXPECT_EQ(shapes[i].scalar_type(), results[i].scalar_type());
  }
}

TEST(Pt2ModelTest, WritesMutationsOfTheFunctionalFormBack) {
  ArchiveFiles files = With(kProgram, "torch.ops.aten.add_.Tensor", "torch.ops.aten.add.Tensor");
  Replace(files, kProgram, R"("outputs": [{"as_tensor": {"name": "relu"}}])",
          R"("outputs": [{"as_tensor": {"name": "add_"}}, {"as_tensor": {"name": "relu"}}])");
  Replace(files, kProgram, R"("output_specs": [)",
          R"("output_specs": [{"buffer_mutation": {"arg": {"name": "add_"}, "buffer_name": "count"}}, )");
  const auto model = LoadFiles(files);
  ASSERT_TRUE(model.ok()) << model.status();
  const torch::Tensor count = model->states()[1].value.clone();
  const auto results = model->function()({model->states()[0].value, count}, {torch::randn({2, 3})});
  EXPECT_THAT(results, SizeIs(1));
  EXPECT_EQ(count.item<float>(), 1);
}

TEST(Pt2ModelTest, FindsTiedParameters) {
  // A second parameter, "tied.weight", replaces the buffer.
  ArchiveFiles files =
      With(kProgram, R"({"buffer": {"arg": {"name": "b_count"}, "buffer_name": "count", "persistent": false}})",
           R"({"parameter": {"arg": {"name": "b_count"}, "parameter_name": "tied.weight"}})");
  Replace(files, kProgram, R"("b_count": {"dtype": 7, "sizes": [])",
          R"("b_count": {"dtype": 7, "sizes": [{"as_int": 4}, {"as_int": 3}])");
  Replace(files, kProgram, R"("strides": [], )", R"("strides": [{"as_int": 3}, {"as_int": 1}], )");
  const std::string config = files[1].second;
  const size_t entry = config.find("{\"path_name\"");
  Replace(files, kWeights, "{\"config\": {",
          "{\"config\": {\"tied.weight\": " + config.substr(entry, config.size() - entry - 2) + ", ");
  const auto model = LoadFiles(files);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_THAT(model->states(), SizeIs(1));
  EXPECT_THAT(model->states()[0].aliases, ElementsAre("tied.weight"));
}

TEST(Pt2ModelTest, NamesWhatIsMissing) {
  using Code = absl::StatusCode;
  ExpectError(Without(kProgram), Code::kNotFound, "holds no exported program");
  ExpectError(Without(kWeights), Code::kNotFound, "model_weights_config.json");
  ExpectError(Without("m/data/weights/weight_0"), Code::kNotFound, "'fc.weight'");
  ExpectError(With(kWeights, "\"fc.weight\"", "\"other\""), Code::kNotFound, "the program uses 'fc.weight'");
}

TEST(Pt2ModelTest, RefusesTensorsThatDoNotFit) {
  using Code = absl::StatusCode;
  ArchiveFiles files = SmallModel();
  files[2].second.resize(44);
  ExpectError(files, Code::kInvalidArgument, "in a file of 11 elements");
  files[2].second.resize(43);
  ExpectError(files, Code::kInvalidArgument, "not a multiple of 4");
  ExpectError(With(kWeights, R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": 1})"),
              Code::kInvalidArgument, "in a file of 12 elements");
  ExpectError(With(kWeights, R"({"as_int": 4})", R"({"as_int": 4611686018427387904})"), Code::kInvalidArgument,
              "in a file of 12 elements");
  ExpectError(With(kWeights, R"({"as_int": 4})", R"({"as_int": -4})"), Code::kInvalidArgument, "its geometry has -4");
  ExpectError(With(kWeights, R"({"as_int": 4})", R"({"as_int": 2})"), Code::kInvalidArgument, "other sizes");
  ExpectError(With(kWeights, "weight_0", "../constants/tensor_0"), Code::kInvalidArgument, "is not in data/weights/");
}

TEST(Pt2ModelTest, RefusesPickles) {
  ExpectError(With(kWeights, R"("use_pickle": false)", R"("use_pickle": true)"), absl::StatusCode::kUnimplemented,
              "it is a pickle");
}

TEST(Pt2ModelTest, RefusesOpsThatLibTorchDoesNotKnowAllAtOnce) {
  ArchiveFiles files = With(kProgram, "torch.ops.aten.relu.default", "torch.ops.mylib.fast_relu.default");
  Replace(files, kProgram, "torch.ops.aten.linear.default", "torch.ops.higher_order.cond");
  const absl::Status status = LoadFiles(files).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("torch.ops.mylib.fast_relu.default"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("torch.ops.higher_order.cond in 'fc'"));
}

TEST(Pt2ModelTest, RefusesOtherFormatsOfTheArchive) {
  using Code = absl::StatusCode;
  ExpectError(With("m/byteorder", "little", "big"), Code::kInvalidArgument, "says 'big', not 'little'");
  ExpectError(With("m/archive_format", "pt2", "pt9"), Code::kInvalidArgument, "says 'pt9'");
  ArchiveFiles two = SmallModel();
  two.emplace_back("m/models/second.json", "{}");
  ExpectError(two, Code::kInvalidArgument, "holds 2 programs");
}

// Programs in which a piece was replaced by another piece of the same file, cut off or repeated,
// give an error with the name of the archive, or a model.
TEST(Pt2ModelTest, GarbledProgramsAreRefusedOrReadAsTheyAre) {
  constexpr uint32_t kSeed = 20260102;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    ArchiveFiles files = SmallModel();
    std::string& text = files[random() % 2].second;  // the program or the table of weights
    const size_t from = random() % text.size();
    const size_t length = 1 + random() % 40;
    text.replace(random() % text.size(), random() % 40, text.substr(from, length));
    const absl::StatusOr<Model> model = LoadFiles(files);
    if (model.ok()) continue;
    ++refused;
    EXPECT_THAT(std::string(model.status().message()), HasSubstr("model.pt2")) << i;
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace cotan::aot::pt2
