#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cpu/copy.h"
#include "kernels/cpu/dnnl/primitive.h"
#include "kernels/cpu/matmul_geometry.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pipeline.h"
#include "kernels/cpu/team.h"

namespace cotan::cpu {
namespace {

using onednn::Argument;

// Strides as a library expects them: a dimension of size 1 has the stride it
// would have if the matrix were dense.
MatrixStrides Sane(int64_t rows, int64_t columns, MatrixStrides strides) {
  if (columns == 1) return {rows == 1 ? 1 : strides.row, 1};
  if (rows == 1) return strides.column == 1 ? MatrixStrides{columns, 1} : MatrixStrides{1, strides.column};
  return strides;
}

bool IsRowMajor(int64_t columns, MatrixStrides strides) { return strides.column == 1 && strides.row >= columns; }

// Whether a library can read the last two dimensions in place.
bool IsPlain(const StridedLayout& layout) {
  const size_t rank = layout.sizes.size();
  if (rank < 2) return true;  // refused later
  const int64_t rows = layout.sizes[rank - 2];
  const int64_t columns = layout.sizes[rank - 1];
  const MatrixStrides strides = Sane(rows, columns, {layout.strides[rank - 2], layout.strides[rank - 1]});
  return IsRowMajor(columns, strides) || IsRowMajor(rows, {strides.column, strides.row});
}

// Whether some batch dimension repeats both matrices.
bool RepeatsProducts(const MatmulGeometry& geometry) {
  return std::any_of(geometry.batch.begin(), geometry.batch.end(),
                     [](const BatchLoop& loop) { return loop.a == 0 && loop.b == 0; });
}

// c^T = b^T a^T.
MatmulGeometry Transposed(const MatmulGeometry& geometry) {
  MatmulGeometry result = geometry;
  std::swap(result.m, result.n);
  result.a = {geometry.b.column, geometry.b.row};
  result.b = {geometry.a.column, geometry.a.row};
  result.c = {geometry.c.column, geometry.c.row};
  for (BatchLoop& loop : result.batch) std::swap(loop.a, loop.b);
  return result;
}

// One operand's geometry with its batch dimensions. `batch_stride` picks the
// operand.
absl::StatusOr<dnnl_memory_desc_t> OperandMemory(const MatmulGeometry& geometry, int64_t BatchLoop::*batch_stride,
                                                 int64_t rows, int64_t columns, MatrixStrides strides) {
  DimVector sizes;
  DimVector steps;
  for (const BatchLoop& loop : geometry.batch) {
    const bool repeats = loop.*batch_stride == 0;
    sizes.push_back(repeats ? 1 : loop.size);
    steps.push_back(repeats ? rows * columns : loop.*batch_stride);
  }
  const MatrixStrides sane = Sane(rows, columns, strides);
  sizes.push_back(rows);
  sizes.push_back(columns);
  steps.push_back(sane.row);
  steps.push_back(sane.column);
  return onednn::StridedMemory(DType::kFloat32, sizes, steps);
}

enum class Addend { kNone, kBias, kInOutput };

// Whether oneDNN might share one long sum among threads, so that the result
// would depend on their number. It does so when the left matrix is stored by
// columns, and in the code it uses for matrices with gaps.
bool MaySplitSum(const MatmulGeometry& geometry, const_dnnl_primitive_desc_t desc) {
  const bool is_long = geometry.k >= 1024 && geometry.batch.empty();
  return is_long && (geometry.a.column != 1 || onednn::ImplementationRank(desc) != 0);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const MatmulGeometry& g, Addend addend, int threads, bool is_panel);

// The product cut into panels of rows or columns, each made by one thread.
absl::StatusOr<std::unique_ptr<Kernel>> MakePanels(const MatmulGeometry& geometry, Addend addend, int threads) {
  constexpr int64_t kPanel = 128;
  const bool by_rows = geometry.m >= geometry.n;
  const int64_t extent = by_rows ? geometry.m : geometry.n;
  auto team = std::make_unique<Team>(threads);
  for (int64_t begin = 0; begin < extent; begin += kPanel) {
    MatmulGeometry part = geometry;
    (by_rows ? part.m : part.n) = std::min(kPanel, extent - begin);
    const auto bytes = static_cast<size_t>(begin) * sizeof(float);
    const size_t rows = by_rows ? bytes : 0;
    const size_t columns = by_rows ? 0 : bytes;
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product, MakeProduct(part, addend, 1, /*is_panel=*/true));
    std::vector<Slot> inputs = {Slot::Input(0, rows * static_cast<size_t>(geometry.a.row)),
                                Slot::Input(1, columns * static_cast<size_t>(geometry.b.column))};
    if (addend == Addend::kBias) inputs.push_back(Slot::Input(2, columns));
    const size_t output = rows * static_cast<size_t>(geometry.c.row) + columns * static_cast<size_t>(geometry.c.column);
    team->Add(std::move(product), std::move(inputs), {Slot::Output(0, output)});
  }
  return team;
}

// The product as one primitive or, unless it `is_panel` itself, in panels where
// the thread count would change the result.
absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const MatmulGeometry& g, Addend addend, int threads,
                                                    bool is_panel) {
  const ScopedThreads scoped(threads);
  COTAN_ASSIGN_OR_RETURN(const dnnl_memory_desc_t a, OperandMemory(g, &BatchLoop::a, g.m, g.k, g.a));
  COTAN_ASSIGN_OR_RETURN(const dnnl_memory_desc_t b, OperandMemory(g, &BatchLoop::b, g.k, g.n, g.b));
  COTAN_ASSIGN_OR_RETURN(const dnnl_memory_desc_t c, OperandMemory(g, &BatchLoop::c, g.m, g.n, g.c));
  std::vector<Argument> inputs = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}};
  if (addend == Addend::kBias) {
    DimVector sizes(g.batch.size() + 2, 1);
    sizes.back() = g.n;
    COTAN_ASSIGN_OR_RETURN(const dnnl_memory_desc_t bias,
                           onednn::StridedMemory(DType::kFloat32, sizes, ContiguousStrides(sizes)));
    inputs.push_back({DNNL_ARG_BIAS, bias});
  }
  dnnl_matmul_desc_t operation;
  COTAN_RETURN_IF_DNNL_ERROR(
      dnnl_matmul_desc_init(&operation, &a, &b, addend == Addend::kBias ? &inputs[2].memory : nullptr, &c));
  COTAN_ASSIGN_OR_RETURN(const onednn::OwnedAttr attr, onednn::MakeAttr(addend == Addend::kInOutput));
  COTAN_ASSIGN_OR_RETURN(const onednn::OwnedDesc desc, onednn::MakeDesc(&operation, attr.get()));
  if (!is_panel && MaySplitSum(g, desc.get())) return MakePanels(g, addend, threads);
  return onednn::MakePrimitive(desc.get(), std::move(inputs), {{DNNL_ARG_DST, c}});
}

// Whether the addend is one dense row, the same for all rows of the output.
bool IsBias(const StridedLayout& addend, int64_t n) {
  return addend.rank() >= 1 && NumElements(addend.sizes) == n && addend.sizes.back() == n &&
         (n == 1 || addend.strides.back() == 1);
}

// The product with operands that the library takes in place.
absl::Status AddProduct(const KernelRequest& request, std::vector<Slot> inputs, Slot output, Pipeline& pipeline) {
  COTAN_ASSIGN_OR_RETURN(MatmulGeometry geometry, AnalyzeMatmul(request));
  if (geometry.IsEmpty()) return absl::OkStatus();
  const StridedLayout& c = request.outputs[0].layout;
  const bool is_sum_empty = geometry.k == 0;
  const bool transposes = !IsRowMajor(geometry.n, Sane(geometry.m, geometry.n, geometry.c));
  Addend addend = Addend::kNone;
  if (inputs.size() == 3) {
    const StridedLayout& layout = request.inputs[2].layout;
    const bool is_bias = !transposes && !is_sum_empty && IsBias(layout, geometry.n);
    addend = is_bias ? Addend::kBias : Addend::kInOutput;
    if (!is_bias) {
      COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> copy,
                             MakeBroadcastCopyKernel(sizeof(float), layout, c, request.threads));
      pipeline.Add(std::move(copy), {inputs[2]}, {output});
      inputs.pop_back();
    }
  }
  if (is_sum_empty) {
    if (addend == Addend::kNone) pipeline.Add(MakeZeroKernel(sizeof(float), c, request.threads), {}, {output});
    return absl::OkStatus();
  }
  if (transposes) {
    geometry = Transposed(geometry);
    std::swap(inputs[0], inputs[1]);
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product,
                         MakeProduct(geometry, addend, request.threads, /*is_panel=*/false));
  pipeline.Add(std::move(product), std::move(inputs), {output});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmul(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const MatmulGeometry geometry, AnalyzeMatmul(request));
  const int threads = ThreadsWorthwhile(request.threads, geometry.Flops());
  const bool repeats = RepeatsProducts(geometry);
  auto pipeline = std::make_unique<Pipeline>(threads);

  std::vector<TensorSpec> inputs(request.inputs.begin(), request.inputs.end());
  std::vector<Slot> slots;
  for (size_t i = 0; i < inputs.size(); ++i) {
    slots.push_back(Slot::Input(i));
    StridedLayout& layout = inputs[i].layout;
    if (i == 2 || (IsPlain(layout) && !repeats)) continue;
    const DimVector dense = ContiguousStrides(layout.sizes);
    const Slot packed = pipeline->AddScratch(sizeof(float) * static_cast<size_t>(NumElements(layout.sizes)));
    pipeline->Add(MakeCopyKernel(sizeof(float), layout.sizes, layout.strides, dense, threads), {slots[i]}, {packed});
    layout.strides = dense;
    slots[i] = packed;
  }

  TensorSpec output = request.outputs[0];
  Slot output_slot = Slot::Output(0);
  const bool is_plain = IsPlain(output.layout);
  if (!is_plain) {
    output.layout.strides = ContiguousStrides(output.layout.sizes);
    output_slot = pipeline->AddScratch(sizeof(float) * static_cast<size_t>(NumElements(output.layout.sizes)));
  }
  const KernelRequest plain{request.op,      inputs,  absl::MakeConstSpan(&output, 1),
                            request.symbols, threads, request.device};
  COTAN_RETURN_IF_ERROR(AddProduct(plain, std::move(slots), output_slot, *pipeline));
  if (!is_plain) {
    const StridedLayout& to = request.outputs[0].layout;
    pipeline->Add(MakeCopyKernel(sizeof(float), to.sizes, output.layout.strides, to.strides, threads), {output_slot},
                  {Slot::Output(0)});
  }
  return pipeline;
}

}  // namespace cotan::cpu
