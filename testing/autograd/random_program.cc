// SPDX-License-Identifier: Apache-2.0

#include "testing/autograd/random_program.h"

#include <ATen/MemoryOverlap.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "base/overlap.h"
#include "runtime/autograd/grad_mode.h"
#include "serialization/metadata/view_step.h"
#include "testing/autograd/twin.h"

namespace cotan::testing {
namespace {

constexpr int kSteps = 16;
constexpr size_t kMostTwins = 14;

class Program {
 public:
  explicit Program(uint64_t seed) : seed_(seed) {
    Reseed(0);
    for (int i = Draw(2, 3); i > 0; --i) AddLeaf();
  }

  void Run(const std::set<int>& left_out) {
    for (int i = 0; i < kSteps && report_.difference.empty(); ++i) {
      if (left_out.contains(i)) continue;
      Reseed(i + 1);
      const bool grad_mode = Draw(0, 5) != 0;
      GradModeGuard ours(grad_mode);
      at::AutoGradMode theirs(grad_mode);
      line_ = absl::StrCat(i, grad_mode ? ": " : ": no_grad ");
      const DifferentialPair::Outcome outcome = Step();
      if (outcome.undecided) return;
      Note(outcome);
      report_.text += line_ + "\n";
      ++report_.steps;
    }
  }

  const ProgramReport& report() const { return report_; }

 private:
  void Reseed(int step) {
    random_.seed(static_cast<std::mt19937::result_type>(seed_ * 1000003 + static_cast<uint64_t>(step)));
  }
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  size_t DrawIndex(size_t count) { return static_cast<size_t>(Draw(0, static_cast<int64_t>(count) - 1)); }

  void AddLeaf() {
    std::vector<int64_t> sizes;
    for (int64_t i = Draw(0, 3); i > 0; --i) sizes.push_back(Draw(0, 9) == 0 ? Draw(0, 1) : Draw(2, 3));
    const int64_t kind = Draw(0, 9);
    const at::ScalarType dtype = kind < 7    ? at::kFloat
                                 : kind == 7 ? at::kDouble
                                 : kind == 8 ? at::kComplexFloat
                                             : at::kInt;
    at::manual_seed(static_cast<uint64_t>(Draw(0, 1 << 30)));
    const at::Tensor values = at::randint(-4, 5, sizes).to(dtype);
    Add(DifferentialPair(values, dtype != at::kInt && Draw(0, 2) != 0));
    absl::StrAppend(&report_.text, "t", twins_.size() - 1, " = ", twins_.back().ours().ToString(), "\n");
  }

  void Add(DifferentialPair twin) {
    if (twins_.size() < kMostTwins) {
      twins_.push_back(std::move(twin));
    } else {
      twins_[DrawIndex(twins_.size())] = std::move(twin);
    }
  }

  // Returns the index of a random operand and appends its name to the line.
  size_t Pick() {
    const size_t index = DrawIndex(twins_.size());
    absl::StrAppend(&line_, " t", index);
    return index;
  }

  // Counts the outcome of a step and compares both sides.
  void Note(const DifferentialPair::Outcome& outcome) {
    report_.refused += outcome.refused ? 1 : 0;
    if (outcome.refused) line_ += " (refused)";
    report_.difference = outcome.difference;
    for (size_t i = 0; i < twins_.size() && report_.difference.empty(); ++i) {
      report_.difference = twins_[i].Difference();
      if (!report_.difference.empty()) report_.difference = absl::StrCat("t", i, ": ", report_.difference);
    }
    for (size_t i = 0; i < twins_.size() && report_.difference.empty(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const bool ours = twins_[i].ours().tensor().storage() == twins_[j].ours().tensor().storage();
        const bool theirs = twins_[i].theirs().storage().is_alias_of(twins_[j].theirs().storage());
        if (ours != theirs) report_.difference = absl::StrCat("t", i, " and t", j, " share storage on one side");
      }
    }
  }

  DifferentialPair::Outcome Step() {
    switch (Draw(0, 19)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return ViewStepOf(Pick());
      case 5:
        return RowsOf(Pick());
      case 6:
        return Arithmetic();
      case 7:
        return Product();
      case 8:
        return Plus();
      case 9:
      case 10:
      case 11:
        return Copy();
      case 12:
      case 13:
        line_ += "mul_";
        return TimesInPlace(Pick());
      case 14:
        return AsStridedInPlace(Pick());
      case 15:
        return Flags(Pick());
      case 16:
        return SetStorage();
      case 17:
        line_ += "grad_fn";
        return twins_[Pick()].CompareHistory();
      default:
        return Backward();
    }
  }

  std::vector<int64_t> Factors(int64_t count) {
    std::vector<int64_t> sizes;
    if (count == 0) return {0, 2};
    while (count > 1) {
      int64_t size = Draw(1, count);
      while (count % size != 0) --size;
      sizes.push_back(size);
      count /= size;
    }
    return sizes;
  }

  // A view within the storage of `x`.
  view::AsStrided Strided(const Variable& x) {
    view::AsStrided step;
    const auto capacity = static_cast<int64_t>(x.tensor().storage()->bytes() / ByteSize(x.dtype()));
    int64_t room = capacity - 1;
    for (int64_t i = Draw(0, 2); i > 0; --i) {
      const int64_t stride = Draw(0, 3);
      const int64_t most = stride == 0 ? 2 : room / stride + 1;
      const int64_t size = room < 0 ? 0 : Draw(1, std::clamp<int64_t>(most, 1, 3));
      room -= std::max<int64_t>(size - 1, 0) * stride;
      step.sizes.push_back(size);
      step.strides.push_back(stride);
    }
    if (room < 0 && step.sizes.empty()) {
      step.sizes = {0};
      step.strides = {1};
    }
    step.offset = room > 0 ? Draw(0, room) : 0;
    return step;
  }

  std::optional<ViewStep> DimensionStep(const Variable& x) {
    const auto rank = static_cast<int64_t>(x.sizes().size());
    if (rank == 0) return std::nullopt;
    const int dim = static_cast<int>(Draw(0, rank - 1));
    const int64_t size = x.sizes()[static_cast<size_t>(dim)];
    switch (Draw(0, 5)) {
      case 0: {
        const int64_t start = Draw(0, size);
        return view::Slice{
            .dim = dim, .start = start, .end = Draw(start, size), .step = Draw(1, std::max<int64_t>(size, 1))};
      }
      case 1:
        if (size == 0) return std::nullopt;
        return view::Select{.dim = dim, .index = Draw(0, size - 1)};
      case 2:
        if (size != 1) return std::nullopt;
        return view::Squeeze{.dims = {dim}};
      case 3: {
        if (rank < 2) return std::nullopt;
        return view::Diagonal{
            .dim1 = dim, .dim2 = static_cast<int>((dim + Draw(1, rank - 1)) % rank), .offset = Draw(-1, 1)};
      }
      case 4:
        return view::Unfold{.dim = dim, .size = Draw(0, size), .step = Draw(1, std::max<int64_t>(size, 1))};
      default: {
        view::Permute step;
        for (int i = 0; i < rank; ++i) step.dims.push_back(i);
        std::shuffle(step.dims.begin(), step.dims.end(), random_);
        return step;
      }
    }
  }

  ViewStep RandomStep(const Variable& x) {
    const auto rank = static_cast<int64_t>(x.sizes().size());
    switch (Draw(0, 9)) {
      case 0: {
        const std::vector<int64_t> sizes = Factors(x.tensor().num_elements());
        return view::View{.sizes = SymIntVector(sizes.begin(), sizes.end())};
      }
      case 1: {
        view::Expand step{.sizes = SymIntVector(x.sizes().begin(), x.sizes().end())};
        for (SymInt& size : step.sizes) {
          if (size.constant() == 1 && Draw(0, 1) == 0) size = Draw(0, 2);
        }
        if (Draw(0, 1) == 0) step.sizes.insert(step.sizes.begin(), Draw(1, 2));
        return step;
      }
      case 2:
        return Strided(x);
      case 3:
        return view::Unsqueeze{.dim = static_cast<int>(Draw(0, rank))};
      case 4:
        return Draw(0, 1) == 0 ? ViewStep(view::Detach{}) : ViewStep(view::Alias{});
      case 5:
        if (IsComplex(x.dtype())) return view::ViewAsReal{};
        if (x.dtype() == DType::kFloat32 && rank > 0 && x.sizes()[static_cast<size_t>(rank - 1)] == 2 &&
            x.layout().strides.back() == 1) {
          return view::ViewAsComplex{};
        }
        if (x.dtype() == DType::kFloat32) return view::DTypeView{.dtype = DType::kInt32};
        return view::Alias{};
      default:
        return DimensionStep(x).value_or(view::Alias{});
    }
  }

  DifferentialPair::Outcome ViewStepOf(size_t index) {
    const ViewStep step = RandomStep(twins_[index].ours());
    absl::StrAppend(&line_, ".", ToString(step));
    DifferentialPair result;
    const DifferentialPair::Outcome outcome = twins_[index].View(step, result);
    if (!outcome.refused) Name(std::move(result));
    return outcome;
  }

  void Name(DifferentialPair result) {
    Add(std::move(result));
    absl::StrAppend(&line_, " -> t", twins_.size() - 1);
  }

  DifferentialPair::Outcome RowsOf(size_t index) {
    line_ += ".unbind";
    if (twins_[index].ours().sizes().empty() || twins_[index].ours().sizes()[0] == 0) return {};
    std::vector<DifferentialPair> rows;
    const DifferentialPair::Outcome outcome = twins_[index].Rows(rows);
    for (size_t i = 0; i < rows.size() && i < 2; ++i) Name(std::move(rows[i]));
    return outcome;
  }

  static bool IsReal(const DifferentialPair& twin) { return IsFloatingPoint(twin.ours().dtype()); }

  DifferentialPair::Outcome Arithmetic() {
    line_ += "mul 2";
    const size_t index = Pick();
    if (!IsReal(twins_[index])) return {};
    DifferentialPair result;
    const DifferentialPair::Outcome outcome = twins_[index].Times(2, result);
    if (!outcome.refused) Name(std::move(result));
    return outcome;
  }

  DifferentialPair::Outcome Product() {
    line_ += "mul";
    const DifferentialPair& a = twins_[Pick()];
    const DifferentialPair& b = twins_[Pick()];
    if (!IsReal(a) || a.ours().dtype() != b.ours().dtype() || a.ours().sizes() != b.ours().sizes()) return {};
    DifferentialPair result;
    kept_.insert(a.ours().state().get());
    kept_.insert(b.ours().state().get());
    const DifferentialPair::Outcome outcome = a.Times(b, result);
    if (!outcome.refused) Name(std::move(result));
    return outcome;
  }

  DifferentialPair::Outcome Plus() {
    line_ += "add";
    const DifferentialPair& a = twins_[Pick()];
    const DifferentialPair& b = twins_[Pick()];
    if (!IsReal(a) || !IsReal(b)) return {};
    try {
      at::infer_size(a.theirs().sizes(), b.theirs().sizes());
    } catch (const c10::Error&) {
      return {};
    }
    DifferentialPair result;
    const DifferentialPair::Outcome outcome = a.Plus(b, result);
    if (!outcome.refused) Name(std::move(result));
    return outcome;
  }

  // The result in LibTorch depends on the order of its loops.
  static bool DependsOnOrder(const DifferentialPair& source, const DifferentialPair& target) {
    const Tensor& from = source.ours().tensor();
    const Tensor& to = target.ours().tensor();
    if (from.storage() != to.storage() || (from.layout() == to.layout() && from.dtype() == to.dtype())) {
      return OverlapsItself(to.layout()) && at::has_internal_overlap(target.theirs()) != at::MemOverlap::Yes;
    }
    return at::get_overlap_status(source.theirs(), target.theirs()) != at::MemOverlapStatus::No;
  }

  DifferentialPair::Outcome Copy() {
    line_ += "copy_";
    const size_t target = Pick();
    const size_t source = Pick();
    if (DependsOnOrder(twins_[source], twins_[target])) return {};
    const DifferentialPair from = twins_[source];
    return twins_[target].Copy(from);
  }

  DifferentialPair::Outcome TimesInPlace(size_t index) {
    if (!IsReal(twins_[index])) return {};
    if (OverlapsItself(twins_[index].ours().layout()) &&
        at::has_internal_overlap(twins_[index].theirs()) != at::MemOverlap::Yes) {
      return {};
    }
    return twins_[index].TimesInPlace(-1);
  }

  // Excludes metadata mutations for which LibTorch's behaviour is not a reference:
  //   - a leaf with graphs: it would get gradients of other sizes, and the result depends on the strides;
  //   - storage with views of several dtypes: LibTorch replays the views on the new geometry, which may not fit;
  //   - a base: writing a view that starts before its new offset is an error;
  //   - a retained gradient: it keeps the old geometry until the next write, which fails an internal assertion.
  bool MayChangeGeometry(const DifferentialPair& twin) const {
    const Variable& x = twin.ours();
    if ((x.is_leaf() && x.requires_grad()) || twin.theirs().retains_grad()) return false;
    if (x.is_view() && x.base().dtype() != x.dtype()) return false;
    return std::all_of(twins_.begin(), twins_.end(), [&](const DifferentialPair& other) {
      if (other.ours().is_view() && other.ours().base().is_same(x)) return false;
      return other.ours().tensor().storage() != x.tensor().storage() || other.ours().dtype() == x.dtype();
    });
  }

  DifferentialPair::Outcome AsStridedInPlace(size_t index) {
    if (!MayChangeGeometry(twins_[index])) return {};
    const view::AsStrided step = Strided(twins_[index].ours());
    StridedLayout layout;
    for (const SymInt& size : step.sizes) layout.sizes.push_back(size.constant());
    for (const SymInt& stride : step.strides) layout.strides.push_back(stride.constant());
    layout.offset = step.offset.constant();
    absl::StrAppend(&line_, ".as_strided_ ", ToString(layout));
    return twins_[index].AsStridedInPlace(layout);
  }

  DifferentialPair::Outcome Flags(size_t index) {
    switch (Draw(0, 3)) {
      case 0:
        line_ += ".requires_grad_";
        return twins_[index].RequiresGrad(true);
      case 1:
        line_ += ".requires_grad_(false)";
        return twins_[index].RequiresGrad(false);
      case 2:
        line_ += ".detach_";
        if (kept_.contains(twins_[index].ours().state().get())) return {};  // LibTorch then refuses the backward
        return twins_[index].DetachInPlace();
      default:
        line_ += ".retain_grad";
        return twins_[index].RetainGrad();
    }
  }

  DifferentialPair::Outcome SetStorage() {
    line_ += "set_";
    const size_t target = Pick();
    const size_t source = Pick();
    if (twins_[target].ours().dtype() != twins_[source].ours().dtype()) return {};
    if (!MayChangeGeometry(twins_[target])) return {};
    // LibTorch regenerates its view_as_real from the base, whose storage may be too small.
    if (twins_[target].ours().is_view() && IsComplex(twins_[target].ours().dtype())) return {};
    const DifferentialPair from = twins_[source];
    return twins_[target].SetStorage(from);
  }

  DifferentialPair::Outcome Backward() {
    line_ += "backward";
    std::vector<DifferentialPair> roots;
    for (size_t i = 0; i < twins_.size(); ++i) {
      if (!twins_[i].ours().requires_grad() || Draw(0, 2) != 0) continue;
      absl::StrAppend(&line_, " t", i);
      roots.push_back(twins_[i]);
    }
    if (roots.empty()) return {};
    const bool retain_graph = Draw(0, 1) == 0;
    if (retain_graph) line_ += " retain_graph";
    const DifferentialPair::Outcome outcome =
        DifferentialPair::Backward(roots, static_cast<uint64_t>(Draw(0, 1 << 30)), retain_graph);
    report_.backwards += outcome.refused ? 0 : 1;
    return outcome.refused && outcome.difference.empty() ? AskAll(outcome) : outcome;
  }

  // Reads grad_fn of all tensors: a view whose base was written gets its new grad_fn only then, and
  // LibTorch reads it for the message of a refused backward.
  DifferentialPair::Outcome AskAll(DifferentialPair::Outcome outcome) const {
    for (size_t i = 0; i < twins_.size() && outcome.difference.empty(); ++i) {
      outcome.difference = twins_[i].CompareHistory().difference;
    }
    return outcome;
  }

  const uint64_t seed_;
  std::mt19937 random_;
  std::vector<DifferentialPair> twins_;
  std::set<const void*> kept_;  // for a backward
  std::string line_;
  ProgramReport report_;
};

}  // namespace

ProgramReport RunRandomProgram(uint64_t seed, const std::set<int>& left_out) {
  Program program(seed);
  program.Run(left_out);
  return program.report();
}

ProgramReport ShrinkRandomProgram(uint64_t seed) {
  std::set<int> left_out;
  ProgramReport smallest = RunRandomProgram(seed);
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < kSteps; ++i) {
      if (!left_out.insert(i).second) continue;
      ProgramReport report = RunRandomProgram(seed, left_out);
      if (report.difference.empty()) {
        left_out.erase(i);
        continue;
      }
      smallest = std::move(report);
      again = true;
    }
  }
  return smallest;
}

}  // namespace cotan::testing
