// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/half_precision/half_precision.h"
#include "kernels/cpu/matmul/amx_bf16_gemm.h"
#include "kernels/cpu/matmul/avx512_bf16_gemm.h"
#include "kernels/cpu/matmul/avx512_gemm.h"
#include "kernels/cpu/matmul/computed_operand.h"
#include "kernels/cpu/matmul/few_rows.h"
#include "kernels/cpu/matmul/matmul_epilogue.h"
#include "kernels/cpu/matmul/matmul_geometry.h"
#include "kernels/cpu/matmul/matmul_steps.h"
#include "kernels/cpu/matmul/onednn_blocklist.h"
#include "kernels/cpu/onednn/primitive.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/parallel_kernel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {
namespace {

using onednn::Argument;
using onednn::MemoryLayout;

// Returns the descriptor of one operand with its batch dimensions; `batch_stride` selects the operand.
absl::StatusOr<MemoryLayout> OperandMemory(const MatmulGeometry& geometry, int64_t BatchLoop::*batch_stride,
                                           int64_t rows, int64_t columns, MatrixStrides strides, DType dtype) {
  DimVector sizes;
  DimVector steps;
  for (const BatchLoop& loop : geometry.batch) {
    const bool repeats = loop.*batch_stride == 0;
    sizes.push_back(repeats ? 1 : loop.size);
    steps.push_back(repeats ? rows * columns : loop.*batch_stride);
  }
  const MatrixStrides sane = NormalizeUnitStrides(rows, columns, strides);
  sizes.push_back(rows);
  sizes.push_back(columns);
  steps.push_back(sane.row);
  steps.push_back(sane.column);
  return onednn::StridedMemory(dtype, sizes, steps);
}

// Returns true if the result may depend on the number of threads. oneDNN's best code splits a long sum among
// threads when the left matrix is stored by columns; its code for matrices with gaps, and for processors
// without AVX-512, sums in another order at the boundaries of the threads' parts.
bool DependsOnThreads(const MatmulGeometry& geometry, const_dnnl_primitive_desc_t desc) {
  if (onednn::ImplementationRank(desc) != 0) return true;
  return geometry.k >= 1024 && geometry.batch.empty() && geometry.a.column != 1;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const MatmulGeometry& g, Addend addend, DType dtype, int threads,
                                                    bool is_part);

// Returns the products of a batch in parts; one thread computes a part.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBatchParts(const MatmulGeometry& geometry, Addend addend, DType dtype,
                                                       int threads) {
  constexpr int64_t kMaxParts = 16;
  const BatchLoop& loop = geometry.batch[0];
  const int64_t parts = std::min(loop.size, kMaxParts);
  const auto offset = [&](int64_t stride, int64_t begin) {
    return static_cast<size_t>(stride * begin) * ByteSize(dtype);
  };
  auto team = std::make_unique<ParallelKernel>(threads);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = loop.size * i / parts;
    MatmulGeometry part = geometry;
    part.batch[0].size = loop.size * (i + 1) / parts - begin;
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product, MakeProduct(part, addend, dtype, 1, /*is_part=*/true));
    std::vector<Slot> inputs = {Slot::Input(0, offset(loop.a, begin)), Slot::Input(1, offset(loop.b, begin))};
    if (addend == Addend::kBias) inputs.push_back(Slot::Input(2));
    team->Add(std::move(product), std::move(inputs), {Slot::Output(0, offset(loop.c, begin))});
  }
  return team;
}

// Returns the product in panels of rows or columns; one thread computes a panel.
absl::StatusOr<std::unique_ptr<Kernel>> MakePanels(const MatmulGeometry& geometry, Addend addend, DType dtype,
                                                   int threads) {
  constexpr int64_t kPanel = 128;
  const bool by_rows = geometry.m >= geometry.n;
  const int64_t extent = by_rows ? geometry.m : geometry.n;
  auto team = std::make_unique<ParallelKernel>(threads);
  for (int64_t begin = 0; begin < extent; begin += kPanel) {
    MatmulGeometry part = geometry;
    (by_rows ? part.m : part.n) = std::min(kPanel, extent - begin);
    const auto bytes = static_cast<size_t>(begin) * ByteSize(dtype);
    const size_t rows = by_rows ? bytes : 0;
    const size_t columns = by_rows ? 0 : bytes;
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product, MakeProduct(part, addend, dtype, 1, /*is_part=*/true));
    std::vector<Slot> inputs = {Slot::Input(0, rows * static_cast<size_t>(geometry.a.row)),
                                Slot::Input(1, columns * static_cast<size_t>(geometry.b.column))};
    if (addend == Addend::kBias) inputs.push_back(Slot::Input(2, columns));
    const size_t output = rows * static_cast<size_t>(geometry.c.row) + columns * static_cast<size_t>(geometry.c.column);
    team->Add(std::move(product), std::move(inputs), {Slot::Output(0, output)});
  }
  return team;
}

// Returns the product as one primitive, or in parts if the thread count would change the result. `is_part`:
// the product is such a part and is not split again.
absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const MatmulGeometry& g, Addend addend, DType dtype, int threads,
                                                    bool is_part) {
  const ScopedThreads scoped(threads);
  COTAN_ASSIGN_OR_RETURN(const MemoryLayout a, OperandMemory(g, &BatchLoop::a, g.m, g.k, g.a, dtype));
  COTAN_ASSIGN_OR_RETURN(const MemoryLayout b, OperandMemory(g, &BatchLoop::b, g.k, g.n, g.b, dtype));
  COTAN_ASSIGN_OR_RETURN(const MemoryLayout c, OperandMemory(g, &BatchLoop::c, g.m, g.n, g.c, dtype));
  std::vector<Argument> inputs = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}};
  MemoryLayout bias;
  if (addend == Addend::kBias) {
    DimVector sizes(g.batch.size() + 2, 1);
    sizes.back() = g.n;
    COTAN_ASSIGN_OR_RETURN(bias, onednn::StridedMemory(dtype, sizes, ContiguousStrides(sizes)));
    inputs.push_back({DNNL_ARG_BIAS, bias});
  }
  COTAN_ASSIGN_OR_RETURN(const onednn::OwnedAttr attr, onednn::MakeAttr(addend == Addend::kInOutput));
  const auto is_usable = [&](absl::string_view implementation) { return !IsMiscomputedByOneDnn(g, implementation); };
  const auto describe = [&] { return onednn::MakeMatmulDesc(a, b, bias, c, attr.get(), is_usable); };
  COTAN_ASSIGN_OR_RETURN(const onednn::OwnedDesc desc, describe());
  if (!is_part && DependsOnThreads(g, desc.get())) {
    return g.batch.empty() ? MakePanels(g, addend, dtype, threads) : MakeBatchParts(g, addend, dtype, threads);
  }
  if (threads == 1) return onednn::MakePrimitive(desc.get(), std::move(inputs), {{DNNL_ARG_DST, c}});
  return onednn::MakeTeamPrimitive(desc.get(), describe, std::move(inputs), {{DNNL_ARG_DST, c}});
}

// Returns an AVX-512 or AMX kernel where it is faster, otherwise oneDNN's.
absl::StatusOr<std::unique_ptr<Kernel>> MakeFastestProduct(const MatmulGeometry& geometry, Addend addend, DType dtype,
                                                           int threads) {
  if (dtype == DType::kFloat32) {
    if (std::unique_ptr<Kernel> kernel = MakeFewRowsProduct(geometry, addend, threads)) return kernel;
  }
  if (dtype == DType::kFloat32 && IsFastAvx512Gemm(geometry)) {
    if (std::unique_ptr<Kernel> kernel = MakeAvx512Gemm(geometry, addend, threads)) return kernel;
  }
  if (dtype == DType::kBFloat16) {
    if (std::unique_ptr<Kernel> kernel = MakeAmxBf16Gemm(geometry, addend, threads)) return kernel;
    if (std::unique_ptr<Kernel> kernel = MakeAvx512Bf16Gemm(geometry, addend, threads)) return kernel;
  }
  return MakeProduct(geometry, addend, dtype, threads, /*is_part=*/false);
}

// Returns the product with a block of a computed operand. Calls of oneDNN for blocks cost more than packing unless
// there are very few rows.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBlockProduct(const MatmulGeometry& geometry, Addend addend, DType dtype,
                                                         int threads) {
  constexpr int64_t kMinRows = 12;
  if (geometry.m >= kMinRows) {
    if (std::unique_ptr<Kernel> kernel = MakeAvx512Gemm(geometry, addend, threads)) return kernel;
  }
  return MakeProduct(geometry, addend, dtype, threads, /*is_part=*/true);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmul(const KernelRequest& request) {
  if (request.op.matmul().has_epilogue()) return MakeMatmulEpilogue(request, MakeMatmul);
  const bool is_half = ByteSize(request.outputs[0].dtype) == 2;
  if (is_half && !onednn::HasFast(request.outputs[0].dtype)) return MakeWidenedKernel(request, MakeMatmul);
  return MakeMatmulSteps(request, {MakeFastestProduct, /*takes_bias=*/true});
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulOfComputedOperand(const ComputedOperandRequest& request) {
  return MakeComputedOperandProduct(request, {MakeBlockProduct, /*takes_bias=*/true}, MakeExpr);
}

}  // namespace cotan::cpu
