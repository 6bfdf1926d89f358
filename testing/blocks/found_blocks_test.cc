// SPDX-License-Identifier: Apache-2.0

// Which modules of an archive become blocks without a declaration (CompileOptions.find_blocks), and what they share:
// compiled artifacts beside those with the layers written out, and beside LibTorch eager.
#include "testing/blocks/found_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/capture/number.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/interpreter.h"
#include "aot/frontend/pt2/model.h"
#include "aot/frontend/pt2/module_runs.h"
#include "aot/frontend/pt2/program_builder.h"
#include "aot/frontend/pt2/run_schedule.h"
#include "runtime/session.h"
#include "testing/blocks/block_counts.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

namespace pt2 = aot::pt2;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Unary(pt2::ProgramBuilder& b, const std::string& op, const std::string& x) {
  return b.Op(absl::StrCat("aten.", op, ".default"), {{"self", pt2::Value(x)}});
}

std::string Product(pt2::ProgramBuilder& b, const std::string& x, const std::string& weight) {
  return b.Op("aten.mm.default", {{"self", pt2::Value(x)}, {"mat2", pt2::Value(weight)}});
}

// Eleven nodes.
std::string Chain(pt2::ProgramBuilder& b, std::string x) {
  for (const char* op : {"sin", "tanh", "sigmoid", "cos", "neg", "exp", "sin", "cos", "tanh", "neg", "sigmoid"})
    x = Unary(b, op, x);
  return x;
}

using Layer = std::function<std::string(pt2::ProgramBuilder& b, const std::string& path, const std::string& x)>;

// Calls the module `path`, whose result is a f32[4, 3].
std::string InModule(pt2::ProgramBuilder& b, const std::string& path, const std::string& x, const Layer& layer) {
  b.Enter(path, "models.Layer");
  std::string result = layer(b, path, x);
  b.Leave();
  b.Describe(result, DType::kFloat32, {"4", "3"});
  return result;
}

// sum(cos(layer(layer(layer(x @ weight))))) of x f32[4, 3].
pt2::Model StackOf(const Layer& layer, int count = 3) {
  pt2::ProgramBuilder b;
  std::string x = Product(b, b.Input("x", DType::kFloat32, {"4", "3"}), b.Parameter("weight", {3, 3}));
  b.Describe(x, DType::kFloat32, {"4", "3"});
  for (int i = 0; i < count; ++i) x = InModule(b, absl::StrCat("layers.", i), x, layer);
  b.Output(Unary(b, "sum", Unary(b, "cos", x)));
  return Load(b.Files());
}

Tensors Matrix(int seed) {
  return {torch::rand({4, 3}, at::detail::createCPUGenerator(static_cast<uint64_t>(seed))) - 0.5};
}

// Compiles the model with blocks and expects the number of calls in "forward", the steps of the model without blocks,
// and those of eager.
aot::CompiledModel ExpectCalls(const pt2::Model& model, int calls) {
  aot::CompiledModel blocks = Compile(model, TrainingOptions(true));
  EXPECT_EQ(CountBlocks(blocks).calls["forward"], calls);
  ExpectSameSteps(blocks, Compile(model, TrainingOptions(false)), Matrix);
  ExpectEager(blocks, model, Matrix(5));
  return blocks;
}

TEST(FoundBlocksTest, LayersWriteTheirOwnBuffers) {
  const pt2::Model model = StackOf([](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    const std::string weight = b.Parameter(path + ".bn.weight", {3}), bias = b.Parameter(path + ".bn.bias", {3});
    const std::string mean = b.Buffer(path + ".bn.running_mean", {3}), var = b.Buffer(path + ".bn.running_var", {3}, 1);
    const std::string count = b.Buffer(path + ".bn.count", {});
    b.Op("aten.add_.Tensor", {{"self", pt2::Value(count)}, {"other", pt2::Int(1)}});
    const std::string normal = b.Op("aten.batch_norm.default", {{"input", pt2::Value(x)},
                                                                {"weight", pt2::Value(weight)},
                                                                {"bias", pt2::Value(bias)},
                                                                {"running_mean", pt2::Value(mean)},
                                                                {"running_var", pt2::Value(var)},
                                                                {"training", pt2::Bool(true)},
                                                                {"momentum", pt2::Float(0.1)},
                                                                {"eps", pt2::Float(1e-5)},
                                                                {"cudnn_enabled", pt2::Bool(false)}});
    return Chain(b, Product(b, normal, b.Parameter(path + ".weight", {3, 3})));
  });
  const aot::CompiledModel blocks = ExpectCalls(model, 3);
  EXPECT_THAT(blocks.inlined_blocks(), IsEmpty());
  Session session = MakeSession(blocks);
  ASSERT_TRUE(session.Run("train_step", Arguments(Matrix(0))).ok());
  for (const char* name : {"layers.0.bn.count", "layers.2.bn.count"}) {
    EXPECT_EQ(ToTorch(*session.State(name))->item<float>(), 1) << name;
  }
}

TEST(FoundBlocksTest, LayersThatDifferInANumberAreOtherBlocks) {
  const double factors[] = {0.5, 0.75, 0.5, 0.75};
  int next = 0;
  const pt2::Model model = StackOf(
      [&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
        const std::string y = Chain(b, Product(b, x, b.Parameter(path + ".weight", {3, 3})));
        return b.Op("aten.mul.Scalar", {{"self", pt2::Value(y)}, {"other", pt2::Float(factors[next++])}});
      },
      4);
  aot::CompileOptions options = TrainingOptions(true);
  options.methods = {.train_step = false, .eval = false};
  EXPECT_EQ(CountBlocks(Compile(model, options)).blocks, 4);  // two forwards and two backwards
  ExpectCalls(model, 4);
}

TEST(FoundBlocksTest, EightEqualLayersAreFoundAutomaticallyAndFewerAreNot) {
  const Layer layer = [](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    return Chain(b, Product(b, x, b.Parameter(path + ".weight", {3, 3})));
  };
  aot::CompileOptions options = TrainingOptions(true);
  options.find_blocks = aot::FindBlocks::kAuto;
  const pt2::Model deep = StackOf(layer, 8);
  EXPECT_EQ(Compile(deep, options).bytes(), Compile(deep, TrainingOptions(true)).bytes());
  EXPECT_EQ(CountBlocks(ExpectCalls(deep, 8)).calls["forward"], 8);
  const pt2::Model shallow = StackOf(layer, 7);
  EXPECT_EQ(Compile(shallow, options).bytes(), Compile(shallow, TrainingOptions(false)).bytes());
  // No block can be shared: the model is compiled as it is.
  options.order = 2;
  EXPECT_THAT(Compile(deep, options).inlined_blocks(), IsEmpty());
}

TEST(FoundBlocksTest, LayersThatReturnAViewOfTheirInputAreInlinedWithTheReason) {
  pt2::ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"4", "3"});
  for (int i = 0; i < 3; ++i) {
    std::string alias;
    const std::string y =
        InModule(b, absl::StrCat("layers.", i), x, [&](auto&, const std::string& path, const auto& in) {
          alias = Unary(b, "alias", in);
          return Chain(b, Product(b, in, b.Parameter(path + ".weight", {3, 3})));
        });
    x = b.Op("aten.add.Tensor", {{"self", pt2::Value(alias)}, {"other", pt2::Value(y)}});
    b.Describe(x, DType::kFloat32, {"4", "3"});
  }
  b.Output(Unary(b, "sum", x));
  const aot::CompiledModel inlined = ExpectCalls(Load(b.Files()), 0);
  ASSERT_THAT(inlined.inlined_blocks(), SizeIs(3));
  EXPECT_THAT(inlined.inlined_blocks(), Each(HasSubstr("shares memory with an input")));
}

TEST(FoundBlocksTest, LayersThatWriteToTheirInputAreInlinedWithTheReason) {
  const pt2::Model model = StackOf([&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    const std::string weight = b.Parameter(path + ".weight", {3, 3});
    return Unary(b, "neg", Chain(b, Product(b, Unary(b, "relu_", Unary(b, "alias", x)), weight)));
  });
  const aot::CompiledModel inlined = ExpectCalls(model, 0);
  EXPECT_THAT(inlined.inlined_blocks(), SizeIs(3));
  EXPECT_THAT(inlined.inlined_blocks(), Each(HasSubstr("in-place")));  // of what requires grad
}

TEST(FoundBlocksTest, LayersMayShareAWeight) {
  bool is_first = true;
  const pt2::Model model = StackOf([&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    const std::string name = path + ".weight";
    const std::string weight = is_first ? b.Parameter(name, {3, 3}) : b.Tie(name, "layers.0.weight");
    is_first = false;
    return Chain(b, Product(b, Product(b, x, weight), b.Parameter(path + ".other", {3, 3})));
  });
  EXPECT_THAT(ExpectCalls(model, 3).inlined_blocks(), IsEmpty());
}

// In the second layer, both weights are one: its gradient is the sum of two.
TEST(FoundBlocksTest, LayersWithATiedWeightAreOtherBlocks) {
  int next = 0;
  const pt2::Model model = StackOf(
      [&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
        const bool is_tied = next++ % 2 == 1;
        const std::string first = b.Parameter(path + ".first", {3, 3});
        const std::string second =
            is_tied ? b.Tie(path + ".second", path + ".first") : b.Parameter(path + ".second", {3, 3});
        return Chain(b, Product(b, Product(b, x, first), second));
      },
      4);
  aot::CompileOptions options = TrainingOptions(true);
  options.methods = {.train_step = false, .eval = false};
  EXPECT_EQ(CountBlocks(Compile(model, options)).blocks, 4);
  ExpectCalls(model, 4);
}

// Towers of layers: both towers are calls of one block, which calls one of the layer.
TEST(FoundBlocksTest, BlocksOfBlocks) {
  const auto layer = [](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    return Chain(b, Product(b, x, b.Parameter(path + ".weight", {3, 3})));
  };
  const pt2::Model model = StackOf(
      [&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
        std::string y = x;
        for (int i = 0; i < 2; ++i) y = InModule(b, absl::StrCat(path, ".layers.", i), y, layer);
        return Unary(b, "tanh", y);
      },
      2);
  aot::CompileOptions options = TrainingOptions(true);
  options.methods = {.train_step = false, .eval = false};
  const aot::CompiledModel compiled = Compile(model, options);
  const serialization::Artifact artifact = StoredArtifact(compiled);
  int calls_of_blocks = 0;
  for (const serialization::Method& block : artifact.blocks()) {
    calls_of_blocks += CountOps(block, serialization::Op::kCall);
  }
  EXPECT_EQ(artifact.blocks_size(), 4);
  EXPECT_EQ(calls_of_blocks, 4);  // in the forward and backward of the tower
  ExpectCalls(model, 2);
}

// A number that may differ from call to call is an argument of the block.
TEST(FoundBlocksTest, NumbersAreArguments) {
  pt2::ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"4", "3"});
  for (int i = 0; i < 2; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x,
                 [](pt2::ProgramBuilder& p, const std::string&, const std::string& y) {
                   return Chain(p, p.Op("aten.mul.Tensor", {{"self", pt2::Value(y)}, {"other", pt2::Size("n")}}));
                 });
  }
  b.Output(x);
  const auto program = pt2::ParseExportedProgram(b.Files()[0].second, "model.json");
  ASSERT_TRUE(program.ok()) << program.status();
  const pt2::Schedule schedule = pt2::FindModuleRuns(*program, {});
  const auto function = [&](const Tensors& inputs) {
    pt2::Environment values = {{"x", inputs[0]}, {"n", aot::ToSymInt(inputs[1], "n")}};
    pt2::RunSchedule(schedule, values);
    return Tensors{pt2::ValueOf(pt2::Name{x}, values).toTensor()};
  };
  const torch::Tensor input = Matrix(1)[0];
  const auto compiled = aot::CompileFunction(aot::TensorFunction(function), {input, aot::Number(int64_t{3})}, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(compiled->inlined_blocks(), IsEmpty());
  EXPECT_EQ(CountBlocks(*compiled).calls.at("forward"), 2);
  Session session = MakeSession(*compiled);
  for (const int64_t n : {3, 7, -2}) {
    const torch::Tensor number = torch::tensor(n);
    const auto results = session.Run("forward", Arguments({input, number}));
    ASSERT_TRUE(results.ok()) << results.status();
    const auto layer = [&](const torch::Tensor& y) {
      return (y * n).sin().tanh().sigmoid().cos().neg().exp().sin().cos().tanh().neg().sigmoid();
    };
    EXPECT_TRUE(torch::allclose(*ToTorch((*results)[0]), layer(layer(input)), 1e-5, 1e-6)) << n;
  }
}

TEST(FoundBlocksTest, LayersThatReturnANumberAreInlinedWithTheReason) {
  pt2::ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"4", "3"});
  for (int i = 0; i < 2; ++i) {
    std::string size;
    const std::string y =
        InModule(b, absl::StrCat("layers.", i), x, [&](auto&, const std::string& path, const std::string& in) {
          const std::string z = Chain(b, Product(b, in, b.Parameter(path + ".weight", {3, 3})));
          size = b.NumberOp("aten.sym_size.int", {{"self", pt2::Value(z)}, {"dim", pt2::Int(0)}}, "", 4);
          return z;
        });
    x = b.Op("aten.expand.default", {{"self", pt2::Value(y)}, {"size", pt2::Sizes({size, "3"})}});
    b.Describe(x, DType::kFloat32, {"4", "3"});
  }
  b.Output(Unary(b, "sum", x));
  const aot::CompiledModel inlined = ExpectCalls(Load(b.Files()), 0);
  EXPECT_THAT(inlined.inlined_blocks(), Each(HasSubstr("it returns a number, 'sym_size")));
  EXPECT_THAT(inlined.inlined_blocks(), SizeIs(2));
}

}  // namespace
}  // namespace cotan::testing
