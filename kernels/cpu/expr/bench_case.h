// SPDX-License-Identifier: Apache-2.0

// An expression with operands, and its measurement beside a copy of as many bytes.
#ifndef COTAN_KERNELS_CPU_EXPR_BENCH_CASE_H_
#define COTAN_KERNELS_CPU_EXPR_BENCH_CASE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::cpu {

// Returns the seconds that one copy of `bytes` bytes takes: the mean of many, as benchmarks have it.
inline double CopySeconds(size_t bytes) {
  using Clock = std::chrono::steady_clock;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const double budget = bytes > (1 << 20) ? 0.05 : 0.005;
  int64_t copies = 0;
  double seconds = 0;
  const auto start = Clock::now();
  while (seconds < budget) {
    for (int i = 0; i < 8; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      benchmark::ClobberMemory();
    }
    copies += 8;
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return seconds / static_cast<double>(copies);
}

// An op with its operands; `in` and `out` are sizes of f32 tensors.
class BenchCase {
 public:
  BenchCase(const testing::ExprBuilder& builder, std::vector<std::vector<int64_t>> in,
            std::vector<std::vector<int64_t>> out)
      : op_(builder.Build()) {
    for (const auto& sizes : in) Add(inputs_, DType::kFloat32, sizes);
    for (const auto& sizes : out) Add(outputs_, DType::kFloat32, sizes);
  }

  void AddRngState() {
    Add(inputs_, DType::kInt64, {2});
    inputs_.back()->SetValues({3, 4});
  }
  // Adds an f32 input whose last two dimensions are transposed in memory.
  void AddTransposed(const std::vector<int64_t>& sizes) {
    DimVector order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[order.size() - 2], order.back());
    const DimVector dims(sizes.begin(), sizes.end());
    const StridedLayout layout{dims, DenseStrides(dims, order), 0};
    inputs_.push_back(std::make_unique<testing::HostTensor>(DType::kFloat32, layout));
  }
  // Adds an input of `sizes` integers below `limit`.
  void AddIndices(const std::vector<int64_t>& sizes, int64_t limit) {
    Add(inputs_, DType::kInt64, sizes);
    std::vector<double> values(static_cast<size_t>(inputs_.back()->numel()));
    for (double& value : values) value = static_cast<double>(random_() % static_cast<uint64_t>(limit));
    inputs_.back()->SetValues(values);
  }
  // Adds an input of `sizes` bools, one of eight of them false.
  void AddFlags(const std::vector<int64_t>& sizes) {
    Add(inputs_, DType::kBool, sizes);
    std::vector<double> values(static_cast<size_t>(inputs_.back()->numel()));
    for (double& value : values) value = random_() % 8 != 0 ? 1 : 0;
    inputs_.back()->SetValues(values);
  }
  // Lets output k have the memory of input `input`, as states that a step updates have.
  void ShareMemory(size_t k, size_t input) { shared_.emplace_back(k, input); }

  // Measures the kernel on one thread. Counters: ns per element of the domain; GB/s of operands read and written; the
  // same of a copy of as many bytes (half of them read, half written), and the ratio of the times of both.
  void Run(benchmark::State& state, int64_t elements) {
    const auto kernel = MakeExpr({op_, Specs(inputs_), Specs(outputs_), {}, 1});
    if (!kernel.ok()) return state.SkipWithError(kernel.status().ToString().c_str());
    std::vector<void*> in = Data(inputs_), out = Data(outputs_);
    for (const auto& [k, input] : shared_) out[k] = in[input];
    std::vector<Line> scratch((*kernel)->scratch_bytes() / sizeof(Line) + 1);
    const KernelArgs args = {in.data(), out.data(), scratch.data()};
    const auto start = std::chrono::steady_clock::now();
    for ([[maybe_unused]] auto _ : state) {
      if (!(*kernel)->Run(args).ok()) return state.SkipWithError("run failed");
      benchmark::ClobberMemory();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
                           static_cast<double>(state.iterations());
    Report(state, elements, seconds);
  }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  using Tensors = std::vector<std::unique_ptr<testing::HostTensor>>;

  void Report(benchmark::State& state, int64_t elements, double seconds) const {
    size_t bytes = 0;
    for (const auto* tensors : {&inputs_, &outputs_}) {
      for (const auto& tensor : *tensors) bytes += tensor->bytes().size();
    }
    const double copy = CopySeconds(std::max<size_t>(bytes / 2, 1));
    state.counters["ns/el"] = seconds * 1e9 / static_cast<double>(elements);
    state.counters["GB/s"] = static_cast<double>(bytes) * 1e-9 / seconds;
    state.counters["copy_GB/s"] = static_cast<double>(bytes) * 1e-9 / copy;
    state.counters["of_copy"] = seconds / copy;
  }

  void Add(Tensors& tensors, DType dtype, absl::Span<const int64_t> sizes) {
    tensors.push_back(std::make_unique<testing::HostTensor>(dtype, sizes));
    if (dtype == DType::kFloat32) testing::FillRandom(*tensors.back(), random_, 0.1, 1);
  }
  std::vector<TensorSpec> Specs(const Tensors& tensors) {
    std::vector<TensorSpec>& specs = specs_.emplace_back();
    for (const auto& tensor : tensors) specs.push_back(tensor->spec());
    return specs;
  }
  // Copies the tensors to memory that begins a line, as that of programs does.
  std::vector<void*> Data(const Tensors& tensors) {
    std::vector<void*> data;
    for (const auto& tensor : tensors) {
      std::vector<Line>& lines = memory_.emplace_back(tensor->bytes().size() / sizeof(Line) + 1);
      std::memcpy(lines.data(), tensor->bytes().data(), tensor->bytes().size());
      data.push_back(lines.data());
    }
    return data;
  }

  const serialization::Op op_;
  Tensors inputs_, outputs_;
  std::vector<std::pair<size_t, size_t>> shared_;  // output, input
  std::vector<std::vector<TensorSpec>> specs_;
  std::vector<std::vector<Line>> memory_;
  std::mt19937_64 random_{1};
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_EXPR_BENCH_CASE_H_
