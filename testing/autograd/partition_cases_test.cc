// SPDX-License-Identifier: Apache-2.0

// How forward and backward are divided in compiled artifacts: the number of saved tensors, static and dynamic, beside
// the counts of PyTorch's partitioners, and gradients beside LibTorch eager. The rows G2 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "aot/capture/effects.h"
#include "aot/compile.h"
#include "aot/memory/fit_memory.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples, const aot::CompileOptions& options) {
  const auto model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  auto compiled = Compiled::Load(*model);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

const serialization::Method& MethodOf(Compiled& f, const std::string& name) {
  const Program& program = f.session().program();
  return program.method(*program.FindMethod(name));
}

// Expects the results that require grad, and the gradients for some tangents, to be those of eager.
void ExpectEager(Compiled& f, const aot::TensorFunction& function, const Tensors& given) {
  const Tensors inputs = Copies(given);
  const Variables ours = ToVariables(given);
  const Tensors expected = function(inputs);
  const Variables results = f(ours);
  Tensors eager_tangents;
  std::vector<Tensor> tangents;
  for (size_t i = 0; i < results.size(); ++i) {
    ExpectNear(ToTorch(results[i].tensor()), expected[i].detach());
    eager_tangents.push_back(Constant(static_cast<int>(70 + i), expected[i].sizes()));
    tangents.push_back(ToCotan(eager_tangents.back()));
  }
  torch::autograd::backward(expected, eager_tangents);
  const absl::Status ran = autograd::Backward(results, tangents, f.ops());
  ASSERT_TRUE(ran.ok()) << ran;
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].grad().defined(), inputs[i].grad().defined()) << i;
    if (inputs[i].grad().defined()) ExpectNear(ToTorch(ours[i].grad().tensor()), inputs[i].grad());
  }
}

int64_t SizeOf(const serialization::TensorType& type, int dim) { return std::stoll(type.sizes(dim)); }

int64_t Elements(const serialization::Method& method, uint32_t value) {
  const serialization::TensorType& type = method.values(static_cast<int>(value)).type();
  int64_t elements = 1;
  for (int i = 0; i < type.sizes_size(); ++i) elements *= SizeOf(type, i);
  return elements;
}

int CountOps(const serialization::Method& method, serialization::Op::KindCase kind) {
  return static_cast<int>(std::count_if(method.ops().begin(), method.ops().end(),
                                        [kind](const serialization::Op& op) { return op.kind_case() == kind; }));
}

// Returns the elements of all inputs and outputs of forward and backward, each counted once in a method. Expects that
// both are one kernel.
int64_t ElementsMovedByTwoKernels(Compiled& f) {
  int64_t elements = 0;
  for (const char* name : {"forward", "backward"}) {
    const serialization::Method& method = MethodOf(f, name);
    EXPECT_EQ(CountOps(method, serialization::Op::kExpr), 1) << name;
    EXPECT_EQ(method.ops_size(), 1) << name;
    std::vector<uint32_t> values(method.inputs().begin(), method.inputs().end());
    values.insert(values.end(), method.outputs().begin(), method.outputs().end());
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const uint32_t value : values) elements += Elements(method, value);
  }
  return elements;
}

TEST(PartitionCasesTest, LayerNormSavesAtMostFiveValues) {
  const auto function = [](const Tensors& in) -> Tensors { return {at::layer_norm(in[0], {10}, in[1], in[2])}; };
  const Tensors given = {Leaf(0, {3, 10}), Leaf(1, {10}), Leaf(2, {10})};
  aot::CompileOptions options;
  options.partitioner = aot::Partitioner::kDefault;
  Compiled f = Compile(function, given, options);
  const serialization::Method& backward = MethodOf(f, "backward");
  EXPECT_LE(MethodOf(f, "forward").num_saved(), 5u);
  EXPECT_LE(backward.inputs_size(), 6);
  EXPECT_EQ(backward.outputs_size(), 3);
  ExpectEager(f, function, given);
}

// Sizes are symbols of both methods; they are not saved.
TEST(PartitionCasesTest, WhatOnlyNeedsSizesSavesNothing) {
  const auto function = [](const Tensors& in) -> Tensors {
    return {at::cat({in[0].expand({in[1].size(0) + in[2].size(0), in[0].size(0)}), in[1], in[2]})};
  };
  const auto inputs = [](int64_t b, int64_t c, int64_t width) -> Tensors {
    return {Leaf(0, {width}), Leaf(1, {b, width}), Leaf(2, {c, width})};
  };
  aot::CompileOptions options;
  options.dynamic_dims = {
      {0, 0, "w", 2, 32}, {1, 1, "w", 2, 32}, {2, 1, "w", 2, 32}, {1, 0, "b", 2, 32}, {2, 0, "c", 2, 32}};
  for (const aot::Partitioner partitioner : {aot::Partitioner::kDefault, aot::Partitioner::kMinCut}) {
    options.partitioner = partitioner;
    Compiled f = Compile(function, inputs(3, 4, 10), options);
    EXPECT_EQ(MethodOf(f, "forward").num_saved(), 0u);
    EXPECT_EQ(MethodOf(f, "backward").inputs_size(), 1);
    EXPECT_EQ(MethodOf(f, "backward").outputs_size(), 3);
    ExpectEager(f, function, inputs(3, 4, 10));
    ExpectEager(f, function, inputs(5, 2, 7));
  }
}

TEST(PartitionCasesTest, ProductsOfDynamicSizesSaveTheirOperands) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor joined = at::cat({in[0].expand({in[1].size(0) + in[2].size(0), in[0].size(0)}), in[1], in[2]});
    return {joined, in[2] * 1, joined.mm(in[3]).mm(in[0].view({-1, 1}))};
  };
  const auto inputs = [](int64_t b, int64_t c, int64_t width) -> Tensors {
    return {Leaf(0, {width}), Leaf(1, {b, width}), Leaf(2, {c, width}), Leaf(3, {width, width})};
  };
  aot::CompileOptions options;
  options.dynamic_dims = {{0, 0, "w", 2, 32}, {1, 1, "w", 2, 32}, {2, 1, "w", 2, 32}, {1, 0, "b", 2, 32},
                          {2, 0, "c", 2, 32}, {3, 0, "w", 2, 32}, {3, 1, "w", 2, 32}};
  for (const aot::Partitioner partitioner : {aot::Partitioner::kDefault, aot::Partitioner::kMinCut}) {
    options.partitioner = partitioner;
    Compiled f = Compile(function, inputs(3, 4, 10), options);
    EXPECT_LE(MethodOf(f, "forward").num_saved(), 4u);
    EXPECT_EQ(MethodOf(f, "backward").outputs_size(), 4);
    ExpectEager(f, function, inputs(3, 4, 10));
    ExpectEager(f, function, inputs(6, 2, 5));
  }
}

// The gradient of the argument first, that of the weight from the retained graph after it.
TEST(PartitionCasesTest, BothHalvesOfABackwardAreTheWhole) {
  const auto function = [](const Tensors& in) -> Tensors { return {(in[0] * in[1]).sum()}; };
  const Tensors given = {Leaf(0, {4, 3}), Leaf(1, {4, 3})};
  Compiled f = Compile(function, given, {});
  const Variables in = ToVariables(given);
  const Variable y = f(in)[0];
  const auto whole = autograd::Grad({y}, in, {}, f.ops(), {.retain_graph = true});
  const auto of_input = autograd::Grad({y}, {in[0]}, {}, f.ops(), {.retain_graph = true});
  const auto of_weight = autograd::Grad({y}, {in[1]}, {}, f.ops());
  ASSERT_TRUE(whole.ok() && of_input.ok() && of_weight.ok());
  EXPECT_EQ(*(*of_input)[0].ToVector<double>(), *(*whole)[0].ToVector<double>());
  EXPECT_EQ(*(*of_weight)[0].ToVector<double>(), *(*whole)[1].ToVector<double>());
  ExpectNear(ToTorch((*whole)[0]), given[1].detach());
}

// Saves a mean, which is the gradient.
struct MeanAsGradient : torch::autograd::Function<MeanAsGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->saved_data["mean"] = std::get<1>(at::var_mean(at::stack({x, x}), 0));
    return x.sum();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors&) {
    return {context->saved_data["mean"].toTensor()};
  }
};

TEST(PartitionCasesTest, ASavedValueMayBeAGradientItself) {
  const auto function = [](const Tensors& in) -> Tensors { return {MeanAsGradient::apply(in[0])}; };
  for (const aot::Partitioner partitioner : {aot::Partitioner::kDefault, aot::Partitioner::kMinCut}) {
    aot::CompileOptions options;
    options.partitioner = partitioner;
    options.save_policy = [](const aot::Graph&, const aot::Node&) { return aot::SavePolicy::kSave; };
    Compiled f = Compile(function, {Leaf(0, {4})}, options);
    const Variable x = ToVariable(Leaf(0, {4}));
    ASSERT_TRUE(autograd::Backward({f({x})[0]}, {}, f.ops()).ok());
    ExpectNear(ToTorch(x.grad().tensor()), Constant(0, {4}));
  }
}

// Two parts of four products each, of which only the values between them are saved: what torch.utils.checkpoint does.
TEST(PartitionCasesTest, CheckpointsByPolicySaveTheSameUnderABudget) {
  const auto function = [](const Tensors& in) -> Tensors {
    at::Tensor x = in[0];
    for (int i = 0; i < 8; ++i) x = (x.mm(in[1]) * 0.02).tanh();
    return {x};
  };
  const Tensors given = {Leaf(0, {96, 96}), Leaf(1, {96, 96})};
  const auto between_parts = [](const aot::Graph& joint, const aot::Node& node) {
    int earlier = 0;
    for (const aot::Node& other : joint.nodes()) {
      if (other.outputs == node.outputs) break;
      earlier += other.op == node.op ? 1 : 0;
    }
    const bool is_between = node.op == "prim.matmul" && earlier == 3;
    return is_between ? aot::SavePolicy::kSave : aot::SavePolicy::kRecompute;
  };
  struct Cut {
    uint32_t num_saved;
    int backward_ops, backward_products;
  };
  const auto cut = [&](double budget, const aot::SavePolicyFunction& policy) {
    aot::CompileOptions options;
    options.activation_memory_budget = budget;
    options.save_policy = policy;
    Compiled f = Compile(function, given, options);
    ExpectEager(f, function, given);
    const serialization::Method& backward = MethodOf(f, "backward");
    return Cut{MethodOf(f, "forward").num_saved(), backward.ops_size(), CountOps(backward, serialization::Op::kMatmul)};
  };
  const Cut all = cut(1, nullptr), alone = cut(1, between_parts), within = cut(0.01, between_parts);
  EXPECT_EQ(alone.num_saved, 3u);  // both arguments, and the value between the parts
  EXPECT_EQ(within.num_saved, alone.num_saved);
  EXPECT_EQ(within.backward_ops, alone.backward_ops);
  EXPECT_EQ(within.backward_products, alone.backward_products);
  EXPECT_LT(alone.num_saved, all.num_saved);
  EXPECT_GT(alone.backward_products, all.backward_products);
}

TEST(PartitionCasesTest, ViewsOfAnArgumentAreRepeatedInTheBackward) {
  const auto function = [](const Tensors& in) -> Tensors {
    const Tensors halves = in[0].split(2);
    return {halves[0].sin() + halves[1].cos()};
  };
  Compiled f = Compile(function, {Leaf(0, {4, 4})}, {});
  const serialization::Method& forward = MethodOf(f, "forward");
  EXPECT_EQ(forward.num_saved(), 1u);
  EXPECT_EQ(*forward.outputs().rbegin(), forward.inputs(0));
  EXPECT_EQ(MethodOf(f, "backward").inputs_size(), 2);
  ExpectEager(f, function, {Leaf(0, {4, 4})});
}

TEST(PartitionCasesTest, ChainsOfCosinesSaveOneValueAndMoveEachElementOnce) {
  const auto of_one = [](const Tensors& in) -> Tensors { return {in[0].cos().cos().cos()}; };
  const auto of_sum = [](const Tensors& in) -> Tensors { return {(in[0] + in[1] + in[2] + in[3]).cos().cos()}; };
  struct Row {
    aot::TensorFunction function;
    int arguments;
    int64_t elements_moved;
  };
  for (const Row& row : {Row{of_one, 1, 50}, Row{of_sum, 4, 90}}) {
    Tensors given;
    for (int i = 0; i < row.arguments; ++i) given.push_back(Leaf(i, {10}));
    Compiled f = Compile(row.function, given, {});
    EXPECT_EQ(MethodOf(f, "forward").outputs_size(), 2);
    EXPECT_EQ(MethodOf(f, "backward").inputs_size(), 2);
    EXPECT_EQ(MethodOf(f, "backward").outputs_size(), row.arguments);
    EXPECT_EQ(ElementsMovedByTwoKernels(f), row.elements_moved);
    ExpectEager(f, row.function, given);
  }
}

// Returns the lines with `text` in the graph of a method after the partition, from the dump in `folder`.
std::vector<std::string> PartitionedLines(const std::string& folder, const std::string& method,
                                          const std::string& text) {
  std::vector<std::string> lines;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!absl::StartsWith(name, method + ".") || !absl::EndsWith(name, ".partition.txt")) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (absl::StrContains(line, text)) lines.push_back(line);
    }
  }
  return lines;
}

TEST(PartitionCasesTest, TheDumpMarksRepeatedNodes) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0].cos().cos().cos()}; };
  aot::CompileOptions options;
  options.debug.dump_dir = ::testing::TempDir() + "/repeated_nodes";
  Compiled f = Compile(function, {Leaf(0, {10})}, options);
  EXPECT_EQ(PartitionedLines(options.debug.dump_dir, "forward", "aten.cos").size(), 3u);
  EXPECT_THAT(PartitionedLines(options.debug.dump_dir, "forward", "(recomputed)"), IsEmpty());
  const std::vector<std::string> repeated = PartitionedLines(options.debug.dump_dir, "backward", "(recomputed)");
  EXPECT_EQ(repeated.size(), 2u);
  EXPECT_THAT(repeated, Each(HasSubstr("aten.cos")));
  ExpectEager(f, function, {Leaf(0, {10})});
}

TEST(PartitionCasesTest, EffectsAreNotRepeated) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor y = in[0].sin();
    aot::Assert(y.isfinite(), "finite");
    return {(y.exp() * in[1]).sum()};
  };
  const Tensors given = {Leaf(0, {8}), Leaf(1, {8})};
  aot::CompileOptions options;
  options.activation_memory_budget = 0;
  Compiled f = Compile(function, given, options);
  EXPECT_EQ(CountOps(MethodOf(f, "forward"), serialization::Op::kEffect), 1);
  EXPECT_EQ(CountOps(MethodOf(f, "backward"), serialization::Op::kEffect), 0);
  ExpectEager(f, function, given);
}

TEST(PartitionCasesTest, ASortThatThePolicySavesIsNotRepeatedUnderASmallBudget) {
  const auto function = [](const Tensors& in) -> Tensors {
    const auto [values, index] = in[0].sin().topk(4);
    return {values.cos() * index.to(torch::kDouble).sin()};
  };
  const auto keep_sorted = [](const aot::Graph&, const aot::Node& node) {
    return node.op == "prim.sort" ? aot::SavePolicy::kSave : aot::SavePolicy::kDefault;
  };
  const auto sorts_of_backward = [&](double budget, const aot::SavePolicyFunction& policy) {
    aot::CompileOptions options;
    options.activation_memory_budget = budget;
    options.save_policy = policy;
    Compiled f = Compile(function, {Leaf(0, {64})}, options);
    EXPECT_EQ(CountOps(MethodOf(f, "forward"), serialization::Op::kSort), 1);
    ExpectEager(f, function, {Leaf(0, {64})});
    return CountOps(MethodOf(f, "backward"), serialization::Op::kSort);
  };
  EXPECT_EQ(sorts_of_backward(0.1, keep_sorted), 0);
  EXPECT_EQ(sorts_of_backward(0, nullptr), 1);
}

constexpr int64_t kUnit = 128;  // so many terms that a product is not cheap to repeat

// Elements saved besides arguments, in squares of the unit, and multiplications of all products, in cubes of it.
struct Measured {
  double saved = 0, work = 0;
};

Measured Measure(Compiled& f) {
  Measured measured;
  const serialization::Method& forward = MethodOf(f, "forward");
  for (int i = forward.outputs_size() - static_cast<int>(forward.num_saved()); i < forward.outputs_size(); ++i) {
    const bool is_argument = std::count(forward.inputs().begin(), forward.inputs().end(), forward.outputs(i)) > 0;
    if (!is_argument) measured.saved += static_cast<double>(Elements(forward, forward.outputs(i)));
  }
  for (const serialization::Method* method : {&forward, &MethodOf(f, "backward")}) {
    for (const serialization::Op& op : method->ops()) {
      if (!op.has_matmul()) continue;
      const serialization::TensorType& right = method->values(static_cast<int>(op.inputs(1))).type();
      measured.work += static_cast<double>(Elements(*method, op.inputs(0)) * SizeOf(right, 1));
    }
  }
  measured.saved /= kUnit * kUnit;
  measured.work /= kUnit * kUnit * kUnit;
  return measured;
}

TEST(PartitionCasesTest, OnlyTheCosineOfAProductOfACosineIsRepeated) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0].cos().mm(in[1]).sum()}; };
  const Tensors given = {Leaf(0, {kUnit, kUnit}), Leaf(1, {kUnit, kUnit})};
  const auto measure_within = [&](double budget) {
    aot::CompileOptions options;
    options.activation_memory_budget = budget;
    Compiled f = Compile(function, given, options);
    ExpectEager(f, function, given);
    return Measure(f);
  };
  const Measured all = measure_within(1), half = measure_within(0.5);
  EXPECT_EQ(all.saved, 1);
  EXPECT_EQ(half.saved, 0);
  EXPECT_EQ(all.work, 3);
  EXPECT_EQ(half.work, 3);
}

struct Product {
  int64_t rows, inner, columns;  // in units
};

// Returns cos(x * w * scale) of each product; only w needs a gradient. The backward reads x and w from the states, so
// that they count as nothing that is saved.
struct Products : torch::nn::Module {
  explicit Products(const std::vector<Product>& products) {
    for (const Product& p : products) {
      const std::string i = std::to_string(xs.size());
      xs.push_back(register_buffer("x" + i, torch::randn({p.rows * kUnit, p.inner * kUnit}, torch::kDouble)));
      ws.push_back(register_parameter("w" + i, torch::randn({p.inner * kUnit, p.columns * kUnit}, torch::kDouble)));
    }
  }
  Tensors forward(at::Tensor scale) {
    Tensors results;
    for (size_t i = 0; i < xs.size(); ++i) results.push_back((xs[i].mm(ws[i]) * scale).cos());
    return results;
  }
  Tensors xs, ws;
};

Measured MeasureProducts(double budget, const std::vector<Product>& products) {
  aot::CompileOptions options;
  options.activation_memory_budget = budget;
  options.methods.eval = false;
  const at::Tensor scale = Constant(0, {});
  const auto make = [&] { return std::make_shared<Products>(products); };
  const auto model = aot::CompileModule(make, {scale}, options);
  EXPECT_TRUE(model.ok()) << model.status();
  Compiled f = *Compiled::Load(*model);
  torch::manual_seed(0);  // of the compiled states, too
  const auto net = make();
  const Tensors expected = net->forward(scale);
  const Variables results = f({ToVariable(scale)});
  Tensors eager_tangents;
  std::vector<Tensor> tangents;
  for (size_t i = 0; i < results.size(); ++i) {
    ExpectNear(ToTorch(results[i].tensor()), expected[i].detach());
    eager_tangents.push_back(Constant(static_cast<int>(i), expected[i].sizes()));
    tangents.push_back(ToCotan(eager_tangents.back()));
  }
  torch::autograd::backward(expected, eager_tangents);
  EXPECT_TRUE(autograd::Backward(results, tangents, f.ops()).ok());
  for (const auto& item : net->named_parameters()) {
    ExpectNear(ToTorch(f.session().Parameter(item.key())->grad().tensor()), item.value().grad());
  }
  return Measure(f);
}

TEST(PartitionCasesTest, SavesExactlyWhatFitsOfParallelProducts) {
  for (const int units : {20, 18, 17, 16, 15, 14, 13, 11, 7, 6, 5, 0}) {
    EXPECT_EQ(MeasureProducts(units / 20.0, {{11, 1, 1}, {3, 1, 1}, {4, 1, 1}, {2, 1, 1}}).saved, units);
  }
  for (const int units : {50, 42, 30, 19, 8, 3, 0}) {
    EXPECT_EQ(MeasureProducts(units / 50.0, {{3, 1, 1}, {5, 1, 1}, {11, 1, 1}, {17, 1, 1}, {14, 1, 1}}).saved, units);
  }
}

// Half of the bytes are saved by repeating the largest product, three quarters by repeating two small ones.
TEST(PartitionCasesTest, ASmallerBudgetNeedsNoMoreMemoryOnItsTarget) {
  const auto parallel = [](const Tensors& in) -> Tensors {
    Tensors results;
    for (size_t i = 1; i < in.size(); ++i) results.push_back(in[i].mm(in[0]).cos());
    return results;
  };
  const auto chain = [](const Tensors& in) -> Tensors {
    at::Tensor x = in[0];
    for (int i = 0; i < 8; ++i) x = (x.mm(in[1]) * 0.02).tanh();
    return {x};
  };
  struct Row {
    aot::TensorFunction function;
    Tensors given;
  };
  const Row rows[] = {{parallel,
                       {Leaf(0, {kUnit, kUnit}), Leaf(1, {11 * kUnit, kUnit}), Leaf(2, {3 * kUnit, kUnit}),
                        Leaf(3, {4 * kUnit, kUnit}), Leaf(4, {2 * kUnit, kUnit})}},
                      {chain, {Leaf(0, {kUnit, kUnit}), Leaf(1, {kUnit, kUnit})}}};
  aot::CompileOptions options;
  options.memory_target = aot::MemoryTarget{.kernels = &CpuKernels(), .threads = 1};
  for (const Row& row : rows) {
    int64_t last = std::numeric_limits<int64_t>::max();
    for (const double budget : {1.0, 0.75, 0.5, 0.25, 0.0}) {
      options.activation_memory_budget = budget;
      Compiled f = Compile(row.function, row.given, options);
      const auto peaks = aot::MeasurePeaks(f.session().program().artifact(), *options.memory_target);
      ASSERT_TRUE(peaks.ok()) << peaks.status();
      EXPECT_LE(peaks->at("forward"), last) << budget;
      last = peaks->at("forward");
      ExpectEager(f, row.function, row.given);
    }
  }
}

TEST(PartitionCasesTest, SavesTheMostWorkOfParallelProducts) {
  struct Row {
    std::vector<Product> products;
    double budget, saved, added_work;
  };
  const std::vector<Product> two = {{1, 1, 4}, {2, 2, 2}}, three = {{4, 4, 4}, {6, 6, 2}, {2, 2, 6}};
  EXPECT_EQ(MeasureProducts(1, two).work, 24);
  for (const Row& row : {Row{two, 0.5, 4, 4}, Row{three, 28.0 / 40, 28, 24}, Row{three, 16.0 / 40, 12, 88}}) {
    const Measured all = MeasureProducts(1, row.products), cut = MeasureProducts(row.budget, row.products);
    EXPECT_EQ(cut.saved, row.saved);
    EXPECT_EQ(cut.work - all.work, row.added_work);
  }
}

}  // namespace
}  // namespace cotan::testing
