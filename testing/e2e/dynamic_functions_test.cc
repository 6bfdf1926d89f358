// SPDX-License-Identifier: Apache-2.0

// Compares functions with dynamic dimensions with LibTorch eager at sizes that were not traced: the effect
// of sizes on views, numbers and loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;
namespace F = torch::nn::functional;

// Every dimension of size kA, kB or kC in `sizes` is the dynamic "a", "b" or "c".
constexpr int64_t kA = -1, kB = -2, kC = -3;

struct Case {
  std::string name;
  std::function<Tensors(const Tensors&)> function;
  std::vector<std::vector<int64_t>> sizes;  // of the inputs
  int64_t min = 2;                          // of all symbols
  int64_t max = 40;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

Tensors InputsOf(const Case& c, const std::vector<int64_t>& values) {
  Tensors inputs;
  for (std::vector<int64_t> sizes : c.sizes) {
    for (int64_t& size : sizes) size = size < 0 ? values[static_cast<size_t>(-size - 1)] : size;
    inputs.push_back(torch::randn(sizes).requires_grad_());
  }
  return inputs;
}

absl::StatusOr<std::string> CompileCase(const Case& c) {
  aot::CompileOptions options;
  for (size_t i = 0; i < c.sizes.size(); ++i) {
    for (size_t d = 0; d < c.sizes[i].size(); ++d) {
      if (c.sizes[i][d] >= 0) continue;
      const std::string symbol(1, static_cast<char>('a' - 1 - c.sizes[i][d]));
      options.dynamic_dims.push_back({static_cast<int>(i), static_cast<int>(d), symbol, c.min, c.max});
    }
  }
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel compiled,
                         aot::CompileFunction(c.function, InputsOf(c, {c.min + 4, c.min + 6, c.min + 9}), options));
  return compiled.bytes();
}

double Error(const torch::Tensor& actual, const torch::Tensor& expected) {
  const torch::Tensor a = actual.detach().to(torch::kFloat).contiguous();
  const torch::Tensor e = expected.detach().to(torch::kFloat).contiguous();
  return ErrorInEps<float>({a.data_ptr<float>(), static_cast<size_t>(a.numel())},
                           {e.data_ptr<float>(), static_cast<size_t>(e.numel())});
}

class DynamicFunction : public ::testing::TestWithParam<Case> {};

// Runs one call and its backward at sizes `values`.
void ExpectLikeEager(const Case& c, const Session& session, Function& function, const std::vector<int64_t>& values) {
  const Tensors inputs = InputsOf(c, values);
  std::vector<Variable> arguments;
  for (const torch::Tensor& input : inputs) arguments.push_back(*Variable::Leaf(*ToCotan(input)));
  const auto results = function.Call(arguments);
  ASSERT_TRUE(results.ok()) << results.status();

  const Tensors expected = c.function(inputs);
  ASSERT_EQ(results->size(), expected.size());
  std::vector<Variable> roots;
  std::vector<Tensor> tangents;
  Tensors expected_roots, expected_tangents;
  for (size_t i = 0; i < expected.size(); ++i) {
    const Variable& result = std::get<Variable>((*results)[i]);
    ASSERT_EQ(std::vector<int64_t>(result.sizes().begin(), result.sizes().end()), expected[i].sizes().vec()) << i;
    EXPECT_LE(Error(*ToTorch(result.tensor()), expected[i]), kMatmul) << "output " << i;
    for (size_t k = 0; k < inputs.size(); ++k) {
      EXPECT_EQ(result.tensor().storage() == arguments[k].tensor().storage(), expected[i].is_alias_of(inputs[k])) << i;
    }
    if (!expected[i].requires_grad()) continue;
    roots.push_back(result);
    expected_roots.push_back(expected[i]);
    expected_tangents.push_back(torch::randn(expected[i].sizes()));
    tangents.push_back(*ToCotan(expected_tangents.back()));
  }
  const auto gradients = autograd::Grad(roots, arguments, tangents, session.ops(), {.allow_unused = true});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const auto expected_gradients = torch::autograd::grad(expected_roots, inputs, expected_tangents, {}, false, true);
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ((*gradients)[i].defined(), expected_gradients[i].defined()) << i;
    if (!expected_gradients[i].defined()) continue;
    EXPECT_LE(Error(*ToTorch((*gradients)[i]), expected_gradients[i]), kMatmul) << "gradient " << i;
  }
}

TEST_P(DynamicFunction, MatchesEagerAtAllSizes) {
  torch::manual_seed(3);
  const Case& c = GetParam();
  const auto artifact = CompileCase(c);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  const auto program = Program::LoadBytes(*artifact);
  ASSERT_TRUE(program.ok()) << program.status();
  auto session = Session::Create(*program, {.kernels = &CpuKernels(), .threads = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  auto function = Function::Create(*session, "forward");
  ASSERT_TRUE(function.ok()) << function.status();
  const int64_t least = std::max<int64_t>(c.min, 2);
  for (const std::vector<int64_t>& values : std::vector<std::vector<int64_t>>{{least, least, least},
                                                                              {least + 1, least + 2, least + 5},
                                                                              {least + 10, least + 7, least + 6},
                                                                              {c.max, c.max - 1, c.max - 2}}) {
    SCOPED_TRACE(::testing::PrintToString(values));
    ExpectLikeEager(c, *session, *function, values);
  }
}

TEST_P(DynamicFunction, MatchesEagerAtASizeOfOneOrIsRefused) {
  torch::manual_seed(4);
  Case c = GetParam();
  c.min = 1;
  const auto artifact = CompileCase(c);
  if (!artifact.ok()) {
    EXPECT_THAT(std::string(artifact.status().message()), HasSubstr("=1, which the declared ranges allow"));
    return;
  }
  const auto program = Program::LoadBytes(*artifact);
  ASSERT_TRUE(program.ok()) << program.status();
  auto session = Session::Create(*program, {.kernels = &CpuKernels(), .threads = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  auto function = Function::Create(*session, "forward");
  ASSERT_TRUE(function.ok()) << function.status();
  ExpectLikeEager(c, *session, *function, {1, 5, 7});
}

const Case kCases[] = {
    // Views of inputs, replayed on the caller's tensor.
    {"flatten",
     [](const Tensors& x) -> Tensors {
       return {x[0].view({-1}), x[0].t()};
     },
     {{kA, 4}}},
    {"slice",
     [](const Tensors& x) -> Tensors {
       return {x[0].slice(0, 1), x[0].slice(1, 0, -1)};
     },
     {{kA, kB}}},
    {"last_row",
     [](const Tensors& x) -> Tensors {
       return {x[0].select(0, -1), x[0][x[0].size(0) / 2]};
     },
     {{kA, 3}}},
    {"strided",
     [](const Tensors& x) -> Tensors {
       return {x[0].slice(0, 0, INT64_MAX, 2), x[0].unfold(0, 2, 1)};
     },
     {{kA, 3}}},
    {"split_heads",
     [](const Tensors& x) -> Tensors {
       return {x[0].view({x[0].size(0), -1, 2, 4}).transpose(1, 2)};
     },
     {{kA, kB, 8}}},
    // Views of intermediates.
    {"views_of_intermediate",
     [](const Tensors& x) -> Tensors {
       const torch::Tensor y = x[0] * 2;
       return {y.view({-1}), y.t()};
     },
     {{kA, 4}}},
    {"expand",
     [](const Tensors& x) -> Tensors {
       return {x[0].unsqueeze(0).expand({x[1].size(0), -1}) * x[1]};
     },
     {{kB}, {kA, kB}}},
    // Numbers that follow from sizes.
    {"moments",
     [](const Tensors& x) -> Tensors {
       return {x[0].mean(), x[0].mean(0), x[0].var(0), x[0].std(), x[0].norm()};
     },
     {{kA, kB}}},
    {"scaled",
     [](const Tensors& x) -> Tensors {
       return {x[0] / std::sqrt(static_cast<double>(x[0].size(0))) * (1.0 / static_cast<double>(x[0].size(1) - 1))};
     },
     {{kA, kB}}},
    {"losses",
     [](const Tensors& x) -> Tensors {
       return {F::mse_loss(x[0], x[1]), F::smooth_l1_loss(x[0], x[1]),
               F::kl_div(x[0].log_softmax(1), x[1].softmax(1), F::KLDivFuncOptions().reduction(torch::kBatchMean))};
     },
     {{kA, 5}, {kA, 5}}},
    {"batch_norm",
     [](const Tensors& x) -> Tensors {
       return {torch::batch_norm(x[0], {}, {}, {}, {}, true, 0.1, 1e-5, false), torch::layer_norm(x[0], {6, 5})};
     },
     {{kA, 6, 5}}},
    // Sizes that are combined.
    {"concat",
     [](const Tensors& x) -> Tensors {
       return {torch::cat({x[0], x[1]}).softmax(0)};
     },
     {{kA, 3}, {kB, 3}}},
    {"product",
     [](const Tensors& x) -> Tensors { return {torch::matmul(x[0], x[1]).softmax(-1)}; },
     {{kA, kB, 4}, {kA, 4, kC}}},
    {"outer",
     [](const Tensors& x) -> Tensors {
       return {torch::outer(x[0], x[1]).sum(0), x[0].sum() + x[1].sum()};
     },
     {{kA}, {kB}}},
    {"causal",
     [](const Tensors& x) -> Tensors {
       const int64_t time = x[0].size(1);
       const torch::Tensor mask = torch::ones({time, time}, torch::kBool).tril();
       const torch::Tensor scores = torch::matmul(x[0], x[0].transpose(1, 2)).masked_fill(mask.logical_not(), -1e9);
       return {torch::matmul(scores.softmax(-1), x[0])};
     },
     {{kA, kB, 4}}},
    {"positions",
     [](const Tensors& x) -> Tensors {
       const torch::Tensor at = torch::arange(x[0].size(0), torch::kFloat).unsqueeze(1);
       return {x[0] * torch::sin(at / 10), x[0].cumsum(0), torch::full_like(x[0], 2.0) * x[0].flip(0)};
     },
     {{kA, 3}}},
    // Windows.
    {"convolution",
     [](const Tensors& x) -> Tensors {
       const torch::Tensor once = torch::conv2d(x[0], x[1], {}, 2, 1);
       return {torch::max_pool2d(torch::conv2d(once, x[2], {}, 2, 1), 2, 2, 0, 1, true).flatten(1).sum(1)};
     },
     {{kA, 3, kB, kC}, {4, 3, 3, 3}, {4, 4, 3, 3}},
     9,
     40},
    {"pooling",
     [](const Tensors& x) -> Tensors {
       return {torch::avg_pool2d(x[0], 3, 2, 1), x[0].mean({2, 3}), torch::adaptive_avg_pool2d(x[0], {1, 1})};
     },
     {{kA, 2, kB, kC}},
     5,
     40},
    {"averages_of_unequal_windows",
     [](const Tensors& x) -> Tensors {
       return {torch::adaptive_avg_pool2d(x[0], {3, 2})};
     },
     {{kA, 2, kB, kC}},
     5,
     40},
    {"largest_of_unequal_windows",
     [](const Tensors& x) -> Tensors {
       return {std::get<0>(torch::adaptive_max_pool2d(x[0], {2, 3}))};
     },
     {{kA, 2, kB, kC}},
     5,
     40},
    {"padding",
     [](const Tensors& x) -> Tensors {
       return {torch::constant_pad_nd(x[0], {1, 2}), x[0].roll(1, 0), x[0].repeat({2, 1})};
     },
     {{kA, kB}}},
    {"sorting",
     [](const Tensors& x) -> Tensors {
       const auto [values, indices] = x[0].sort(1, /*descending=*/true);
       return {values, indices, std::get<0>(x[0].topk(1, 1)), std::get<0>(x[0].median(0)),
               std::get<0>(x[0].nanmedian(1))};
     },
     {{kA, kB}}},
};

// Layers and losses of many kinds over a batch of any size.
const Case kBatchCases[] = {
    {"group_norm", [](const Tensors& x) -> Tensors { return {torch::group_norm(x[0], 2)}; }, {{kA, 4, 5}}},
    {"instance_norm",
     [](const Tensors& x) -> Tensors { return {torch::instance_norm(x[0], {}, {}, {}, {}, true, 0.1, 1e-5, false)}; },
     {{kA, 3, 4, 4}}},
    {"attention",
     [](const Tensors& x) -> Tensors {
       return {at::scaled_dot_product_attention(x[0], x[1], x[1]),
               at::scaled_dot_product_attention(x[0], x[1], x[1], {}, 0.0, true)};
     },
     {{kA, 2, 6, 4}, {kA, 2, 6, 4}}},
    {"cross_entropy",
     [](const Tensors& x) -> Tensors {
       const torch::Tensor label = x[0].detach().argmax(1);
       return {F::cross_entropy(x[0], label), F::cross_entropy(x[0], label.remainder(3)),
               F::nll_loss(x[0].log_softmax(1), label.fmod(2)),
               at::cross_entropy_loss(x[0], label, x[1].detach().abs(), 1, -100, 0.1)};
     },
     {{kA, 5}, {5}}},
    {"other_losses",
     [](const Tensors& x) -> Tensors {
       return {F::l1_loss(x[0], x[1]),
               F::huber_loss(x[0], x[1]),
               F::binary_cross_entropy_with_logits(x[0], x[1].sigmoid()),
               at::cosine_embedding_loss(x[0], x[1], torch::ones({x[0].size(0)})),
               at::triplet_margin_loss(x[0], x[1], x[0] * x[1]),
               at::margin_ranking_loss(x[0], x[1], x[0].sign())};
     },
     {{kA, 4}, {kA, 4}}},
    {"cosine",
     [](const Tensors& x) -> Tensors {
       return {at::cosine_similarity(x[0], x[1]), x[0].norm(2, 1)};
     },
     {{kA, 4}, {kA, 4}}},
    {"transposed_convolution",
     [](const Tensors& x) -> Tensors { return {torch::conv_transpose2d(x[0], x[1], {}, 2, 1, 1)}; },
     {{kA, 3, 5, 5}, {3, 4, 3, 3}}},
    {"grouped_convolution",
     [](const Tensors& x) -> Tensors { return {torch::conv2d(x[0], x[1], {}, 1, 1, 1, 4)}; },
     {{kA, 4, 5, 5}, {4, 1, 3, 3}}},
    {"convolution_over_time",
     [](const Tensors& x) -> Tensors { return {torch::conv1d(x[0], x[1], {}, 1, 2, 2)}; },
     {{kA, 4, kB}, {6, 4, 3}},
     6,
     40},
    {"upsampling",
     [](const Tensors& x) -> Tensors {
       return {at::upsample_nearest2d(x[0], {8, 8}), at::upsample_bilinear2d(x[0], {7, 7}, false)};
     },
     {{kA, 2, 4, 4}}},
    {"channel_shuffle",
     [](const Tensors& x) -> Tensors {
       return {x[0].view({x[0].size(0), 2, 2, 5, 5}).transpose(1, 2).contiguous().view({-1, 4, 5, 5}),
               torch::pixel_shuffle(x[0], 2)};
     },
     {{kA, 4, 5, 5}}},
    {"windows",  // as of shifted windows
     [](const Tensors& x) -> Tensors {
       const torch::Tensor rolled = x[0].roll({-1, -1}, {1, 2});
       return {rolled.view({-1, 2, 2, 2, 2, 3}).permute({0, 1, 3, 2, 4, 5}).reshape({-1, 4, 3}).softmax(-1)};
     },
     {{kA, 4, 4, 3}}},
    {"gate",
     [](const Tensors& x) -> Tensors {
       return {x[0] * x[0].mean({2, 3}, true).sigmoid(), torch::glu(x[0], 1), x[0].amax({2, 3}), x[0].flatten(1)};
     },
     {{kA, 4, 3, 3}}},
    {"class_token",
     [](const Tensors& x) -> Tensors {
       return {torch::cat({x[1].expand({x[0].size(0), -1, -1}), x[0].flatten(2).transpose(1, 2)}, 1) + x[2]};
     },
     {{kA, 3, 2, 2}, {1, 1, 3}, {1, 5, 3}}},
    {"gathered",
     [](const Tensors& x) -> Tensors {
       const torch::Tensor index = std::get<1>(x[0].detach().sort(1));
       return {x[0].gather(1, index), torch::embedding(x[1], index), x[1].index_select(0, index.flatten()),
               torch::zeros_like(x[0]).scatter_add(1, index, x[0])};
     },
     {{kA, 4}, {4, 3}}},
    {"last_of_each",
     [](const Tensors& x) -> Tensors {
       const torch::Tensor at = torch::arange(x[0].size(0));
       return {x[0].index({at, at.remainder(3)}), std::get<0>(x[0].max(1)), std::get<0>(x[0].topk(2, 1))};
     },
     {{kA, 3, 2}}},
    {"products",
     [](const Tensors& x) -> Tensors {
       return {torch::bmm(x[0], x[0].transpose(1, 2)), torch::einsum("bij,jk->bik", {x[0], x[1]}),
               torch::linear(x[0], x[1].t())};
     },
     {{kA, 3, 4}, {4, 5}}},
    {"chunks",
     [](const Tensors& x) -> Tensors {
       const Tensors parts = x[0].chunk(2, 1);
       return {parts[0] * parts[1].tanh(), torch::stack({parts[0], parts[1]}).sum(0), x[0].split(1, 1)[2]};
     },
     {{kA, 4, 3}}},
    {"masked",
     [](const Tensors& x) -> Tensors {
       const torch::Tensor mask = (x[0] > 0).to(torch::kFloat);
       return {(x[0] * mask).sum(1) / mask.sum(1).clamp_min(1), torch::where(x[0] > 0.5, x[0], x[1])};
     },
     {{kA, 6}, {kA, 6}}},
    {"recurrent",
     [](const Tensors& x) -> Tensors {
       const torch::Tensor start = torch::zeros({1, x[0].size(0), 3});
       const auto [output, hidden, cell] =
           torch::lstm(x[0], {start, start}, {x[1], x[2], x[3], x[3]}, true, 1, 0.0, true, false, true);
       return {output, cell};
     },
     {{kA, 5, 2}, {12, 2}, {12, 3}, {12}}},
    {"distances",
     [](const Tensors& x) -> Tensors {
       return {(x[0].unsqueeze(1) - x[1]).pow(2).sum(-1), x[0].diff()};
     },
     {{kA, 3}, {kB, 3}}},
    {"contrastive",  // every row against every other
     [](const Tensors& x) -> Tensors {
       const torch::Tensor a = F::normalize(x[0]), b = F::normalize(x[1]);
       return {F::cross_entropy(torch::matmul(a, b.t()) / 0.1, torch::arange(x[0].size(0)))};
     },
     {{kA, 4}, {kA, 4}}},
};

INSTANTIATE_TEST_SUITE_P(Layers, DynamicFunction, ::testing::ValuesIn(kBatchCases),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Functions, DynamicFunction, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

std::string RefusalOf(const Case& c) { return std::string(CompileCase(c).status().message()); }

TEST(DynamicRefusalTest, ReportsBranchesOnSizes) {
  EXPECT_THAT(RefusalOf({"branch",
                         [](const Tensors& x) -> Tensors { return {x[0].size(0) > 30 ? x[0].sin() : x[0].cos()}; },
                         {{kA}}}),
              HasSubstr("where it has aten.cos.default with a=11, it has aten.sin.default with a=40"));
  EXPECT_THAT(
      RefusalOf({"bounded", [](const Tensors& x) -> Tensors { return {x[0].slice(0, 0, 30) * 2}; }, {{kA}}}),
      HasSubstr("aten.slice.Tensor: a size is not a known function of the dynamic dimensions: it was 11, 14, 13"));
  EXPECT_THAT(RefusalOf({"loop",
                         [](const Tensors& x) -> Tensors {
                           torch::Tensor sum = x[0][0];
                           for (int64_t i = 1; i < x[0].size(0); ++i) sum = sum * x[0][i];
                           return {sum};
                         },
                         {{kA, 2}}}),
              HasSubstr("what it computes depends on its sizes"));
}

TEST(DynamicRefusalTest, ReportsNumbersThatAreSomethingElseAtTheEndsOfTheRange) {
  EXPECT_THAT(RefusalOf({"other_number",
                         [](const Tensors& x) -> Tensors { return {x[0] * (x[0].size(0) > 30 ? 3.0 : 2.0)}; },
                         {{kA}}}),
              HasSubstr("a number is not a known function of the dynamic dimensions: it was 2, 2, 2, 2, 3, 2"));
  EXPECT_THAT(RefusalOf({"bounded_number",
                         [](const Tensors& x) -> Tensors {
                           return {x[0] * (1.0 / static_cast<double>(std::min<int64_t>(x[0].size(0), 30)))};
                         },
                         {{kA}}}),
              HasSubstr("a number is not a known function of the dynamic dimensions"));
}

TEST(DynamicRefusalTest, ReportsResultsThatDifferForASizeOfOne) {
  const Case squeezed = {"squeezed", [](const Tensors& x) -> Tensors { return {x[0].sin().squeeze()}; }, {{kA, 3}}, 1};
  EXPECT_THAT(std::string(CompileCase(squeezed).status().message()),
              HasSubstr("with a=1, which the declared ranges allow, 'forward' does not return the 'output.0' that it "
                        "returns at larger sizes; declare a range from 2"));
}

TEST(DynamicRefusalTest, ErrorsContainTheSizes) {
  const std::string message = RefusalOf({"mismatch",
                                         [](const Tensors& x) -> Tensors {
                                           return {x[0].view({-1, 6}) + x[0].size(0)};
                                         },
                                         {{kA, 3}}});
  EXPECT_THAT(message, HasSubstr("with a=11, which the declared ranges allow: "));
}

TEST(DynamicMetadataTest, OutputsTellTheirDynamicDimensions) {
  aot::CompileOptions options;
  options.dynamic_dims = {{0, 0, "a"}};
  const auto compiled = aot::CompileFunction(
      [](const Tensors& x) -> Tensors {
        return {x[0] * 2, x[0].view({-1})};
      },
      {torch::randn({5, 3}).requires_grad_()}, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto program = Program::LoadBytes(compiled->bytes());
  ASSERT_TRUE(program.ok()) << program.status();
  const serialization::Method& method = (*program)->method(0);
  ASSERT_EQ(method.metadata().output_info_size(), 2);
  EXPECT_THAT(method.metadata().output_info(0).dynamic_dims(), ::testing::ElementsAre(0));
  EXPECT_EQ(method.metadata().output_info(1).view_steps(0).view().sizes(0), "(s0 * 3)");
}

}  // namespace
}  // namespace cotan::testing
