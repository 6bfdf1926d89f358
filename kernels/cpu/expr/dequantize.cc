// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/dequantize.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/cpu/expr/dequantization.h"
#include "kernels/cpu/threading/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define COTAN_HAS_WIDE_DEQUANTIZE 1
#define COTAN_WIDE_TARGET __attribute__((target("avx512f")))
#endif

namespace cotan::cpu::expr {
namespace {

// Elements that one thread should get, at least: about 20 microseconds.
constexpr int64_t kElementsPerThread = 128 * 1024;

// Consecutive groups of one row; strides are in elements. A group is one run of `length` elements, or with halves a run
// of low and one of high bits.
struct Groups {
  const uint8_t* data = nullptr;
  int64_t data_stride = 0;
  const float* factors = nullptr;
  int64_t factor_stride = 0;
  int64_t count = 0;
  int64_t length = 0;
  float zero = 0;
  float* out = nullptr;
};

enum class Form : uint8_t { kSigned, kUnsigned, kHalves };

// Writes run elements [begin, length).
template <Form kForm>
[[gnu::always_inline]] inline void WriteRest(const Groups& groups, const uint8_t* data, float factor, int64_t begin,
                                             float* out) {
  for (int64_t i = begin; i < groups.length; ++i) {
    const int byte = data[i];
    if constexpr (kForm == Form::kHalves) {
      out[i] = (static_cast<float>(byte & 15) - groups.zero) * factor;
      out[groups.length + i] = (static_cast<float>(byte >> 4) - groups.zero) * factor;
    } else {
      const int integer = kForm == Form::kSigned ? static_cast<int8_t>(byte) : byte;
      out[i] = (static_cast<float>(integer) - groups.zero) * factor;
    }
  }
}

template <Form kForm>
void WriteGroups(const Groups& groups) {
  float* out = groups.out;
  for (int64_t g = 0; g < groups.count; ++g) {
    WriteRest<kForm>(groups, groups.data + g * groups.data_stride, groups.factors[g * groups.factor_stride], 0, out);
    out += kForm == Form::kHalves ? 2 * groups.length : groups.length;
  }
}

using GroupsFn = void (*)(const Groups& groups);

#ifdef COTAN_HAS_WIDE_DEQUANTIZE

constexpr int64_t kVector = 16;  // floats

COTAN_WIDE_TARGET inline __m512 Scaled(__m512i integers, __m512 zero, __m512 factor) {
  return _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(integers), zero), factor);
}

template <Form kForm>
COTAN_WIDE_TARGET void WriteWideGroups(const Groups& groups) {
  const __m512 zero = _mm512_set1_ps(groups.zero);
  const __m512i low_bits = _mm512_set1_epi32(15);
  float* out = groups.out;
  for (int64_t g = 0; g < groups.count; ++g) {
    const uint8_t* const data = groups.data + g * groups.data_stride;
    const float factor = groups.factors[g * groups.factor_stride];
    const __m512 factors = _mm512_set1_ps(factor);
    int64_t i = 0;
    for (; i + kVector <= groups.length; i += kVector) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + i));
      const __m512i integers = kForm == Form::kSigned ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
      if constexpr (kForm == Form::kHalves) {
        _mm512_storeu_ps(out + i, Scaled(_mm512_and_epi32(integers, low_bits), zero, factors));
        _mm512_storeu_ps(out + groups.length + i, Scaled(_mm512_srli_epi32(integers, 4), zero, factors));
      } else {
        _mm512_storeu_ps(out + i, Scaled(integers, zero, factors));
      }
    }
    if (i < groups.length) WriteRest<kForm>(groups, data, factor, i, out);
    out += kForm == Form::kHalves ? 2 * groups.length : groups.length;
  }
}

template <Form kForm>
GroupsFn FunctionOf() {
  return __builtin_cpu_supports("avx512f") ? WriteWideGroups<kForm> : WriteGroups<kForm>;
}

#else

template <Form kForm>
GroupsFn FunctionOf() {
  return WriteGroups<kForm>;
}

#endif

// Strides of a dimension, in elements of each operand.
struct Dim {
  int64_t size = 1;
  int64_t data = 0;
  int64_t factor = 0;
  int64_t out = 0;
};

// The loops of a dequantization: rows of groups of runs.
struct Runs {
  Dim rows;
  Dim groups;
  int64_t length = 1;  // of a run
};

// The strides of the operands along each dimension of the domain.
struct Strides {
  DimVector data;
  DimVector factor;
  DimVector out;

  Dim At(size_t d, int64_t size) const { return {size, data[d], factor[d], out[d]}; }
};

bool CanMerge(const Dim& outer, const Dim& inner) {
  return outer.data == inner.data * inner.size && outer.factor == inner.factor * inner.size &&
         outer.out == inner.out * inner.size;
}

// Returns the dimensions of the domain, without those of size 1 and with adjacent ones merged where the operands allow
// it, except that of the halves, which is dimension *half of the result; SIZE_MAX: there is none.
std::vector<Dim> MergedDims(const ExprProgram& program, const Dequantization& form, const Strides& strides,
                            size_t* half) {
  std::vector<Dim> dims;
  *half = SIZE_MAX;
  for (size_t d = 0; d < program.domain_sizes.size(); ++d) {
    const Dim dim = strides.At(d, program.domain_sizes[d]);
    if (dim.size == 1) continue;
    const bool is_half = static_cast<int>(d) == form.half_dim;
    const bool follows_half = *half != SIZE_MAX && *half + 1 == dims.size();
    if (!dims.empty() && !is_half && !follows_half && CanMerge(dims.back(), dim)) {
      const int64_t outer = dims.back().size;
      dims.back() = dim;
      dims.back().size *= outer;
      continue;
    }
    if (is_half) *half = dims.size();
    dims.push_back(dim);
  }
  return dims;
}

// Returns the loops, or nothing if there are more dimensions than they have, or the rows of the result are not dense.
std::optional<Runs> FindRuns(const ExprProgram& program, const Dequantization& form, const Strides& strides) {
  size_t half = SIZE_MAX;
  std::vector<Dim> dims = MergedDims(program, form, strides, &half);
  Runs runs;
  if (!dims.empty() && half != dims.size() - 1 && dims.back().data == 1 && dims.back().factor == 0) {
    if (dims.back().out != 1) return std::nullopt;
    runs.length = dims.back().size;
    dims.pop_back();
  }
  int64_t group = runs.length;
  if (half != SIZE_MAX) {
    const bool is_next = !dims.empty() && half == dims.size() - 1;
    if (!is_next || dims.back().data != 0 || dims.back().factor != 0 || dims.back().out != group) return std::nullopt;
    dims.pop_back();
    group *= 2;
  }
  if (dims.size() > 2 || (!dims.empty() && dims.back().out != group && dims.size() == 2)) return std::nullopt;
  if (!dims.empty()) (dims.back().out == group ? runs.groups : runs.rows) = dims.back();
  if (dims.size() == 2) runs.rows = dims.front();
  return runs;
}

class DequantizeKernel final : public Kernel {
 public:
  // `other` is null without an input of shifts, which are `shift_stride` bytes apart.
  DequantizeKernel(const Dequantization& form, const Runs& runs, GroupsFn write, int threads, int64_t shift_stride,
                   std::unique_ptr<Kernel> other)
      : form_(form), runs_(runs), write_(write), shift_stride_(shift_stride), other_(std::move(other)) {
    if (other_ != nullptr) scratch_bytes_ = other_->scratch_bytes();
    const int64_t elements = runs.rows.size * runs.groups.size * runs.length * (form.half_dim >= 0 ? 2 : 1);
    const int64_t useful = std::max<int64_t>(1, elements / kElementsPerThread);
    threads_ = static_cast<int>(std::min<int64_t>(threads, useful));
  }

  absl::Status Run(const KernelArgs& args) override {
    if (other_ != nullptr && !SelectsHalves(static_cast<const uint8_t*>(args.inputs[form_.shift]))) {
      return other_->Run(args);
    }
    const Groups first = {.data = static_cast<const uint8_t*>(args.inputs[form_.data]),
                          .data_stride = runs_.groups.data,
                          .factors = static_cast<const float*>(args.inputs[form_.factor]),
                          .factor_stride = runs_.groups.factor,
                          .count = runs_.groups.size,
                          .length = runs_.length,
                          .zero = form_.zero,
                          .out = static_cast<float*>(args.outputs[0])};
    const int64_t grain = std::max<int64_t>((runs_.rows.size + threads_ - 1) / threads_, 1);
    ParallelFor(threads_, runs_.rows.size, grain, [&](int64_t begin, int64_t end) {
      Groups groups = first;
      for (int64_t row = begin; row < end; ++row) {
        groups.data = first.data + row * runs_.rows.data;
        groups.factors = first.factors + row * runs_.rows.factor;
        groups.out = first.out + row * runs_.rows.out;
        write_(groups);
      }
    });
    return absl::OkStatus();
  }

 private:
  bool SelectsHalves(const uint8_t* shifts) const { return shifts[0] == 0 && shifts[shift_stride_] == 4; }

  const Dequantization form_;
  const Runs runs_;
  const GroupsFn write_;
  const int64_t shift_stride_;
  const std::unique_ptr<Kernel> other_;
  int threads_ = 1;
};

GroupsFn FunctionFor(const Dequantization& form, DType data) {
  if (form.half_dim >= 0) return FunctionOf<Form::kHalves>();
  return data == DType::kInt8 ? FunctionOf<Form::kSigned>() : FunctionOf<Form::kUnsigned>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeDequantize(const ExprProgram& program, const KernelRequest& request,
                                                       KernelFactory other) {
  const std::optional<Dequantization> form = FindDequantization(program, request.inputs);
  if (!form || NumElements(program.domain_sizes) == 0) return nullptr;
  const TensorSpec& data = request.inputs[static_cast<size_t>(form->data)];
  const TensorSpec& factor = request.inputs[static_cast<size_t>(form->factor)];
  const Strides strides = {.data = BroadcastStrides(data.layout, program.domain_sizes),
                           .factor = BroadcastStrides(factor.layout, program.domain_sizes),
                           .out = BroadcastStrides(request.outputs[0].layout, program.domain_sizes)};
  const std::optional<Runs> runs = FindRuns(program, *form, strides);
  if (!runs) return nullptr;
  std::unique_ptr<Kernel> fallback;
  int64_t shift_stride = 0;
  if (form->shift >= 0) {
    COTAN_ASSIGN_OR_RETURN(fallback, other(request));
    const StridedLayout& shifts = request.inputs[static_cast<size_t>(form->shift)].layout;
    shift_stride = BroadcastStrides(shifts, program.domain_sizes)[static_cast<size_t>(form->half_dim)];
  }
  return std::make_unique<DequantizeKernel>(*form, *runs, FunctionFor(*form, data.dtype), request.threads, shift_stride,
                                            std::move(fallback));
}

}  // namespace cotan::cpu::expr
