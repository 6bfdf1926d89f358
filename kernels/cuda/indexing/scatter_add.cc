// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/scatter_add.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/copy/loop_nest.h"
#include "kernels/cuda/indexing/index_errors.h"

namespace cotan::cuda {
namespace {

// The operands of the loops over columns.
constexpr size_t kOutput = 0;
constexpr size_t kRows = 1;
constexpr size_t kBase = 2;

// An index with more elements, or more comparisons of rows with them, is divided into buckets first.
constexpr int64_t kMaxSearched = 4096;
constexpr int64_t kMaxComparisons = int64_t{1} << 25;
constexpr int64_t kMaxBuckets = 256;
constexpr int kPartitionThreads = 1024;
// Warps that keep a GPU busy: lanes own fewer columns if there are not as many.
constexpr int64_t kManyWarps = 1024;
// Each block reads the index; there are smaller blocks if these are too few for a GPU.
constexpr int64_t kManyBlocks = 128;
constexpr int kMinThreads = 128;
constexpr int64_t kScratchAlignment = 64;

absl::string_view SumType(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "double";
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
      return "float";
    default:
      return "Element";
  }
}

// Returns an element type whose sums wrap around.
absl::string_view ElementType(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return "cotan::uint8";
    case DType::kInt16:
      return "cotan::uint16";
    case DType::kInt32:
      return "cotan::uint32";
    case DType::kInt64:
      return "cotan::uint64";
    default:
      return ElementTypeName(dtype);
  }
}

class ScatterPlanner {
 public:
  explicit ScatterPlanner(const KernelRequest& request)
      : request_(request),
        dim_(static_cast<size_t>(request.op.scatter_add().dim())),
        output_(request.outputs[0]),
        index_(request.inputs[1]),
        has_base_(request.inputs.size() > 2),
        range_{.size = output_.layout.sizes[dim_], .from_end = true},
        columns_(Columns()),
        positions_(Positions()) {
    vector_ = VectorSize();
    const int64_t parts = CeilDiv(columns_.count() / vector_, 32);
    warps_ = range_.size * parts;
    const int64_t count = positions_.count();
    is_long_ = count > kMaxSearched || (count > 0 && warps_ > kMaxComparisons / count);
    buckets_ = is_long_ ? std::min(kMaxBuckets, std::max<int64_t>(range_.size, 1)) : 1;
    while (threads_ > kMinThreads && CeilDiv(warps_, threads_ / 32) < kManyBlocks) threads_ /= 2;
    index_type_ = IndexTypeFor(LargestIndex());
  }

  absl::StatusOr<KernelPlan> Plan() {
    SetErrorAt(serialization::Op::kScatterAdd, range_, index_.layout.sizes, plan_);
    const bool is_empty = range_.size == 0 || columns_.count() == 0;
    records_ = !is_empty && !is_long_ && !request_.guarded_outputs;
    if (is_empty || (!is_long_ && !records_)) {
      COTAN_RETURN_IF_ERROR(AppendIndexCheck(index_, InputArgument(1), range_, plan_));
    }
    if (is_empty) return std::move(plan_);
    if (is_long_) COTAN_RETURN_IF_ERROR(AppendPartition());
    COTAN_RETURN_IF_ERROR(AppendSums());
    return std::move(plan_);
  }

 private:
  // Returns the loops over the elements of a row of the output.
  LoopNest Columns() const {
    const StridedLayout& rows = request_.inputs[0].layout;
    std::vector<LoopDim> dims;
    for (size_t d = 0; d < output_.layout.sizes.size(); ++d) {
      if (d == dim_) continue;
      const size_t from = d < dim_ ? d : d - 1 + index_.layout.sizes.size();
      dims.push_back(
          {output_.layout.sizes[d],
           {output_.layout.strides[d], rows.strides[from], has_base_ ? request_.inputs[2].layout.strides[d] : 0}});
    }
    LoopNest nest(dims);
    nest.Simplify(kOutput);
    return nest;
  }

  // Returns the loops over the elements of the index, in order.
  LoopNest Positions() const {
    const absl::Span<const int64_t> rows = request_.inputs[0].layout.strides;
    LoopNest nest(index_.layout.sizes, {index_.layout.strides, rows.subspan(dim_, index_.layout.sizes.size())});
    nest.Merge();
    return nest;
  }

  // Returns the number of elements that a lane adds: consecutive in all operands, at multiples of their number.
  int64_t VectorSize() const {
    const size_t all[] = {kOutput, kRows, kBase};
    const auto max = static_cast<int64_t>(16 / ByteSize(output_.dtype));
    int64_t vector = columns_.VectorSize(absl::MakeConstSpan(all).subspan(0, has_base_ ? 3 : 2), max);
    const auto fits = [&] {
      if (output_.layout.strides[dim_] % vector != 0) return false;
      if (has_base_ && request_.inputs[2].layout.strides[dim_] % vector != 0) return false;
      if (range_.size * CeilDiv(columns_.count() / vector, 32) < kManyWarps) return false;
      return std::all_of(positions_.dims().begin(), positions_.dims().end(),
                         [&](const LoopDim& dim) { return dim.strides[1] % vector == 0; });
    };
    while (vector > 1 && !fits()) vector /= 2;
    return vector;
  }

  int64_t LargestIndex() const {
    const int64_t base_row = has_base_ ? request_.inputs[2].layout.strides[dim_] : 0;
    const int64_t row = std::max(output_.layout.strides[dim_], base_row);
    return std::max({columns_.Extent(kOutput) + row * range_.size, columns_.Extent(kBase) + row * range_.size,
                     columns_.Extent(kRows) + positions_.Extent(1), positions_.Extent(0), positions_.count(),
                     warps_ * 32, range_.size * columns_.count()});
  }

  std::string ScatterText() const {
    const auto constant = [](absl::string_view name, int64_t value) {
      return absl::StrCat("  static constexpr cotan::int64 k", name, " = ", Literal(value), ";\n");
    };
    return absl::StrCat("struct S {\n  using Element = ", ElementType(output_.dtype),
                        ";\n  using Sum = ", SumType(output_.dtype),
                        ";\n  using IndexElement = ", ElementTypeName(index_.dtype), ";\n  using Index = ", index_type_,
                        ";\n  using R = ", RangeText(range_), ";\n  using Columns = ", columns_.Text(),
                        ";\n  using Positions = ", positions_.Text(), ";\n",
                        constant("Padding", std::max<int64_t>(request_.op.scatter_add().padding_index(), -1)),
                        constant("Count", positions_.count()), constant("Columns", columns_.count()),
                        constant("OutputRow", output_.layout.strides[dim_]),
                        constant("BaseRow", has_base_ ? request_.inputs[2].layout.strides[dim_] : 0),
                        constant("Buckets", buckets_), "  static constexpr int kThreads = ", threads_,
                        ", kVector = ", vector_, ";\n  static constexpr bool kHasBase = ", Bool(has_base_),
                        ";\n  static constexpr bool kRecords = ", Bool(records_), ";\n};\n");
  }

  // Appends the launch that makes the lists, and reserves the scratch for them.
  absl::Status AppendPartition() {
    const int64_t number = index_type_ == "cotan::uint32" ? 4 : 8;
    positions_at_ = CeilDiv((buckets_ + 1) * number, kScratchAlignment) * kScratchAlignment;
    rows_at_ = positions_at_ + CeilDiv(positions_.count() * number, kScratchAlignment) * kScratchAlignment;
    plan_.scratch_bytes = static_cast<size_t>(rows_at_ + positions_.count() * number);
    KernelText kernel = {.entry = "scatter_partition", .header = "indexing_scatter.cuh", .definitions = ScatterText()};
    kernel.parameters.push_back({IndexDeclaration(index_.dtype), InputArgument(1)});
    AppendLists("", kernel.parameters);
    AppendErrorParameters(kernel.parameters);
    kernel.body =
        absl::StrCat("  cotan::indexing::PartitionIndex<S>(index, starts, positions, entry_rows, ", kErrors, ");\n");
    kernel.blocks = buckets_;
    kernel.threads = kPartitionThreads;
    COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
    plan_.steps.push_back(std::move(launch));
    return absl::OkStatus();
  }

  void AppendLists(absl::string_view qualifier, std::vector<KernelParameter>& parameters) const {
    const auto add = [&](absl::string_view name, int64_t offset) {
      parameters.push_back({absl::StrCat(qualifier, index_type_, "* ", name), ScratchArgument(offset)});
    };
    add("starts", 0);
    add("positions", positions_at_);
    add("entry_rows", rows_at_);
  }

  // Appends the launch that writes the output.
  absl::Status AppendSums() {
    KernelText kernel = {.entry = "scatter_add",
                         .header = "indexing_scatter.cuh",
                         .definitions = ScatterText(),
                         .guarded = request_.guarded_outputs};
    const absl::string_view base = has_base_ ? "base" : "nullptr";
    kernel.parameters.push_back({"const S::Element* rows", InputArgument(0)});
    if (has_base_) kernel.parameters.push_back({"const S::Element* base", InputArgument(2)});
    kernel.parameters.push_back({"S::Element* output", OutputArgument(0)});
    if (is_long_) {
      AppendLists("const ", kernel.parameters);
      kernel.body =
          absl::StrCat("  cotan::indexing::AddBuckets<S>(rows, starts, positions, entry_rows, ", base, ", output);\n");
    } else {
      kernel.parameters.push_back({"const S::IndexElement* index", InputArgument(1)});
      if (records_) AppendErrorParameters(kernel.parameters);
      kernel.body = absl::StrCat("  cotan::indexing::AddRows<S>(rows, index, ", base, ", output, ",
                                 records_ ? kErrors : kNoErrors, ");\n");
    }
    kernel.threads = threads_;
    kernel.blocks = CeilDiv(warps_, kernel.threads / 32);
    COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
    plan_.steps.push_back(std::move(launch));
    return absl::OkStatus();
  }

  static absl::string_view Bool(bool value) { return value ? "true" : "false"; }

  const KernelRequest& request_;
  const size_t dim_;
  const TensorSpec& output_;
  const TensorSpec& index_;
  const bool has_base_;
  const IndexRange range_;
  const LoopNest columns_;
  const LoopNest positions_;
  int64_t vector_ = 1;
  int64_t warps_ = 0;
  bool is_long_ = false;
  bool records_ = false;
  int64_t buckets_ = 1;
  int threads_ = 256;  // of a block of AppendSums()
  absl::string_view index_type_;
  int64_t positions_at_ = 0;
  int64_t rows_at_ = 0;
  KernelPlan plan_;
};

}  // namespace

absl::StatusOr<KernelPlan> PlanScatterAdd(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  return ScatterPlanner(request).Plan();
}

}  // namespace cotan::cuda
