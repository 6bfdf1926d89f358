// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "testing/fuzz/write_ops.h"

namespace cotan::testing {
namespace {

using serialization::ViewOp;

// Returns the product of two sizes; the constant 0 if one is 0.
SymInt Product(const SymInt& a, const SymInt& b) {
  if (a == SymInt(0) || b == SymInt(0)) return 0;
  return a * b;
}

// Appends view steps that fit the sizes so far.
class ViewWriter {
 public:
  ViewWriter(Choices& choices, ViewOp& op, SymSizes sizes) : choices_(choices), op_(op), sizes_(std::move(sizes)) {}

  const SymSizes& sizes() const { return sizes_; }

  void AddStep() {
    switch (choices_.Below(11)) {
      case 0:
        return Flatten();
      case 1:
        return Merge();
      case 2:
        return Permute();
      case 3:
        return Expand();
      case 4:
      case 5:
        return Slice();
      case 6:
        return Select();
      case 7:
        return SqueezeOrUnsqueeze();
      case 8:
        return Diagonal();
      case 9:
        return Unfold();
      default:
        return AsStrided();
    }
  }

 private:
  size_t rank() const { return sizes_.size(); }
  size_t AnyDim() { return choices_.Below(rank()); }

  // Adds a view of the same elements under `sizes`.
  void View(const SymSizes& sizes) {
    auto& step = *op_.add_steps()->mutable_view();
    for (const SymInt& size : sizes) step.add_sizes(size.ToString());
    sizes_ = sizes;
  }

  void Flatten() {
    SymInt product = 1;
    for (const SymInt& size : sizes_) product = Product(product, size);
    View({product});
  }

  void Merge() {
    if (rank() < 2) return;
    const size_t d = choices_.Below(rank() - 1);
    SymSizes sizes = sizes_;
    sizes[d] = Product(sizes[d], sizes[d + 1]);
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    View(sizes);
  }

  void Permute() {
    std::vector<uint32_t> dims(rank());
    std::iota(dims.begin(), dims.end(), 0);
    for (size_t d = 1; d < dims.size(); ++d) std::swap(dims[d], dims[choices_.Below(d + 1)]);
    auto& step = *op_.add_steps()->mutable_permute();
    SymSizes sizes;
    for (const uint32_t dim : dims) {
      step.add_dims(dim);
      sizes.push_back(sizes_[dim]);
    }
    sizes_ = sizes;
  }

  void Expand() {
    SymSizes sizes = sizes_;
    for (SymInt& size : sizes) {
      if (size == SymInt(1)) size = choices_.OneIn(2) ? SymInt::Symbol(0) : SymInt(3);
    }
    if (choices_.OneIn(2) && rank() < 4) sizes.insert(sizes.begin(), SymInt(2));
    if (MaxElements(sizes) > kMaxValueElements) return;
    auto& step = *op_.add_steps()->mutable_expand();
    for (const SymInt& size : sizes) step.add_sizes(size.ToString());
    sizes_ = sizes;
  }

  void Slice() {
    if (rank() == 0) return;
    const size_t d = AnyDim();
    if (!sizes_[d].is_constant()) return;
    const int64_t size = sizes_[d].constant();
    const auto start = static_cast<int64_t>(choices_.Below(static_cast<size_t>(size) + 1));
    const int64_t length = choices_.OneIn(16) ? 0 : 1 + static_cast<int64_t>(choices_.Below(8));
    const int64_t end = std::min(size, start + length);
    const auto step_size = static_cast<int64_t>(1 + choices_.Below(2));
    auto& step = *op_.add_steps()->mutable_slice();
    step.set_dim(static_cast<uint32_t>(d));
    step.set_start(SymInt(start).ToString());
    step.set_end(SymInt(end).ToString());
    step.set_step(SymInt(step_size).ToString());
    sizes_[d] = (end - start + step_size - 1) / step_size;
  }

  void Select() {
    if (rank() == 0) return;
    const size_t d = AnyDim();
    // A dynamic dimension has at least one element.
    if (sizes_[d] == SymInt(0)) return;
    const size_t size = sizes_[d].is_constant() ? static_cast<size_t>(sizes_[d].constant()) : 1;
    auto& step = *op_.add_steps()->mutable_select();
    step.set_dim(static_cast<uint32_t>(d));
    step.set_index(SymInt(static_cast<int64_t>(choices_.Below(std::min<size_t>(size, 256)))).ToString());
    sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(d));
  }

  void SqueezeOrUnsqueeze() {
    const auto one = std::find(sizes_.begin(), sizes_.end(), SymInt(1));
    if (one != sizes_.end() && choices_.OneIn(2)) {
      op_.add_steps()->mutable_squeeze()->add_dims(static_cast<uint32_t>(one - sizes_.begin()));
      sizes_.erase(one);
      return;
    }
    if (rank() == 4) return;
    const size_t d = choices_.Below(rank() + 1);
    op_.add_steps()->mutable_unsqueeze()->set_dim(static_cast<uint32_t>(d));
    sizes_.insert(sizes_.begin() + static_cast<std::ptrdiff_t>(d), SymInt(1));
  }

  void Diagonal() {
    if (rank() < 2) return;
    const size_t dim1 = AnyDim();
    const size_t dim2 = (dim1 + 1 + choices_.Below(rank() - 1)) % rank();
    if (!sizes_[dim1].is_constant() || !sizes_[dim2].is_constant()) return;
    const int64_t size1 = sizes_[dim1].constant(), size2 = sizes_[dim2].constant();
    if (size1 < 2 || size2 < 2) return;
    const int64_t offset = static_cast<int64_t>(choices_.Below(3)) - 1;
    auto& step = *op_.add_steps()->mutable_diagonal();
    step.set_dim1(static_cast<uint32_t>(dim1));
    step.set_dim2(static_cast<uint32_t>(dim2));
    step.set_offset(offset);
    SymSizes sizes;
    for (size_t d = 0; d < rank(); ++d) {
      if (d != dim1 && d != dim2) sizes.push_back(sizes_[d]);
    }
    sizes.emplace_back(std::min(offset < 0 ? size1 + offset : size1, offset > 0 ? size2 - offset : size2));
    sizes_ = sizes;
  }

  void Unfold() {
    if (rank() == 0 || rank() == 4) return;
    const size_t d = AnyDim();
    if (!sizes_[d].is_constant() || sizes_[d].constant() < 1) return;
    const int64_t old_size = sizes_[d].constant();
    const auto window = static_cast<int64_t>(1 + choices_.Below(static_cast<size_t>(std::min<int64_t>(old_size, 4))));
    const auto step_size = static_cast<int64_t>(1 + choices_.Below(2));
    SymSizes sizes = sizes_;
    sizes[d] = (old_size - window) / step_size + 1;
    sizes.emplace_back(window);
    if (MaxElements(sizes) > kMaxValueElements) return;
    auto& step = *op_.add_steps()->mutable_unfold();
    step.set_dim(static_cast<uint32_t>(d));
    step.set_size(window);
    step.set_step(step_size);
    sizes_ = sizes;
  }

  // Rows that overlap.
  void AsStrided() {
    const int64_t elements = MaxElements(sizes_);
    if (!IsConstant(sizes_) || elements < 2) return;
    const auto offset = static_cast<int64_t>(choices_.Below(2));
    const auto width = static_cast<int64_t>(1 + choices_.Below(3));
    const int64_t rows = std::min<int64_t>(8, elements - offset - width + 1);
    if (rows < 1) return;
    auto& step = *op_.add_steps()->mutable_as_strided();
    for (const int64_t size : {rows, width}) step.add_sizes(SymInt(size).ToString());
    for (const char* const stride : {"1", "1"}) step.add_strides(stride);
    step.set_offset(SymInt(offset).ToString());
    sizes_ = {SymInt(rows), SymInt(width)};
  }

  Choices& choices_;
  ViewOp& op_;
  SymSizes sizes_;
};

}  // namespace

void WriteView(MethodWriter& w) {
  const TypedValue source = w.Any();
  serialization::Op op;
  ViewWriter view(w.choices(), *op.mutable_view(), source.sizes);
  for (size_t i = 1 + w.choices().Below(3); i > 0; --i) view.AddStep();
  w.Add(std::move(op), {source}, {w.Result(source.dtype, view.sizes(), source.bound)});
}

}  // namespace cotan::testing
