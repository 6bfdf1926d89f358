// SPDX-License-Identifier: Apache-2.0

// Calls compiled functions with arguments that share memory although the traced ones did not, and compares
// with LibTorch eager: a call has the results of eager, or is rejected and changes nothing.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "base/test_seed.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"

namespace cotan {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// Number of elements of the storage that holds all arguments.
constexpr int64_t kElements = 16;

StridedLayout RowMajor(DimVector sizes, int64_t offset) {
  StridedLayout layout;
  layout.sizes = std::move(sizes);
  layout.strides = ContiguousStrides(layout.sizes);
  layout.offset = offset;
  return layout;
}

at::IntArrayRef Ref(const DimVector& dims) { return {dims.data(), dims.size()}; }

std::vector<float> Elements(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  return {dense.const_data_ptr<float>(), dense.const_data_ptr<float>() + dense.numel()};
}

std::vector<float> Elements(const Variable& variable) { return *variable.tensor().ToVector<float>(); }

// A function of x and y that writes to its arguments.
struct Row {
  const char* name;
  aot::TensorFunction function;
  DimVector x_sizes;
  bool sets_geometry = false;     // as_strided_, resize_, set_: x keeps the layout of the trace
  bool is_differentiable = true;  // with x and y computed from a leaf
};

std::vector<Row> Rows() {
  return {
      {"mul",
       [](const Tensors& in) -> Tensors {
         in[0].mul_(2);
         return {in[1] + 1};
       },
       {4}},
      {"mul_reads_first",
       [](const Tensors& in) -> Tensors {
         const at::Tensor before = in[1] * 3;
         in[0].mul_(2);
         return {before};
       },
       {4}},
      {"both",
       [](const Tensors& in) -> Tensors {
         in[0].mul_(2);
         in[1].add_(1);
         return {in[0] * in[1]};
       },
       {4}},
      {"t",
       [](const Tensors& in) -> Tensors {
         in[0].t_();
         in[0].mul_(2);
         return {in[1] + 1};
       },
       {2, 2}},
      {"t_and_content_of_y",
       [](const Tensors& in) -> Tensors {
         in[0].t_();
         in[0].add_(in[1].view({2, 2}));
         return {in[1] * in[1]};
       },
       {2, 2}},
      {"t_and_y_written",
       [](const Tensors& in) -> Tensors {
         in[0].t_();
         in[0].mul_(2);
         in[1].mul_(3);
         return {in[0].sum() + in[1]};
       },
       {2, 2}},
      {"squeeze",
       [](const Tensors& in) -> Tensors {
         in[0].squeeze_(0);
         in[0].mul_(2);
         return {in[1] + 1};
       },
       {1, 4}},
      {"unsqueeze",
       [](const Tensors& in) -> Tensors {
         in[0].unsqueeze_(1);
         in[0].mul_(2);
         return {in[1] + 1};
       },
       {4}},
      {"as_strided",
       [](const Tensors& in) -> Tensors {
         in[0].as_strided_({4}, {1}, 0);
         in[0].mul_(2);
         return {in[1] + 1};
       },
       {2, 2},
       true},
      {"as_strided_leaves_out",
       [](const Tensors& in) -> Tensors {
         in[0].mul_(3);
         in[0].as_strided_({2}, {2}, 0);
         in[0].mul_(2);
         return {in[1] + 1};
       },
       {4},
       true,
       false},
      {"resize",
       [](const Tensors& in) -> Tensors {
         in[0].resize_({4});
         in[0].mul_(2);
         return {in[1] + 1};
       },
       {2, 2},
       true,
       false},
      {"resize_larger",
       [](const Tensors& in) -> Tensors {
         in[0].resize_({6});
         in[0].fill_(2);
         return {in[1] + 1};
       },
       {4},
       true,
       false},
      {"set",
       [](const Tensors& in) -> Tensors {
         const at::NoGradGuard no_grad;
         in[0].set_(in[1]);
         in[1].mul_(2);
         return {in[0] + 1};
       },
       {4},
       true,
       false},
      {"set_to_a_new_one",
       [](const Tensors& in) -> Tensors {
         const at::NoGradGuard no_grad;
         in[0].set_(in[1] * 2);
         in[1].mul_(2);
         return {in[0] + in[1]};
       },
       {4},
       true,
       false},
  };
}

// Placement of the arguments of a call in the storage.
struct Draw {
  StridedLayout x;
  StridedLayout y;
  bool y_is_x = false;  // the same object
};

// Exchanges the dimensions in memory, or leaves gaps, if the elements then fit into the storage.
void DrawStrides(std::mt19937_64& random, StridedLayout& layout) {
  StridedLayout drawn = layout;
  if (random() % 2 == 0) std::reverse(drawn.strides.begin(), drawn.strides.end());
  if (random() % 2 == 0) {
    for (int64_t& stride : drawn.strides) stride *= 2;
  }
  if (StorageExtent(drawn) <= kElements) layout = drawn;
}

Draw DrawArguments(const Row& row, std::mt19937_64& random) {
  const auto pick = [&random](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  Draw draw;
  draw.x = RowMajor(row.x_sizes, row.sets_geometry ? 0 : pick(kElements - 3));
  if (!row.sets_geometry) DrawStrides(random, draw.x);
  draw.y = {.sizes = {4}, .strides = {1 + pick(3)}, .offset = 0};
  draw.y.offset = pick(kElements - 3 * draw.y.strides[0]);
  draw.y_is_x = row.x_sizes.size() == 1 && pick(8) == 0;
  return draw;
}

// State after a call.
struct Outcome {
  std::vector<std::vector<float>> results;
  std::vector<float> storage;
  std::vector<float> x;
  DimVector x_sizes;
  DimVector x_strides;
  std::vector<float> gradient;  // of the leaf, if there is one
};

std::vector<float> Start() {
  std::vector<float> start;
  for (int i = 0; i < kElements; ++i) start.push_back(static_cast<float>(i + 1));
  return start;
}

// Returns nullopt if eager rejects the call.
std::optional<Outcome> Eager(const Row& row, const Draw& draw, bool with_gradient) {
  try {
    const at::Tensor leaf = torch::tensor(Start()).requires_grad_(with_gradient);
    const at::Tensor all = leaf.clone();
    const auto part = [&all](const StridedLayout& layout) {
      return all.as_strided(Ref(layout.sizes), Ref(layout.strides), layout.offset);
    };
    const at::Tensor x = part(draw.x);
    const at::Tensor y = draw.y_is_x ? x : part(draw.y);
    const Tensors results = row.function({x, y});
    Outcome outcome;
    for (const at::Tensor& result : results) outcome.results.push_back(Elements(result));
    outcome.storage = Elements(all);
    outcome.x = Elements(x);
    outcome.x_sizes.assign(x.sizes().begin(), x.sizes().end());
    outcome.x_strides.assign(x.strides().begin(), x.strides().end());
    if (with_gradient) outcome.gradient = Elements(torch::autograd::grad({results[0].sum() + x.sum()}, {leaf})[0]);
    return outcome;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

struct Loaded {
  Session session;
  Function function;
};

absl::StatusOr<Loaded> Compile(const Row& row, bool with_gradient, bool keep_input_mutations) {
  aot::CompileOptions options;
  options.debug.store_references = false;
  options.tracing.keep_input_mutations = keep_input_mutations;
  const auto example = [&](const DimVector& sizes) {
    const at::Tensor made = at::ones(Ref(sizes)).requires_grad_(with_gradient);
    return with_gradient ? made.clone() : made;
  };
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model,
                         aot::CompileFunction(row.function, {example(row.x_sizes), example({4})}, options));
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::LoadBytes(model.bytes()));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
  COTAN_ASSIGN_OR_RETURN(Function function, Function::Create(session, "forward"));
  return Loaded{std::move(session), std::move(function)};
}

// Runs one call and returns whether it was rejected. A rejected call must leave everything unchanged;
// another call must have the results of `eager`.
bool CallAndCompare(Loaded& loaded, const Draw& draw, bool with_gradient, const std::optional<Outcome>& eager) {
  const Tensor start = *Tensor::From<float>(Start(), {kElements});
  Variable leaf(start);
  Variable all(*Tensor::Empty(DType::kFloat32, {kElements}));
  if (with_gradient) {
    EXPECT_TRUE(leaf.RequiresGrad(true).ok());
  }
  EXPECT_TRUE(all.CopyInPlace(leaf, loaded.session.ops()).ok());
  const Variable x = *all.AsStrided(draw.x);
  const Variable y = draw.y_is_x ? x : *all.AsStrided(draw.y);
  const uint32_t version = all.version();
  const absl::StatusOr<std::vector<FunctionResult>> results = loaded.function.Call({x, y});
  if (!results.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(results.status()) || absl::IsFailedPrecondition(results.status()))
        << results.status();
    EXPECT_EQ(Elements(all), Start()) << results.status();
    EXPECT_EQ(x.layout(), draw.x) << results.status();
    EXPECT_EQ(x.tensor().storage(), all.tensor().storage());
    EXPECT_EQ(all.version(), version) << results.status();
    return true;
  }
  if (!eager.has_value()) {
    ADD_FAILURE() << "eager refuses this call";
    return false;
  }
  std::vector<Variable> roots = {x};
  for (size_t i = 0; i < results->size(); ++i) {
    roots.push_back(std::get<Variable>((*results)[i]));
    EXPECT_EQ(Elements(roots.back()), eager->results[i]) << "result " << i;
  }
  EXPECT_EQ(Elements(all), eager->storage);
  EXPECT_EQ(Elements(x), eager->x);
  EXPECT_EQ(x.layout().sizes, eager->x_sizes);
  EXPECT_EQ(x.layout().strides, eager->x_strides);
  if (!with_gradient) return false;
  std::vector<Tensor> tangents;
  for (const Variable& root : roots) {
    std::vector<float> ones(static_cast<size_t>(root.tensor().num_elements()), 1.0f);
    tangents.push_back(*Tensor::From<float>(ones, root.sizes()));
  }
  const auto gradients = autograd::Grad(roots, {leaf}, tangents, loaded.session.ops());
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  if (gradients.ok()) {
    EXPECT_EQ(*(*gradients)[0].ToVector<float>(), eager->gradient);
  }
  return false;
}

class ArgumentOverlapTest : public ::testing::TestWithParam<bool> {};

TEST_P(ArgumentOverlapTest, RandomPartsOfOneStorage) {
  const bool with_gradient = GetParam();
  const GradModeGuard mode(with_gradient);
  std::mt19937_64 random(testing::TestSeed());
  for (const Row& row : Rows()) {
    if (with_gradient && !row.is_differentiable) continue;
    for (const bool keep_input_mutations : {true, false}) {
      SCOPED_TRACE(absl::StrCat(row.name, keep_input_mutations ? "" : ", written by the runtime"));
      absl::StatusOr<Loaded> loaded = Compile(row, with_gradient, keep_input_mutations);
      if (!loaded.ok() && !keep_input_mutations && absl::StrContains(row.name, "set")) continue;
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      int refused = 0;
      constexpr int kCalls = 60;
      for (int i = 0; i < kCalls; ++i) {
        const Draw draw = DrawArguments(row, random);
        SCOPED_TRACE(absl::StrCat("x ", ToString(draw.x), ", y ", draw.y_is_x ? "is x" : ToString(draw.y)));
        refused += CallAndCompare(*loaded, draw, with_gradient, Eager(row, draw, with_gradient));
      }
      EXPECT_GT(refused, 0) << "no two arguments overlapped";
      EXPECT_LT(refused, kCalls) << "parts that do not overlap are refused";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gradients, ArgumentOverlapTest, ::testing::Bool());

// --- states ------------------------------------------------------------------

struct Normalized : torch::nn::Module {
  Normalized() { norm = register_module("norm", torch::nn::BatchNorm1d(4)); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& y) { return norm->forward(x) + y; }
  torch::nn::BatchNorm1d norm{nullptr};
};

Session LoadSession(const aot::CompiledModel& model) {
  return *Session::Create(*Program::LoadBytes(model.bytes()), {.kernels = &CpuKernels(), .threads = 1});
}

TEST(StateOverlapTest, RejectsAnUpdatedRunningMeanAsAnArgument) {
  aot::CompileOptions options;
  options.debug.store_references = false;
  const auto model = aot::CompileModule([] { return std::make_shared<Normalized>(); },
                                        {torch::randn({3, 4}), torch::randn({4})}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = LoadSession(*model);
  Session other = LoadSession(*model);
  Function forward = *Function::Create(session, "forward");
  const Variable x(*Tensor::From<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {3, 4}));
  const Variable mean = *session.Parameter("norm.running_mean");
  const Variable part = *mean.AsStrided({.sizes = {4}, .strides = {0}, .offset = 3});
  const uint32_t version = mean.version();
  for (const Variable& y : {mean, mean.Detach(), part}) {
    const absl::Status status = forward.Call({x, y}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("updates state 'norm.running_mean', which shares memory with"));
    EXPECT_EQ(mean.version(), version);
    EXPECT_EQ(Elements(mean), std::vector<float>(4, 0));
    EXPECT_EQ(*session.State("norm.num_batches_tracked")->Item<int64_t>(), 0);
  }
  EXPECT_TRUE(forward.Call({x, *other.Parameter("norm.running_mean")}).ok()) << "another session's";
  EXPECT_TRUE(forward.Call({x, *session.Parameter("norm.bias")}).status().code() == absl::StatusCode::kInvalidArgument)
      << "requires grad, as it did not when traced";
  EXPECT_TRUE(forward.Call({x, (*session.Parameter("norm.bias")).Detach()}).ok()) << "only read by the method";
  EXPECT_NE(Elements(mean), std::vector<float>(4, 0));
}

// The method only reads the parameter, which is passed as an argument that it writes.
TEST(StateOverlapTest, RejectsAParameterAsAWrittenArgument) {
  aot::CompileOptions options;
  options.debug.store_references = false;
  struct Scaled : torch::nn::Module {
    Scaled() { w = register_buffer("w", torch::ones({2, 2})); }
    at::Tensor forward(at::Tensor x) {
      x.t_();
      x.mul_(2);
      return w + 1;
    }
    at::Tensor w;
  };
  const auto model = aot::CompileModule([] { return std::make_shared<Scaled>(); }, {torch::ones({2, 2})}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = LoadSession(*model);
  Function forward = *Function::Create(session, "forward");
  const Variable w = *session.Parameter("w");
  const Variable alias = *w.AsStrided({.sizes = {2, 2}, .strides = {2, 1}, .offset = 0});
  for (const Variable& x : {w, alias}) {
    EXPECT_EQ(forward.Call({x}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Elements(w), std::vector<float>(4, 1));
    EXPECT_EQ(ToString(x.layout()), "[2,2]{2,1}");
  }
  EXPECT_TRUE(forward.Call({Variable(*Tensor::Zeros(DType::kFloat32, {2, 2}))}).ok());
}

TEST(StateOverlapTest, RejectsATrainedParameterAsAnArgumentOfItsTrainStep) {
  aot::CompileOptions options;
  options.debug.store_references = false;
  options.loss.function = [](const Tensors& outputs, const Tensors&) { return outputs[0].square().mean(); };
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1}};
  const auto model = aot::CompileModule([] { return torch::nn::Linear(4, 4); }, {torch::ones({4, 4})}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = LoadSession(*model);
  const Tensor weight = (*session.Parameter("weight")).tensor();
  const std::vector<float> before = *weight.ToVector<float>();
  const auto refused = session.Run("train_step", {weight});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*weight.ToVector<float>(), before);

  // As a result, it is replaced.
  const MethodHandle train = *session.FindMethod("train_step");
  std::vector<Tensor> results(static_cast<size_t>(session.NumResults(train)), weight);
  const Tensor input = *Tensor::From<float>(std::vector<float>(16, 1), {4, 4});
  Session apart = LoadSession(*model);
  ASSERT_TRUE(session.Run(train, {input}, absl::MakeSpan(results)).ok());
  const auto expected = *apart.Run("train_step", {input});
  EXPECT_EQ(*results[0].ToVector<float>(), *expected[0].ToVector<float>());
  EXPECT_EQ(*weight.ToVector<float>(), *apart.State("weight")->ToVector<float>());
}

}  // namespace
}  // namespace cotan
