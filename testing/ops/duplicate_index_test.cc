// SPDX-License-Identifier: Apache-2.0

// Compares ops that write, read or select by index with LibTorch eager, in results and gradients, where
// an index occurs more than once or elements are equal.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "testing/ops/function_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string name;
  aot::TensorFunction function;
  Tensors inputs;
};

at::Tensor Places(std::initializer_list<int64_t> sizes, int64_t limit) {
  return at::randint(0, limit, sizes, at::kLong);
}

// Returns a tensor with few distinct values.
at::Tensor Ties(std::initializer_list<int64_t> sizes) { return at::randint(0, 3, sizes, at::kLong).to(at::kFloat); }

aot::TensorFunction Unpool2d(int64_t size) {
  return [size](const Tensors& in) -> Tensors { return {at::max_unpool2d(in[0], in[1], {size, size})}; };
}

std::vector<Case> UnpoolCases() {
  const auto unpool3d = [](const Tensors& in) -> Tensors {
    return {at::max_unpool3d(in[0], in[1], {3, 3, 3}, {1, 1, 1}, {0, 0, 0})};
  };
  const auto overlapping = [](const Tensors& in) -> Tensors {
    const auto [y, places] = at::max_pool2d_with_indices(in[0], {3, 3}, {1, 1});
    return {at::max_unpool2d(y * in[1], places, {6, 6})};
  };
  const at::Tensor last = at::rand({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  return {
      {"max_unpool2d", Unpool2d(4), {at::rand({2, 3, 4, 4}), Places({2, 3, 4, 4}, 16)}},
      {"max_unpool2d of one image", Unpool2d(4), {at::rand({3, 4, 4}), Places({3, 4, 4}, 16)}},
      {"max_unpool2d in NHWC", Unpool2d(5), {last, Places({2, 3, 4, 4}, 25)}},
      {"max_unpool2d of many", Unpool2d(12), {at::rand({1, 2, 20, 20}), Places({1, 2, 20, 20}, 144)}},
      {"max_unpool2d of overlapping windows", overlapping, {at::rand({2, 2, 6, 6}), at::rand({4, 4})}},
      {"max_unpool3d", unpool3d, {at::rand({2, 2, 3, 3, 3}), Places({2, 2, 3, 3, 3}, 27)}},
      {"max_unpool3d of one image", unpool3d, {at::rand({2, 3, 3, 3}), Places({2, 3, 3, 3}, 27)}},
  };
}

std::vector<Case> WriteCases() {
  const at::Tensor x = at::rand({4, 5}), source = at::rand({4, 6}), rows = at::rand({6, 5});
  const at::Tensor index = Places({4, 6}, 5), row = Places({6}, 4);
  const auto scatter = [](const Tensors& in) -> Tensors { return {in[0].scatter(1, in[1], in[2])}; };
  const auto put = [](bool accumulate) -> aot::TensorFunction {
    return [accumulate](const Tensors& in) -> Tensors { return {at::put(in[0], in[1], in[2], accumulate)}; };
  };
  const auto index_put = [](bool accumulate) -> aot::TensorFunction {
    return [accumulate](const Tensors& in) -> Tensors { return {at::index_put(in[0], {in[1]}, in[2], accumulate)}; };
  };
  std::vector<Case> cases = {
      {"scatter", scatter, {x, index, source}},
      {"scatter of many", scatter, {at::rand({2, 40}), Places({2, 300}, 40), at::rand({2, 300})}},
      {"scatter of a number", [](const Tensors& in) -> Tensors { return {in[0].scatter(1, in[1], 0.5)}; }, {x, index}},
      {"scatter_add",
       [](const Tensors& in) -> Tensors { return {in[0].scatter_add(1, in[1], in[2])}; },
       {x, index, source}},
      {"put", put(false), {x, Places({8}, 20), at::rand({8})}},
      {"put, accumulated", put(true), {x, Places({8}, 20), at::rand({8})}},
      {"index_put", index_put(false), {x, row, rows}},
      {"index_put of many", index_put(false), {x, Places({200}, 4), at::rand({200, 5})}},
      {"index_put, accumulated", index_put(true), {x, row, rows}},
      {"index_put of one row", index_put(false), {x, row, at::rand({5})}},
      {"index_copy", [](const Tensors& in) -> Tensors { return {in[0].index_copy(0, in[1], in[2])}; }, {x, row, rows}},
      {"index_add",
       [](const Tensors& in) -> Tensors { return {in[0].index_add(0, in[1], in[2], 0.5)}; },
       {x, row, rows}},
      {"index_fill", [](const Tensors& in) -> Tensors { return {in[0].index_fill(0, in[1], 0.5)}; }, {x, row}},
      {"masked_scatter",
       [](const Tensors& in) -> Tensors { return {in[0].masked_scatter(in[1] > 1, in[2])}; },
       {x, Ties({4, 5}), at::rand({20})}},
  };
  for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
    const auto reduced = [reduce = std::string(reduce)](const Tensors& in) -> Tensors {
      return {in[0].scatter_reduce(1, in[1], in[2], reduce)};
    };
    cases.push_back({std::string("scatter_reduce ") + reduce, reduced, {Ties({4, 5}), index, Ties({4, 6})}});
    if (reduce[0] != 'a') continue;
    cases.push_back({std::string("scatter_reduce ") + reduce + " to many positions",
                     reduced,
                     {Ties({3, 300}), Places({3, 900}, 300), Ties({3, 900})}});
  }
  return cases;
}

std::vector<Case> ReadCases() {
  const at::Tensor x = at::rand({4, 5});
  return {
      {"gather", [](const Tensors& in) -> Tensors { return {in[0].gather(1, in[1])}; }, {x, Places({4, 9}, 5)}},
      {"take", [](const Tensors& in) -> Tensors { return {in[0].take(in[1])}; }, {x, Places({3, 9}, 20)}},
      {"take_along_dim",
       [](const Tensors& in) -> Tensors { return {at::take_along_dim(in[0], in[1], 1)}; },
       {x, Places({4, 9}, 5)}},
      {"index",
       [](const Tensors& in) -> Tensors {
         return {in[0].index({in[1], in[2]})};
       },
       {x, Places({9}, 4), Places({9}, 5)}},
      {"index_select",
       [](const Tensors& in) -> Tensors { return {in[0].index_select(0, in[1])}; },
       {x, Places({9}, 4)}},
      {"embedding",
       [](const Tensors& in) -> Tensors { return {at::embedding(in[0], in[1], 2)}; },
       {x, Places({3, 3}, 4)}},
      {"unfold", [](const Tensors& in) -> Tensors { return {in[0].unfold(1, 3, 1)}; }, {x}},
      {"im2col and col2im",
       [](const Tensors& in) -> Tensors {
         return {at::col2im(at::im2col(in[0], {3, 3}, {1, 1}, {1, 1}, {1, 1}) * in[1], {5, 5}, {3, 3}, {1, 1}, {1, 1},
                            {1, 1})};
       },
       {at::rand({2, 2, 5, 5}), at::rand({18, 25})}},
  };
}

std::vector<Case> TieCases() {
  const at::Tensor plane = Ties({2, 2, 7, 7}), lines = Ties({5, 9});
  const auto values = [](auto op) -> aot::TensorFunction {
    return [op](const Tensors& in) -> Tensors {
      const auto [found, places] = op(in[0]);
      return {found, places};
    };
  };
  return {
      {"max_pool1d", values([](const at::Tensor& x) { return at::max_pool1d_with_indices(x, {3}, {1}); }), {lines}},
      {"max_pool2d",
       values([](const at::Tensor& x) {
         return at::max_pool2d_with_indices(x, {3, 3}, {1, 1}, {1, 1});
       }),
       {plane}},
      {"max_pool2d dilated",
       values([](const at::Tensor& x) {
         return at::max_pool2d_with_indices(x, {2, 2}, {1, 1}, {0, 0}, {2, 2});
       }),
       {plane}},
      {"max_pool3d",
       values([](const at::Tensor& x) {
         return at::max_pool3d_with_indices(x, {2, 2, 2}, {1, 1, 1});
       }),
       {Ties({1, 2, 4, 4, 4})}},
      {"adaptive_max_pool2d",
       values([](const at::Tensor& x) {
         return at::adaptive_max_pool2d(x, {3, 4});
       }),
       {plane}},
      {"adaptive_max_pool3d",
       values([](const at::Tensor& x) {
         return at::adaptive_max_pool3d(x, {3, 2, 3});
       }),
       {Ties({2, 4, 5, 4})}},
      {"max", [](const Tensors& in) -> Tensors { return {in[0].max()}; }, {lines}},
      {"amax", [](const Tensors& in) -> Tensors { return {in[0].amax(1)}; }, {lines}},
      {"amin of both",
       [](const Tensors& in) -> Tensors {
         return {in[0].amin({0, 1})};
       },
       {lines}},
      {"aminmax", values([](const at::Tensor& x) { return at::aminmax(x, 1); }), {lines}},
      {"max along", values([](const at::Tensor& x) { return x.max(1); }), {lines}},
      {"min along", values([](const at::Tensor& x) { return x.min(1); }), {lines}},
      {"cummax", values([](const at::Tensor& x) { return x.cummax(1); }), {lines}},
      {"cummin", values([](const at::Tensor& x) { return x.cummin(1); }), {lines}},
      {"sort", values([](const at::Tensor& x) { return x.sort(true, 1, false); }), {lines}},
      {"mode", values([](const at::Tensor& x) { return x.mode(1); }), {lines}},
      {"maximum", [](const Tensors& in) -> Tensors { return {at::maximum(in[0], in[1])}; }, {lines, Ties({5, 9})}},
      {"fmin", [](const Tensors& in) -> Tensors { return {at::fmin(in[0], in[1])}; }, {lines, Ties({5, 9})}},
      {"prod", [](const Tensors& in) -> Tensors { return {in[0].prod(1)}; }, {lines}},
      {"cumprod", [](const Tensors& in) -> Tensors { return {in[0].cumprod(1)}; }, {lines}},
      {"infinity norm",
       [](const Tensors& in) -> Tensors { return {at::linalg_vector_norm(in[0], INFINITY, 1)}; },
       {lines}},
      {"clamp", [](const Tensors& in) -> Tensors { return {in[0].clamp(1, 2)}; }, {lines}},
  };
}

void Compare(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const FunctionOutcome outcome = RunFunctionBothWays(c.function, c.inputs, {.tolerance = kReduction});
    EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
    EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
  }
}

class DuplicateIndexTest : public ::testing::Test {
 protected:
  DuplicateIndexTest() {
    at::manual_seed(29);
    at::set_num_threads(1);  // eager writes duplicate indices in order only on one thread
  }
};

TEST_F(DuplicateIndexTest, UnpoolingKeepsTheLastElementAndGathersGradients) { Compare(UnpoolCases()); }
TEST_F(DuplicateIndexTest, WritesAgreeWithEager) { Compare(WriteCases()); }
TEST_F(DuplicateIndexTest, ReadsAccumulateGradientsLikeEager) { Compare(ReadCases()); }
TEST_F(DuplicateIndexTest, TiesAreBrokenLikeEager) { Compare(TieCases()); }

}  // namespace
}  // namespace cotan::testing
