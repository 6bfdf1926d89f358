// SPDX-License-Identifier: Apache-2.0

// Tests wrappers whose parts are written, passed twice, returned, or share memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "testing/e2e/wrapped_function_cases.h"
#include "wrappers/jagged.h"
#include "wrappers/low_rank.h"
#include "wrappers/quantized.h"

namespace cotan {
namespace {

using testing::ExpectAsInEager;
using ::testing::HasSubstr;
using Pair = LowRank<at::Tensor>;
using Rows = Jagged<at::Tensor>;
using Packed = Quantized<at::Tensor>;
using PackedPair = LowRank<at::Tensor, Packed>;

at::Tensor Floats(at::IntArrayRef sizes, bool requires_grad = true) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(count, at::kFloat).mul(0.25).sub(1).view(sizes).requires_grad_(requires_grad);
}
at::Tensor Bytes(at::IntArrayRef sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(count, at::kLong).sub(count / 2).to(at::kChar).view(sizes);
}

// Returns rows [start, end) of a matrix as a view.
at::Tensor RowsOf(const at::Tensor& x, int64_t start, int64_t end) { return x.slice(0, start, end); }
Variable RowsOf(const Variable& x, int64_t start, int64_t end) {
  return *x.View({view::Slice{.dim = 0, .start = SymInt(start), .end = SymInt(end)}});
}

// Functions that make arguments of roots 0, 1, 2, ...
const auto kPair = [](const auto& r) {
  using T = std::decay_t<decltype(r[0])>;
  return std::make_tuple(LowRank<T>{.a = r[0], .b = r[1]});
};
const auto kPacked = [](const auto& r) {
  using T = std::decay_t<decltype(r[0])>;
  return std::make_tuple(Quantized<T>{.data = r[0], .scale = r[1], .axis = 0});
};
const auto kRows = [](const auto& r) {
  using T = std::decay_t<decltype(r[0])>;
  return std::make_tuple(Jagged<T>{.values = r[0], .offsets = r[1]});
};
const auto kPackedPair = [](const auto& r) {
  using T = std::decay_t<decltype(r[0])>;
  using Q = Quantized<T>;
  return std::make_tuple(LowRank<T, Q>{.a = Q{r[0], r[1], 0}, .b = Q{r[2], r[3], -1}});
};
const auto kPairTwice = [](const auto& r) {
  using T = std::decay_t<decltype(r[0])>;
  const LowRank<T> pair = {.a = r[0], .b = r[1]};
  return std::make_tuple(pair, pair);
};
const auto kPairAndRowsOfB = [](const auto& r) {
  using T = std::decay_t<decltype(r[0])>;
  return std::make_tuple(LowRank<T>{.a = r[0], .b = r[1]}, RowsOf(r[1], 1, 3));
};
const auto kPairOfRows = [](const auto& r) {
  using T = std::decay_t<decltype(r[0])>;
  return std::make_tuple(LowRank<T>{.a = RowsOf(r[0], 0, 3), .b = RowsOf(r[0], 1, 4)});
};

std::vector<at::Tensor> PairRoots() { return {Floats({4, 3}), Floats({3, 5})}; }
std::vector<at::Tensor> PackedRoots() { return {Bytes({3, 4}), Floats({3})}; }
std::vector<at::Tensor> RowsRoots() { return {Floats({5, 2}), torch::tensor({0, 2, 5}, at::kLong)}; }

TEST(WrapperAliasingTest, APartIsWritten) {
  ExpectAsInEager({PairRoots()}, kPair, [](Pair pair) {
    pair.b.mul_(2);
    return pair.a.mm(pair.b);
  });
  ExpectAsInEager({RowsRoots()}, kRows, [](Rows rows) {
    rows.values.add_(rows.offsets.slice(0, 0, 2));
    return rows.values * rows.values;
  });
}

TEST(WrapperAliasingTest, PartsWithAndWithoutGradientAreWritten) {
  ExpectAsInEager({PackedRoots()}, kPacked, [](Packed packed) {
    packed.data.add_(1);
    packed.scale.mul_(0.5);
    return packed.Dequantize();
  });
  ExpectAsInEager({PackedRoots()}, kPacked, [](Packed packed) {
    packed.data.neg_();
    return packed.Dequantize();
  });
  const std::vector<at::Tensor> nothing_requires_grad = {Bytes({3, 4}), Floats({3}, false)};
  ExpectAsInEager({nothing_requires_grad}, kPacked, [](Packed packed) {
    packed.data.neg_();
    packed.scale.add_(1);
    return packed.Dequantize();
  });
}

TEST(WrapperAliasingTest, PartsAreWrittenUnderNoGrad) {
  ExpectAsInEager({PairRoots()}, kPair, [](Pair pair) {
    {
      at::NoGradGuard no_grad;
      pair.b.mul_(2);
    }
    return pair.a.mm(pair.b);
  });
  ExpectAsInEager({PairRoots()}, kPair, [](Pair pair) {
    pair.a.detach().add_(1);
    pair.b.mul_(3);
    return pair.b * 2;
  });
}

TEST(WrapperAliasingTest, PartsOfNestedWrappersAreWritten) {
  ExpectAsInEager({{Bytes({3, 2}), Floats({3}), Bytes({2, 4}), Floats({})}}, kPackedPair, [](PackedPair weight) {
    weight.a.scale.mul_(2);
    weight.b.data.add_(3);
    return std::make_tuple(weight.a.Dequantize().mm(weight.b.Dequantize()), weight);
  });
}

TEST(WrapperAliasingTest, TheGeometryOfAPartChanges) {
  ExpectAsInEager({PairRoots()}, kPair, [](Pair pair) {
    pair.a.t_();
    return pair.a * 2;
  });
  ExpectAsInEager({PairRoots()}, kPair, [](Pair pair) {
    pair.a.t_();
    pair.a.mul_(2);
    pair.b.unsqueeze_(0);
    return pair.a + 1;
  });
}

TEST(WrapperAliasingTest, AWrittenWrapperIsReturned) {
  ExpectAsInEager({PairRoots()}, kPair, [](Pair pair) {
    pair.a.mul_(pair.b.sum());
    return pair;
  });
  ExpectAsInEager({RowsRoots()}, kRows, [](Rows rows) {
    rows.values.mul_(2);
    return std::make_tuple(Rows{rows.values.view({5, 2}), rows.offsets}, rows, rows.values.select(0, 1));
  });
}

TEST(WrapperAliasingTest, AWrapperIsGivenTwice) {
  ExpectAsInEager({PairRoots()}, kPairTwice, [](Pair pair, Pair again) {
    pair.b.mul_(2);
    return again.a.mm(again.b);
  });
  ExpectAsInEager({PairRoots()}, kPairTwice,
                  [](const Pair& pair, const Pair& again) { return std::make_tuple(pair.a.mm(again.b), again); });
}

TEST(WrapperAliasingTest, ATensorIsAViewOfAPart) {
  ExpectAsInEager({PairRoots()}, kPairAndRowsOfB, [](Pair pair, const at::Tensor& rows) {
    pair.b.mul_(2);
    return rows * rows;
  });
  ExpectAsInEager({PairRoots()}, kPairAndRowsOfB, [](Pair pair, at::Tensor rows) {
    rows.mul_(2);
    return std::make_tuple(pair.a.mm(pair.b), rows, Pair{.a = pair.b, .b = rows});
  });
}

TEST(WrapperAliasingTest, PartsOverlap) {
  ExpectAsInEager({{Floats({4, 3})}}, kPairOfRows, [](Pair pair) {
    pair.a.mul_(2);
    return pair.a + pair.b;
  });
}

TEST(WrapperAliasingTest, PartsOfResultsAreViewsOfAnIntermediate) {
  ExpectAsInEager({PairRoots()}, kPair, [](const Pair& pair) {
    const at::Tensor both = pair.a.mm(pair.b);
    return Pair{.a = both.t(), .b = both.view({5, 4})};
  });
  ExpectAsInEager({PairRoots()}, kPair, [](const Pair& pair) {
    const at::Tensor both = pair.a.mm(pair.b);
    return std::make_tuple(both.view({-1}), Pair{.a = both.t(), .b = pair.b * 3}, both.view({2, 10}));
  });
}

TEST(WrapperAliasingTest, ResultsAreViewsOfPartsOfResults) {
  ExpectAsInEager({PairRoots()}, kPair, [](const Pair& pair) {
    const at::Tensor both = pair.a.mm(pair.b);
    return std::make_tuple(both.view({-1}), Pair{.a = both, .b = pair.b * 3}, both.t());
  });
  ExpectAsInEager({PairRoots()}, kPair, [](const Pair& pair) {
    const at::Tensor both = pair.a.mm(pair.b);
    return Pair{.a = both, .b = both.t()};
  });
}

TEST(WrapperAliasingTest, PartsChangeTheirPlaces) {
  ExpectAsInEager({PairRoots()}, kPair, [](const Pair& pair) {
    return std::make_tuple(Pair{.a = pair.b.t(), .b = pair.a.t()}, Pair{.a = pair.b, .b = pair.b}, pair);
  });
}

TEST(WrapperAliasingTest, AResultIsReturnedTwice) {
  ExpectAsInEager({PairRoots()}, kPair, [](const Pair& pair) {
    const Pair twice = {.a = pair.a * 2, .b = pair.b * 2};
    return std::make_tuple(twice, twice, twice.a);
  });
}

TEST(WrapperAliasingTest, RejectsAReplacedStorageOfAPartByName) {
  const auto status = aot::CompileWrapped(
                          [](Pair pair) {
                            at::NoGradGuard no_grad;
                            pair.b.set_(pair.a);
                            return pair.a * 2;
                          },
                          kPair(std::vector<at::Tensor>{Floats({4, 3}, false), Floats({3, 5}, false)}), {})
                          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "'input.0.b' gets another storage: parts of wrappers keep theirs; copy_() into it instead");
}

aot::CompileOptions Dynamic(std::vector<aot::DynamicDim> dims) {
  aot::CompileOptions options;
  options.dynamic_dims = std::move(dims);
  return options;
}

// Flat argument 0 is the values, 1 the offsets.
std::vector<at::Tensor> RowsRoots(int64_t total, const std::vector<int64_t>& offsets) {
  return {Floats({total, 2}), torch::tensor(offsets, at::kLong)};
}

TEST(WrapperAliasingTest, JaggedTensorsHaveAnyNumberOfRows) {
  const aot::CompileOptions options = Dynamic(
      {{.argument = 0, .dim = 0, .symbol = "total", .min = 2}, {.argument = 1, .dim = 0, .symbol = "rows", .min = 2}});
  const std::vector<std::vector<at::Tensor>> calls = {RowsRoots(5, {0, 2, 5}), RowsRoots(9, {0, 1, 4, 4, 9}),
                                                      RowsRoots(2, {0, 2}), RowsRoots(5, {0, 5})};
  ExpectAsInEager(
      calls, kRows,
      [](const Rows& rows) {
        return std::make_tuple(Rows{.values = rows.values * rows.values, .offsets = rows.offsets},
                               rows.offsets.slice(0, 1) - rows.offsets.slice(0, 0, -1));
      },
      options);
  ExpectAsInEager(
      calls, kRows,
      [](Rows rows) {
        rows.values.mul_(2);
        return std::make_tuple(rows, rows.values.sum(0));
      },
      options);
}

TEST(WrapperAliasingTest, ABatchOfAnySizeMeetsAWrapper) {
  const auto make = [](const auto& r) {
    using T = std::decay_t<decltype(r[0])>;
    return std::make_tuple(r[2], LowRank<T>{.a = r[0], .b = r[1]});
  };
  std::vector<std::vector<at::Tensor>> calls;
  for (const int64_t batch : {6, 2, 11}) calls.push_back({Floats({4, 3}), Floats({3, 5}), Floats({batch, 4})});
  ExpectAsInEager(
      calls, make,
      [](const at::Tensor& x, const Pair& weight) {
        const at::Tensor hidden = x.mm(weight.a);
        return std::make_tuple(hidden.mm(weight.b), Pair{.a = hidden, .b = weight.b});
      },
      Dynamic({{.argument = 0, .dim = 0, .symbol = "batch", .min = 2}}));
}

}  // namespace
}  // namespace cotan
