// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/scan/scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

using serialization::Scan;

// Number of adjacent lines that are scanned together, so that memory is read in order for any innermost
// dimension.
constexpr int64_t kBlock = 32;

// Lines along the scanned dimension, in blocks of adjacent lines along dimension `inner`.
struct Geometry {
  int64_t length = 1;                   // of a line
  int64_t inner = 1;                    // number of adjacent lines
  DimVector outer;                      // sizes of all other dimensions
  std::array<int64_t, 3> step{};        // along the line: input, output, indices; in elements
  std::array<int64_t, 3> inner_step{};  // from a line to the next
  std::array<DimVector, 3> outer_strides;

  int64_t blocks_per_row() const { return (inner + kBlock - 1) / kBlock; }
  int64_t num_blocks() const { return NumElements(outer) * blocks_per_row(); }
};

Geometry GeometryOf(const KernelRequest& request) {
  const DimVector& sizes = request.inputs[0].layout.sizes;
  const auto dim = static_cast<size_t>(request.op.scan().dim());
  std::array<const DimVector*, 3> strides = {&request.inputs[0].layout.strides, &request.outputs[0].layout.strides,
                                             &request.outputs.back().layout.strides};
  Geometry g;
  g.length = sizes[dim];
  size_t inner = dim;  // dim: there is none
  for (size_t d = 0; d < sizes.size(); ++d) {
    const DimVector& out = *strides[1];
    if (d != dim && sizes[d] > 1 && (inner == dim || out[d] < out[inner])) inner = d;
  }
  if (inner != dim) g.inner = sizes[inner];
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d == dim || d == inner) continue;
    g.outer.push_back(sizes[d]);
    for (size_t k = 0; k < strides.size(); ++k) g.outer_strides[k].push_back((*strides[k])[d]);
  }
  for (size_t k = 0; k < strides.size(); ++k) {
    g.step[k] = (*strides[k])[dim];
    g.inner_step[k] = inner == dim ? 0 : (*strides[k])[inner];
  }
  return g;
}

struct Sum {
  template <typename A>
  static A Apply(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;  // wraps around
      return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
struct Prod {
  template <typename A>
  static A Apply(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
struct LogSumExp {
  static double Apply(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    const double high = std::max(a, b), low = std::min(a, b);
    return std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
  }
};

// Returns true if `b`, the later element, replaces the extreme value `a`: the last of equal elements and NaN
// win, as in ATen's cummax and cummin.
template <bool kMax, typename T>
bool Replaces(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return true;
    if (std::isnan(a)) return false;
  }
  return kMax ? b >= a : b <= a;
}

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;

class ScanBase : public Kernel {
 public:
  ScanBase(Geometry geometry, bool reverse, int threads)
      : g_(std::move(geometry)), reverse_(reverse), threads_(threads) {}

 protected:
  // The start of a block in input, output and indices, in elements, and its number of lines.
  struct Block {
    std::array<int64_t, 3> offset{};
    int64_t lines = 0;
  };

  Block BlockAt(int64_t number) const {
    const int64_t first = number % g_.blocks_per_row() * kBlock;
    int64_t row = number / g_.blocks_per_row();
    Block block;
    block.lines = std::min(kBlock, g_.inner - first);
    for (size_t k = 0; k < block.offset.size(); ++k) block.offset[k] = first * g_.inner_step[k];
    for (size_t d = g_.outer.size(); d-- > 0;) {
      const int64_t index = row % g_.outer[d];
      row /= g_.outer[d];
      for (size_t k = 0; k < block.offset.size(); ++k) block.offset[k] += index * g_.outer_strides[k][d];
    }
    if (reverse_) {
      for (size_t k = 0; k < block.offset.size(); ++k) block.offset[k] += (g_.length - 1) * g_.step[k];
    }
    return block;
  }

  int64_t StepOf(size_t k) const { return reverse_ ? -g_.step[k] : g_.step[k]; }

  template <typename Function>
  void ForEachBlock(Function function) const {
    if (g_.length == 0) return;
    const int64_t grain = std::max<int64_t>(1, kElementsPerChunk / (g_.length * kBlock));
    ParallelFor(threads_, g_.num_blocks(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t number = begin; number < end; ++number) function(BlockAt(number));
    });
  }

  const Geometry g_;
  const bool reverse_;
  const int threads_;
};

template <typename T, typename Function>
class AccumulateKernel final : public ScanBase {
 public:
  using ScanBase::ScanBase;

  absl::Status Run(const KernelArgs& args) override {
    ForEachBlock([&](const Block& block) {
      const T* in = static_cast<const T*>(args.inputs[0]) + block.offset[0];
      T* out = static_cast<T*>(args.outputs[0]) + block.offset[1];
      std::array<Wide<T>, kBlock> sums;
      for (int64_t j = 0; j < block.lines; ++j) {
        const T first = in[j * g_.inner_step[0]];
        sums[static_cast<size_t>(j)] = first;
        out[j * g_.inner_step[1]] = first;
      }
      for (int64_t i = 1; i < g_.length; ++i) {
        in += StepOf(0);
        out += StepOf(1);
        for (int64_t j = 0; j < block.lines; ++j) {
          Wide<T>& sum = sums[static_cast<size_t>(j)];
          sum = static_cast<Wide<T>>(Function::Apply(sum, static_cast<Wide<T>>(in[j * g_.inner_step[0]])));
          out[j * g_.inner_step[1]] = static_cast<T>(sum);
        }
      }
    });
    return absl::OkStatus();
  }
};

template <typename T, bool kMax>
class ExtremeKernel final : public ScanBase {
 public:
  using ScanBase::ScanBase;

  absl::Status Run(const KernelArgs& args) override {
    ForEachBlock([&](const Block& block) {
      const T* in = static_cast<const T*>(args.inputs[0]) + block.offset[0];
      T* out = static_cast<T*>(args.outputs[0]) + block.offset[1];
      int64_t* index = static_cast<int64_t*>(args.outputs[1]) + block.offset[2];
      std::array<T, kBlock> best;
      std::array<int64_t, kBlock> where{};
      for (int64_t i = 0; i < g_.length; ++i) {
        for (int64_t j = 0; j < block.lines; ++j) {
          const auto k = static_cast<size_t>(j);
          const T value = in[j * g_.inner_step[0]];
          if (i == 0 || Replaces<kMax>(best[k], value)) {
            best[k] = value;
            where[k] = reverse_ ? g_.length - 1 - i : i;
          }
          out[j * g_.inner_step[1]] = best[k];
          index[j * g_.inner_step[2]] = where[k];
        }
        in += StepOf(0);
        out += StepOf(1);
        index += StepOf(2);
      }
    });
    return absl::OkStatus();
  }
};

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeTyped(const KernelRequest& request) {
  const Scan& scan = request.op.scan();
  Geometry geometry = GeometryOf(request);
  const auto make = [&](auto* kernel) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    using K = std::remove_pointer_t<decltype(kernel)>;
    return std::make_unique<K>(std::move(geometry), scan.reverse(), request.threads);
  };
  switch (scan.function()) {
    case Scan::SUM:
      return make(static_cast<AccumulateKernel<T, Sum>*>(nullptr));
    case Scan::PROD:
      return make(static_cast<AccumulateKernel<T, Prod>*>(nullptr));
    case Scan::MAX:
      return make(static_cast<ExtremeKernel<T, true>*>(nullptr));
    case Scan::MIN:
      return make(static_cast<ExtremeKernel<T, false>*>(nullptr));
    case Scan::LOGSUMEXP:
      if constexpr (std::is_floating_point_v<T>) return make(static_cast<AccumulateKernel<T, LogSumExp>*>(nullptr));
      break;
    default:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("scan: function ", Scan::Function_Name(scan.function()),
                                               " does not support dtype ", DTypeName(request.inputs[0].dtype)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeScan(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  switch (request.inputs[0].dtype) {
    case DType::kUInt8:
      return MakeTyped<uint8_t>(request);
    case DType::kInt8:
      return MakeTyped<int8_t>(request);
    case DType::kInt16:
      return MakeTyped<int16_t>(request);
    case DType::kInt32:
      return MakeTyped<int32_t>(request);
    case DType::kInt64:
      return MakeTyped<int64_t>(request);
    case DType::kFloat32:
      return MakeTyped<float>(request);
    case DType::kFloat64:
      return MakeTyped<double>(request);
    default:
      return absl::UnimplementedError(
          absl::StrCat("scan: dtype ", DTypeName(request.inputs[0].dtype), " is not supported"));
  }
}

}  // namespace cotan::cpu
