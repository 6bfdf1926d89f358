// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/pool.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/op_check.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using serialization::Op;
using serialization::Pool;
using testing::DenseLayout;
using ::testing::ElementsAre;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

struct Case {
  Pool op;
  DimVector input;
  DimVector output;
};

Case RandomCase(std::mt19937_64& random, bool is_max) {
  Case c;
  const int spatial = 1 + static_cast<int>(random() % 3);
  c.op.set_ceil_mode(random() % 2 == 0);
  c.op.set_count_include_pad(random() % 2 == 0);
  if (!is_max && random() % 4 == 0) c.op.set_divisor_override(3);
  for (uint64_t d = random() % 3; d > 0; --d) c.input.push_back(static_cast<int64_t>(random() % 4));
  // Numbers of channels that leave each kind of rest after whole vectors.
  constexpr int64_t kChannels[] = {5, 6, 8, 10, 20, 31, 70};
  if (!c.input.empty() && random() % 2 == 0) c.input.back() = kChannels[random() % std::size(kChannels)];
  c.output = c.input;
  for (int d = 0; d < spatial; ++d) {
    const int64_t kernel = 1 + static_cast<int64_t>(random() % 3);
    c.op.add_kernel(kernel);
    c.op.add_stride(1 + static_cast<int64_t>(random() % 3));
    c.op.add_dilation(is_max ? 1 + static_cast<int64_t>(random() % 2) : 1);
    c.op.add_padding(static_cast<int64_t>(random() % static_cast<uint64_t>(kernel / 2 + 1)));
    c.input.push_back(4 + static_cast<int64_t>(random() % (spatial < 3 ? 20 : 4)));
    c.output.push_back(PoolOutputSize(c.op, d, c.input.back()));
  }
  return c;
}

int64_t Plane(const DimVector& sizes, int spatial) {
  return NumElements(absl::MakeConstSpan(sizes).subspan(sizes.size() - static_cast<size_t>(spatial)));
}

// Calls fn(output position, input position, flat position in the plane) for each tap, and last(output
// position, padded window size) after a window.
template <typename Fn, typename Last>
void ForEachTap(const Case& c, Fn fn, Last last) {
  const int spatial = c.op.kernel_size();
  const int64_t in_plane = Plane(c.input, spatial);
  const int64_t out_plane = Plane(c.output, spatial);
  int64_t taps = 1;
  for (int64_t k : c.op.kernel()) taps *= k;
  for (int64_t o = 0; o < NumElements(c.output); ++o) {
    int64_t padded = 1;
    for (int64_t t = 0; t < taps; ++t) {
      int64_t flat = 0;
      int64_t scale = 1;
      int64_t at = o % out_plane;
      int64_t tap = t;
      bool inside = true;
      padded = 1;
      for (int d = spatial; d-- > 0;) {
        const size_t axis = c.input.size() - static_cast<size_t>(spatial - d);
        const int64_t start = at % c.output[axis] * c.op.stride(d) - c.op.padding(d);
        const int64_t position = start + tap % c.op.kernel(d) * c.op.dilation(d);
        at /= c.output[axis];
        tap /= c.op.kernel(d);
        inside = inside && position >= 0 && position < c.input[axis];
        flat += position * scale;
        scale *= c.input[axis];
        padded *= std::min(start + c.op.kernel(d), c.input[axis] + c.op.padding(d)) - start;
      }
      if (inside) fn(o, o / out_plane * in_plane + flat, flat);
    }
    last(o, padded);
  }
}

StridedLayout SomeLayout(const DimVector& sizes, int spatial, std::mt19937_64& random) {
  if (random() % 2 == 0) return RandomLayout(sizes, random, random() % 2 == 0, false);
  // Channels last: the dimension before the spatial ones is dense.
  DimVector order;
  const auto rank = static_cast<int64_t>(sizes.size());
  for (int64_t d = 0; d < rank; ++d) {
    if (d != rank - spatial - 1) order.push_back(d);
  }
  if (rank > spatial) order.push_back(rank - spatial - 1);
  return DenseLayout(sizes, order);
}

void RunTwice(KernelFactory factory, const Op& op, const std::vector<HostTensor*>& inputs,
              const std::vector<HostTensor*>& outputs) {
  const absl::Status status = RunOp(factory, op, inputs, outputs);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(GapsAreUntouched(*outputs[0]));
  HostTensor again(outputs[0]->dtype(), outputs[0]->layout());
  std::vector<HostTensor*> repeated = outputs;
  repeated[0] = &again;
  ASSERT_TRUE(RunOp(factory, op, inputs, repeated, 3).ok());
  EXPECT_EQ(outputs[0]->bytes(), again.bytes()) << "3 threads";
}

TEST(PoolTest, MaxPoolForwardAndBackwardOnRandomGeometries) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    const Case c = RandomCase(random, true);
    const int spatial = c.op.kernel_size();
    constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16};
    const DType dtype = kDTypes[random() % std::size(kDTypes)];
    HostTensor input = RandomTensor(dtype, SomeLayout(c.input, spatial, random), random);
    if (random() % 4 == 0 && input.numel() > 0) {
      std::vector<double> values = input.Values();
      values[random() % values.size()] = std::numeric_limits<double>::quiet_NaN();
      input.SetValues(values);
    }
    const std::vector<double> x = input.Values();
    std::vector<double> best(static_cast<size_t>(NumElements(c.output)), -std::numeric_limits<double>::infinity());
    std::vector<double> index(best.size(), -1);
    std::vector<size_t> origin(best.size());
    ForEachTap(
        c,
        [&](int64_t o, int64_t i, int64_t flat) {
          const double value = x[static_cast<size_t>(i)];
          const auto at = static_cast<size_t>(o);
          if (index[at] >= 0 && !(value > best[at]) && !std::isnan(value)) return;
          best[at] = value;
          index[at] = static_cast<double>(flat);
          origin[at] = static_cast<size_t>(i);
        },
        [](int64_t, int64_t) {});
    HostTensor output(dtype, SomeLayout(c.output, spatial, random));
    HostTensor indices(random() % 2 == 0 ? DType::kInt64 : DType::kInt32, SomeLayout(c.output, spatial, random));
    Op op;
    *op.mutable_max_pool() = c.op;
    RunTwice(MakeMaxPool, op, {&input}, {&output, &indices});
    EXPECT_EQ(ErrorInUnits(output, best), 0) << ToString(input.layout());
    EXPECT_EQ(indices.Values(), index) << ToString(input.layout());
    HostTensor alone(dtype, output.layout());
    RunTwice(MakeMaxPool, op, {&input}, {&alone});
    EXPECT_EQ(alone.bytes(), output.bytes());

    HostTensor grad_output = RandomTensor(dtype, SomeLayout(c.output, spatial, random), random);
    HostTensor grad_input(dtype, SomeLayout(c.input, spatial, random));
    std::vector<double> expected(x.size());
    const std::vector<double> gradient = grad_output.Values();
    for (size_t o = 0; o < origin.size(); ++o) expected[origin[o]] += gradient[o];
    *op.mutable_max_pool_backward() = c.op;
    RunTwice(MakeMaxPoolBackward, op, {&grad_output, &indices}, {&grad_input});
    // Sums of bf16 are rounded once.
    const double tolerance = dtype == DType::kBFloat16 ? testing::kRounding : testing::kReduction;
    EXPECT_LE(ErrorInUnits(grad_input, expected), tolerance) << ToString(grad_input.layout());
  }
}

TEST(PoolTest, AvgPoolForwardAndBackwardOnRandomGeometries) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    const Case c = RandomCase(random, false);
    const int spatial = c.op.kernel_size();
    const DType dtype = random() % 2 == 0 ? DType::kFloat32 : DType::kFloat64;
    HostTensor input = RandomTensor(dtype, SomeLayout(c.input, spatial, random), random);
    HostTensor grad_output = RandomTensor(dtype, SomeLayout(c.output, spatial, random), random);
    const std::vector<double> x = input.Values();
    const std::vector<double> gradient = grad_output.Values();
    std::vector<double> mean(static_cast<size_t>(NumElements(c.output)));
    std::vector<double> expected(x.size());
    std::vector<size_t> window;
    ForEachTap(
        c, [&](int64_t, int64_t i, int64_t) { window.push_back(static_cast<size_t>(i)); },
        [&](int64_t o, int64_t padded) {
          double divisor = c.op.count_include_pad() ? static_cast<double>(padded) : static_cast<double>(window.size());
          if (c.op.divisor_override() != 0) divisor = static_cast<double>(c.op.divisor_override());
          for (size_t i : window) {
            mean[static_cast<size_t>(o)] += x[i] / divisor;
            expected[i] += gradient[static_cast<size_t>(o)] / divisor;
          }
          window.clear();
        });
    HostTensor output(dtype, SomeLayout(c.output, spatial, random));
    HostTensor grad_input(dtype, SomeLayout(c.input, spatial, random));
    Op op;
    *op.mutable_avg_pool() = c.op;
    RunTwice(MakeAvgPool, op, {&input}, {&output});
    EXPECT_LE(ErrorInUnits(output, mean), testing::kReduction);
    *op.mutable_avg_pool_backward() = c.op;
    RunTwice(MakeAvgPoolBackward, op, {&grad_output}, {&grad_input});
    EXPECT_LE(ErrorInUnits(grad_input, expected), testing::kReduction);
  }
}

TEST(PoolTest, FirstOfEqualValuesWinsAndNanStays) {
  Op op;
  Pool& pool = *op.mutable_max_pool();
  pool.add_kernel(2);
  pool.add_stride(2);
  pool.add_padding(0);
  pool.add_dilation(1);
  HostTensor input(DType::kFloat32, {1, 6}, {3, 3, NAN, 5, -1, -2});
  HostTensor output(DType::kFloat32, {1, 3});
  HostTensor index(DType::kInt64, {1, 3});
  ASSERT_TRUE(RunOp(MakeMaxPool, op, {&input}, {&output, &index}).ok());
  EXPECT_THAT(output.Values(), ElementsAre(3, ::testing::IsNan(), -1));
  EXPECT_THAT(index.Values(), ElementsAre(0, 2, 4));
}

TEST(PoolTest, IndexOutsideThePlaneIsRejected) {
  Op op;
  Pool& pool = *op.mutable_max_pool_backward();
  pool.add_kernel(2);
  pool.add_stride(2);
  pool.add_padding(0);
  pool.add_dilation(1);
  const auto expect_error = [&](DType dtype, HostTensor index) {
    HostTensor gradient(dtype, {1, 2}, {1, 1});
    HostTensor result(dtype, {1, 4});
    const absl::Status status = RunOp(MakeMaxPoolBackward, op, {&gradient, &index}, {&result});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), ::testing::HasSubstr("outside its plane of 4 elements"));
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    expect_error(dtype, HostTensor(DType::kInt32, {1, 2}, {0, 4}));
    expect_error(dtype, HostTensor(DType::kInt64, {1, 2}, {0, 4}));
    expect_error(dtype, HostTensor(DType::kInt64, {1, 2}, {0, 4294967297.0}));  // 1 in its lower 32 bits
  }
}

// Gradients of overlapping windows that bf16 cannot add one by one: 256 and 16 times 1/2.
TEST(PoolTest, OverlappingGradientsOfBFloat16AreAddedInF32) {
  for (const int64_t channels : {1, 24}) {
    Op op;
    Pool& pool = *op.mutable_max_pool_backward();
    pool.add_kernel(17);
    pool.add_stride(1);
    pool.add_padding(0);
    pool.add_dilation(1);
    const DimVector order = {1, 0};
    HostTensor gradient(DType::kBFloat16, DenseLayout({channels, 17}, order));
    HostTensor index(DType::kInt32, DenseLayout({channels, 17}, order));
    std::vector<double> gradients;
    for (int64_t c = 0; c < channels; ++c) {
      gradients.push_back(256);
      gradients.insert(gradients.end(), 16, 0.5);
    }
    gradient.SetValues(gradients);
    index.SetValues(std::vector<double>(gradients.size(), 16));
    HostTensor result(DType::kBFloat16, DenseLayout({channels, 33}, order));
    ASSERT_TRUE(RunOp(MakeMaxPoolBackward, op, {&gradient, &index}, {&result}).ok());
    std::vector<double> expected(static_cast<size_t>(33 * channels));
    for (int64_t c = 0; c < channels; ++c) expected[static_cast<size_t>(c * 33 + 16)] = 264;
    EXPECT_EQ(result.Values(), expected);
  }
}

}  // namespace
}  // namespace cotan::cpu
