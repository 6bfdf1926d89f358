// SPDX-License-Identifier: Apache-2.0

// Compares random expressions on the engine with the reference kernel: the results are bitwise equal for
// every instruction set, any number of threads, and in place where allowed.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "kernels/api/in_place.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/reference/expr.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/random_expr.h"

namespace cotan::cpu {
namespace {

using cotan::testing::HostTensor;
using cotan::testing::MakeRandomExpr;
using cotan::testing::RandomExpr;
using cotan::testing::RunOp;
using Tensors = std::vector<std::unique_ptr<HostTensor>>;

int Iterations(int by_default) {
  const char* text = std::getenv("COTAN_TEST_ITERATIONS");
  return text == nullptr ? by_default : std::atoi(text);
}

std::vector<HostTensor*> Pointers(const Tensors& tensors) {
  std::vector<HostTensor*> pointers;
  for (const auto& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}

Tensors MakeOutputs(const RandomExpr& expr) {
  Tensors outputs;
  for (size_t k = 0; k < expr.output_layouts.size(); ++k) {
    outputs.push_back(std::make_unique<HostTensor>(expr.output_dtypes[k], expr.output_layouts[k]));
  }
  return outputs;
}

std::string Difference(const HostTensor& expected, const HostTensor& actual) {
  const std::vector<double> a = expected.Values();
  const std::vector<double> b = actual.Values();
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!same) {
      return "element " + std::to_string(i) + ": expected " + std::to_string(a[i]) + ", found " + std::to_string(b[i]);
    }
  }
  return "";
}

class RandomExprTest : public ::testing::Test {
 protected:
  // Compares one run with the reference's results.
  void Check(const RandomExpr& expr, const Tensors& expected, const ExprOptions& options, int threads) {
    Tensors outputs = MakeOutputs(expr);
    const absl::Status status = RunOp([&](const KernelRequest& request) { return MakeExprWith(request, options); },
                                      expr.op, Pointers(expr.inputs), Pointers(outputs), threads);
    ASSERT_TRUE(status.ok()) << status;
    for (size_t k = 0; k < outputs.size(); ++k) {
      ASSERT_EQ(Difference(*expected[k], *outputs[k]), "") << "output " << k << " with " << options.ops->name;
    }
  }

  // Runs with output k in the memory of input i.
  void CheckInPlace(const RandomExpr& expr, const Tensors& expected, size_t i, size_t k) {
    Tensors inputs;
    for (const auto& input : expr.inputs) inputs.push_back(std::make_unique<HostTensor>(*input));
    Tensors outputs = MakeOutputs(expr);
    std::vector<TensorSpec> input_specs, output_specs;
    std::vector<void*> input_data, output_data;
    for (const auto& tensor : inputs) {
      input_specs.push_back(tensor->spec());
      input_data.push_back(tensor->data());
    }
    for (const auto& tensor : outputs) {
      output_specs.push_back(tensor->spec());
      output_data.push_back(tensor->data());
    }
    output_data[k] = input_data[i];
    const KernelRequest request = {expr.op, input_specs, output_specs, {}, 1};
    if (!InPlaceSafe(request, static_cast<int>(i), static_cast<int>(k))) return;
    auto kernel = MakeExpr(request);
    ASSERT_TRUE(kernel.ok());
    std::vector<char> scratch((*kernel)->scratch_bytes() + 64);
    ASSERT_TRUE((*kernel)->Run({input_data.data(), output_data.data(), scratch.data()}).ok());
    if (const auto bytes = inputs[i]->bytes(); !bytes.empty()) {
      std::memcpy(outputs[k]->data(), bytes.data(), bytes.size());
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      ASSERT_EQ(Difference(*expected[o], *outputs[o]), "") << "output " << o << ", output " << k << " in input " << i;
    }
    ++in_place_runs_;
  }

  int in_place_runs_ = 0;
};

TEST_F(RandomExprTest, EqualsTheReferenceBitForBit) {
  const int iterations = Iterations(1500);
  for (int i = 0; i < iterations; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    std::mt19937_64 random(seed);
    RandomExpr expr = MakeRandomExpr(random, i % 10 == 0 ? 40'000 : 3'000);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + cotan::testing::ToText(expr.op.expr()));
    Tensors expected = MakeOutputs(expr);
    const absl::Status status = RunOp(reference::MakeExpr, expr.op, Pointers(expr.inputs), Pointers(expected));
    ASSERT_TRUE(status.ok()) << status;
    for (const expr::TileOps* ops : expr::RunnableTileOps()) {
      ASSERT_NO_FATAL_FAILURE(Check(expr, expected, {ops}, 1));
    }
    ASSERT_NO_FATAL_FAILURE(Check(expr, expected, {&expr::BestTileOps(), 1.0}, 4));
    for (size_t in = 0; in < expr.inputs.size(); ++in) {
      for (size_t out = 0; out < expected.size(); ++out) {
        ASSERT_NO_FATAL_FAILURE(CheckInPlace(expr, expected, in, out));
      }
    }
  }
  EXPECT_GT(in_place_runs_, iterations / 20);
}

}  // namespace
}  // namespace cotan::cpu
