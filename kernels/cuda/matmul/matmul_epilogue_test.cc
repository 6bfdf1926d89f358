// SPDX-License-Identifier: Apache-2.0

// Epilogues within the kernels of products, on the PTX interpreter: they have the bits of the product followed by the
// expression, each in a launch of its own.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/api/in_place.h"
#include "kernels/cuda/compile_gate/compile_gate.h"
#include "kernels/cuda/expr/expr_case.h"
#include "kernels/cuda/expr/expr_plan.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "kernels/testing/random_expr.h"
#include "testing/tolerance.h"

namespace cotan::cuda::testing {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many
using cotan::testing::DenseLayout;
using cotan::testing::ExprBuilder;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::TestSeed;

constexpr DType kF32 = DType::kFloat32;

absl::StatusOr<KernelPlan> Plan(const KernelRequest& request) { return PlanMatmul(request, PlanExpr); }
absl::StatusOr<KernelPlan> PlanTiled(const KernelRequest& request) { return PlanTiledMatmul(request, PlanExpr); }

std::unique_ptr<HostTensor> Random(DType dtype, const StridedLayout& layout, std::mt19937_64& random) {
  const double bound = IsInteger(dtype) ? 100 : 1;
  return std::make_unique<HostTensor>(RandomTensor(dtype, layout, random, -bound, bound));
}

// A product with an epilogue.
struct EpilogueCase {
  Op op;
  Tensors inputs;   // of the product, then those of the epilogue from 1 on
  Tensors outputs;  // not written yet; copied for each run

  void SetEpilogue(const Expr& expr) { *op.mutable_matmul()->mutable_epilogue() = expr; }

  Tensors Run(const RunOptions& options = {}, RunResult* result = nullptr) const {
    Tensors written = Copies(outputs);
    const absl::StatusOr<RunResult> run = RunPlan(Plan, op, Pointers(inputs), Pointers(written), options);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return written;
    EXPECT_EQ(run->launches, outputs[0]->numel() > 0 ? 1 : 0);
    if (result != nullptr) *result = *run;
    return written;
  }

  Tensors RunInPlace(size_t input, size_t output, const RunOptions& options) const {
    const Tensors shared = Copies(inputs);
    Tensors written = Copies(outputs);
    std::vector<HostTensor*> pointers = Pointers(written);
    pointers[output] = shared[input].get();
    const absl::StatusOr<RunResult> run = RunPlan(Plan, op, Pointers(shared), pointers, options);
    EXPECT_TRUE(run.ok()) << run.status();
    *written[output] = *shared[input];
    return written;
  }

  bool AllowsInPlace(size_t input, size_t output) const {
    if (inputs[input]->dtype() != outputs[output]->dtype()) return false;
    std::vector<TensorSpec> input_specs;
    std::vector<TensorSpec> output_specs;
    for (const auto& tensor : inputs) input_specs.push_back(tensor->spec());
    for (const auto& tensor : outputs) output_specs.push_back(tensor->spec());
    return InPlaceSafe({.op = op, .inputs = input_specs, .outputs = output_specs, .symbols = {}},
                       static_cast<int>(input), static_cast<int>(output));
  }

  // Returns the sizes of the product.
  DimVector Sizes() const {
    DimVector sizes;
    for (const std::string& size : op.matmul().epilogue().domain_sizes()) sizes.push_back(std::stoll(size));
    return sizes;
  }

  // Runs the product without its epilogue.
  HostTensor Product(RunResult* result = nullptr) const {
    Op product;
    product.mutable_matmul();
    HostTensor values(inputs[0]->dtype(), DenseLayout(Sizes()));
    const absl::StatusOr<RunResult> run =
        RunPlan(PlanTiled, product, {inputs[0].get(), inputs[1].get()}, {&values}, RunOptions{});
    EXPECT_TRUE(run.ok()) << run.status();
    if (run.ok() && result != nullptr) *result = *run;
    return values;
  }

  // Returns what the product and then the expression give.
  Tensors RunApart() const {
    ExprCase expr;
    *expr.op.mutable_expr() = op.matmul().epilogue();
    expr.inputs = Copies(inputs);
    expr.inputs.erase(expr.inputs.begin());
    *expr.inputs[0] = Product();
    expr.outputs = Copies(outputs);
    return expr.Run();
  }
};

// Returns the operands of a product of `sizes` over `k` steps: strided ones, and broadcast ones of batches.
EpilogueCase MakeProduct(DType dtype, const DimVector& sizes, int64_t k, std::mt19937_64& random) {
  EpilogueCase result;
  DimVector a(sizes);
  DimVector b(sizes);
  a.back() = k;
  b[b.size() - 2] = k;
  for (size_t d = 0; d + 2 < sizes.size(); ++d) {
    if (random() % 3 == 0) (random() % 2 == 0 ? a : b)[d] = 1;
  }
  for (const DimVector& operand : {a, b}) {
    const bool is_plain = random() % 2 == 0;
    result.inputs.push_back(
        Random(dtype, is_plain ? DenseLayout(operand) : RandomLayout(operand, random, true, true), random));
  }
  return result;
}

// Expects the bits of the two ops, for all places of the outputs. Returns the number of outputs in place of inputs.
int ExpectSameBits(const EpilogueCase& one, uint64_t seed = 0) {
  const Tensors expected = one.RunApart();
  EXPECT_EQ(Difference(expected, one.Run({.guarded_outputs = seed % 2 == 1, .seed = seed})), "");
  int in_place = 0;
  for (size_t input = 2; input < one.inputs.size(); ++input) {
    for (size_t output = 0; output < one.outputs.size(); ++output) {
      if (!one.AllowsInPlace(input, output)) continue;
      ++in_place;
      EXPECT_EQ(Difference(expected, one.RunInPlace(input, output, {.seed = seed})), "")
          << "output " << output << " in place of input " << input;
    }
  }
  return in_place;
}

// The step of SGD with momentum of a weight whose gradient is the product. Inputs 2 to 4: weight, momentum, scalar.
EpilogueCase MomentumStep(DType dtype, int64_t m, int64_t k, int64_t n, std::mt19937_64& random) {
  EpilogueCase one = MakeProduct(dtype, {m, n}, k, random);
  ExprBuilder b({m, n});
  const int momentum = b.Add(b.Mul(b.Input(2, dtype), b.Input(3, dtype)), b.Input(0, dtype));
  b.Output(b.Sub(b.Input(1, dtype), b.Mul(momentum, b.Input(3, dtype))));
  b.Output(momentum);
  one.SetEpilogue(b.expr());
  for (int i = 0; i < 2; ++i) one.inputs.push_back(Random(dtype, DenseLayout({m, n}), random));
  one.inputs.push_back(Random(dtype, DenseLayout({}), random));
  for (int i = 0; i < 2; ++i) one.outputs.push_back(std::make_unique<HostTensor>(dtype, DenseLayout({m, n})));
  return one;
}

// relu(product + bias), and where it is 0. Outputs are stored by columns.
EpilogueCase BiasRelu(DType dtype, int64_t m, int64_t k, int64_t n, std::mt19937_64& random) {
  EpilogueCase one = MakeProduct(dtype, {m, n}, k, random);
  ExprBuilder b({m, n});
  const int y = b.Apply(FN_RELU, {b.Add(b.Input(0, dtype), b.Input(1, dtype))});
  b.Output(y);
  b.Output(b.Apply(FN_LE, {y, b.Constant(dtype, 0)}));
  one.SetEpilogue(b.expr());
  one.inputs.push_back(Random(dtype, DenseLayout({n}), random));
  const int64_t columns_first[] = {1, 0};
  one.outputs.push_back(std::make_unique<HostTensor>(dtype, DenseLayout({m, n}, columns_first)));
  one.outputs.push_back(std::make_unique<HostTensor>(DType::kBool, DenseLayout({m, n})));
  return one;
}

struct Shape {
  int64_t m, k, n;
};
// One element, no steps, few tiles of many steps (slices), odd ends.
constexpr Shape kShapes[] = {{1, 1, 1}, {3, 0, 5}, {33, 17, 47}, {10, 200, 40}, {32, 300, 1}, {65, 31, 130}};

void ExpectSameBitsOfShape(DType dtype, const Shape& shape, std::mt19937_64& random) {
  SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", shape.m, " ", shape.k, " ", shape.n));
  EXPECT_GE(ExpectSameBits(MomentumStep(dtype, shape.m, shape.k, shape.n, random), random()), 3);
  ExpectSameBits(BiasRelu(dtype, shape.m, shape.k, shape.n, random), random());
}

TEST(MatmulEpilogueTest, UpdatesAndActivationsHaveTheBitsOfTwoOps) {
  std::mt19937_64 random(TestSeed());
  for (const Shape& shape : kShapes) ExpectSameBitsOfShape(kF32, shape, random);
}

TEST(MatmulEpilogueTest, AllDtypesHaveTheBitsOfTwoOps) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kInt64}) {
    ExpectSameBitsOfShape(dtype, {10, 200, 40}, random);
    ExpectSameBitsOfShape(dtype, {33, 17, 19}, random);
  }
}

TEST(MatmulEpilogueTest, EqualsTheReference) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {kF32, DType::kFloat64, DType::kBFloat16, DType::kInt32}) {
    const EpilogueCase one = MomentumStep(dtype, 33, 150, 20, random);
    Tensors expected = Copies(one.outputs);
    ASSERT_TRUE(cotan::testing::RunOp(reference::MakeMatmul, one.op, Pointers(one.inputs), Pointers(expected)).ok());
    EXPECT_LE(LargestError(expected, one.Run()), IsInteger(dtype) ? 0 : cotan::testing::kMatmul);
  }
}

TEST(MatmulEpilogueTest, LargeTilesHaveTheBitsOfTwoOps) {
  std::mt19937_64 random(TestSeed());
  ExpectSameBits(BiasRelu(kF32, 770, 3, 710, random));
}

// Returns maximum(product, x) and the other outputs of a random expression, or no inputs if it cannot be an epilogue.
EpilogueCase RandomEpilogue(uint64_t seed) {
  std::mt19937_64 random(seed);
  cotan::testing::RandomExpr drawn = cotan::testing::MakeRandomExpr(random, 2'000);
  Expr& expr = *drawn.op.mutable_expr();
  const DType dtype = drawn.output_dtypes[0];
  const bool has_product = IsFloatingPoint(dtype) || dtype == DType::kInt32 || dtype == DType::kInt64;
  if (expr.reduce_dims_size() > 0 || expr.domain_sizes_size() < 2 || !has_product) return {};
  for (ExprInstruction& instruction : *expr.mutable_instructions()) {
    // The sign of the NaN of an invalid operation is not defined.
    if (instruction.fn() == FN_COPYSIGN) instruction.set_fn(FN_MAXIMUM);
    if (instruction.fn() == FN_INPUT || instruction.fn() == FN_RANDOM_UNIFORM) {
      instruction.set_index(instruction.index() + 1);
    }
  }
  const DTypeProto proto = expr.instructions(static_cast<int>(expr.outputs(0))).dtype();
  const auto last = static_cast<uint32_t>(expr.instructions_size());
  ExprInstruction* product = expr.add_instructions();
  product->set_fn(FN_INPUT);
  product->set_dtype(proto);
  ExprInstruction* maximum = expr.add_instructions();
  maximum->set_fn(FN_MAXIMUM);
  maximum->set_dtype(proto);
  maximum->add_operands(last);
  maximum->add_operands(expr.outputs(0));
  expr.set_outputs(0, last + 1);
  DimVector sizes;
  for (const std::string& size : expr.domain_sizes()) sizes.push_back(std::stoll(size));
  EpilogueCase result = MakeProduct(dtype, sizes, static_cast<int64_t>(random() % 40), random);
  result.SetEpilogue(expr);
  for (auto& input : drawn.inputs) result.inputs.push_back(std::move(input));
  for (size_t k = 0; k < drawn.output_layouts.size(); ++k) {
    result.outputs.push_back(std::make_unique<HostTensor>(drawn.output_dtypes[k], drawn.output_layouts[k]));
  }
  return result;
}

TEST(MatmulEpilogueTest, RandomEpiloguesHaveTheBitsOfTwoOps) {
  const uint64_t first = TestSeed() % 100'000;
  int runs = 0;
  int in_place = 0;
  for (uint64_t seed = first; runs < 20 && !HasFailure(); ++seed) {
    const EpilogueCase one = RandomEpilogue(seed);
    if (one.inputs.empty()) continue;
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", cotan::testing::ToText(one.op.matmul().epilogue())));
    in_place += ExpectSameBits(one, seed);
    ++runs;
  }
  EXPECT_GT(in_place, 0);
}

TEST(MatmulEpilogueTest, DrawsAreThoseOfTheExpression) {
  std::mt19937_64 random(TestSeed());
  EpilogueCase one = MakeProduct(kF32, {3, 7, 9}, 5, random);
  ExprBuilder b({3, 7, 9});
  const int keep = b.Apply(FN_LT, {b.Random(1, "3"), b.Constant(kF32, 0.5)});
  b.Output(b.Apply(FN_SELECT, {keep, b.Input(0, kF32), b.Constant(kF32, 0)}));
  b.Output(b.Add(b.Iota(kF32, 1), b.Input(0, kF32)));
  one.SetEpilogue(b.expr());
  one.inputs.push_back(
      std::make_unique<HostTensor>(DType::kInt64, std::vector<int64_t>{2}, std::vector<double>{42, 8}));
  for (int i = 0; i < 2; ++i) one.outputs.push_back(std::make_unique<HostTensor>(kF32, DenseLayout({3, 7, 9})));
  ExpectSameBits(one);
  const std::vector<double> values = one.Run()[0]->Values();
  const auto dropped = std::count(values.begin(), values.end(), 0);
  EXPECT_GT(dropped, 50);
  EXPECT_LT(dropped, 139);
}

TEST(MatmulEpilogueTest, GuardedOutputsStayAsTheyAreAfterAnError) {
  std::mt19937_64 random(TestSeed());
  const EpilogueCase one = MomentumStep(kF32, 20, 150, 30, random);
  const Tensors states = Copies(one.inputs);
  const absl::StatusOr<RunResult> run = RunPlan(Plan, one.op, Pointers(states), {states[2].get(), states[3].get()},
                                                {.guarded_outputs = true, .failed_before = true});
  EXPECT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Difference(one.inputs, states), "");
}

TEST(MatmulEpilogueTest, OnlyItsOwnOperandsAreReadAndWrittenInAddition) {
  std::mt19937_64 random(TestSeed());
  const auto bytes_of = [](const RunResult& result) {
    return static_cast<double>(result.counters.global_load_sectors + result.counters.global_store_sectors) * 32;
  };
  // One tile, several tiles, slices.
  for (const Shape& shape : {Shape{32, 64, 32}, {128, 64, 256}, {16, 256, 16}, {64, 256, 96}}) {
    EpilogueCase one = MomentumStep(kF32, shape.m, shape.k, shape.n, random);
    one.inputs[0] = Random(kF32, DenseLayout({shape.m, shape.k}), random);
    one.inputs[1] = Random(kF32, DenseLayout({shape.k, shape.n}), random);
    RunResult product;
    RunResult fused;
    one.Product(&product);
    one.Run({}, &fused);
    // Of the product: a result less. The epilogue reads and writes the weight and the momentum.
    const double result_bytes = static_cast<double>(shape.m * shape.n) * sizeof(float);
    EXPECT_LE(bytes_of(fused), 1.1 * (bytes_of(product) + 3 * result_bytes)) << shape.m;
    // Tiles share what they read in the L2 cache.
    const double operands = static_cast<double>(shape.k * (shape.m + shape.n)) * sizeof(float) + 4 * result_bytes;
    const auto sectors = fused.counters.distinct_load_sectors + fused.counters.distinct_store_sectors;
    EXPECT_LE(static_cast<double>(sectors) * 32, 1.1 * operands) << shape.m;
  }
}

TEST(MatmulEpilogueTest, KernelsNeedNoLocalMemory) {
  std::mt19937_64 random(TestSeed());
  // Tiles of 64 x 64, 32 x 32, 16 x 32, 16 x 16 and 8 x 8.
  for (const Shape& shape : {Shape{1024, 16, 1024},
                             {512, 64, 512},
                             {512, 128, 512},
                             {1024, 512, 128},
                             {512, 512, 128},
                             {128, 512, 128},
                             {32, 784, 256}}) {
    for (const DType dtype : {kF32, DType::kFloat64, DType::kBFloat16}) {
      const EpilogueCase one = MomentumStep(dtype, shape.m, shape.k, shape.n, random);
      std::vector<TensorSpec> inputs;
      std::vector<TensorSpec> outputs;
      for (const auto& tensor : one.inputs) inputs.push_back(tensor->spec());
      for (const auto& tensor : one.outputs) outputs.push_back(tensor->spec());
      const absl::StatusOr<KernelPlan> plan =
          PlanTiled({.op = one.op, .inputs = inputs, .outputs = outputs, .symbols = {}, .guarded_outputs = true});
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_EQ(plan->steps.size(), 1u);
      const auto& launch = std::get<KernelLaunch>(plan->steps[0]);
      const auto resources = CompileForArchitectures(launch.source, {90});
      if (absl::IsUnavailable(resources.status())) GTEST_SKIP() << resources.status();
      ASSERT_TRUE(resources.ok()) << resources.status();
      const int max_registers = launch.block[0] <= 128 ? 255 : 128;
      EXPECT_TRUE(CheckResources(*resources, max_registers).ok())
          << DTypeName(dtype) << " " << shape.m << " " << shape.k << " " << shape.n << ": "
          << CheckResources(*resources, max_registers);
    }
  }
}

TEST(MatmulEpilogueTest, LargeProductsKeepTheLibrary) {
  const auto launches = [](int64_t m, int64_t k, DType dtype) {
    EpilogueCase one;
    ExprBuilder b({m, m});
    b.Output(b.Apply(FN_RELU, {b.Input(0, dtype)}));
    one.SetEpilogue(b.expr());
    const std::vector<TensorSpec> inputs = {{dtype, DenseLayout({m, k})}, {dtype, DenseLayout({k, m})}};
    const std::vector<TensorSpec> outputs = {{dtype, DenseLayout({m, m})}};
    const KernelRequest request = {.op = one.op, .inputs = inputs, .outputs = outputs, .symbols = {}};
    return std::pair(Plan(request)->steps.size(), PlanTiled(request)->steps.size());
  };
  EXPECT_EQ(launches(256, 512, kF32), std::pair(size_t{1}, size_t{1}));
  EXPECT_EQ(launches(512, 512, kF32), std::pair(size_t{2}, size_t{1}));
  EXPECT_EQ(launches(16, 4096, kF32), std::pair(size_t{2}, size_t{1}));
  EXPECT_EQ(launches(256, 512, DType::kBFloat16), std::pair(size_t{2}, size_t{1}));
  EXPECT_EQ(launches(512, 512, DType::kInt32), std::pair(size_t{1}, size_t{1}));
}

}  // namespace
}  // namespace cotan::cuda::testing
