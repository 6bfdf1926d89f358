#include "testing/conformance/random_program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <exception>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/trace/tensor_data.h"
#include "base/layout.h"
#include "base/overlap.h"
#include "testing/conformance/eager_run.h"

namespace cotan::conformance {
namespace {

using Tensors = std::vector<at::Tensor>;
using Numbers = std::vector<int64_t>;

// --- Ops ----------------------------------------------------------------------

// What a step may do. `numbers` draws further arguments for a first argument of
// these sizes; no value: the op does not take such a tensor.
struct OpRow {
  const char* name;
  int num_args;
  std::optional<Numbers> (*numbers)(at::IntArrayRef sizes, std::mt19937_64& random);
  at::Tensor (*run)(const Tensors& args, const Numbers& numbers);
};

int64_t Below(int64_t bound, std::mt19937_64& random) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
}

std::optional<Numbers> None(at::IntArrayRef, std::mt19937_64&) { return Numbers(); }
std::optional<Numbers> SmallFactor(at::IntArrayRef, std::mt19937_64& random) { return Numbers{Below(3, random) - 1}; }
std::optional<Numbers> Rank2(at::IntArrayRef sizes, std::mt19937_64&) {
  if (sizes.size() != 2) return std::nullopt;
  return Numbers();
}
std::optional<Numbers> NewDim(at::IntArrayRef sizes, std::mt19937_64& random) {
  if (sizes.size() > 2) return std::nullopt;
  return Numbers{Below(static_cast<int64_t>(sizes.size()) + 1, random)};
}
std::optional<Numbers> DimAndIndex(at::IntArrayRef sizes, std::mt19937_64& random) {
  if (sizes.empty()) return std::nullopt;
  const int64_t dim = Below(static_cast<int64_t>(sizes.size()), random);
  const int64_t size = sizes[static_cast<size_t>(dim)];
  if (size == 0) return std::nullopt;
  return Numbers{dim, Below(size, random)};
}
std::optional<Numbers> DimAndRange(at::IntArrayRef sizes, std::mt19937_64& random) {
  if (sizes.empty()) return std::nullopt;
  const int64_t dim = Below(static_cast<int64_t>(sizes.size()), random);
  const int64_t size = sizes[static_cast<size_t>(dim)];
  if (size < 2) return std::nullopt;
  const int64_t start = Below(size - 1, random);
  return Numbers{dim, start, start + 1 + Below(size - start, random)};
}
std::optional<Numbers> Dim(at::IntArrayRef sizes, std::mt19937_64& random) {
  if (sizes.empty()) return std::nullopt;
  return Numbers{Below(static_cast<int64_t>(sizes.size()), random)};
}

std::optional<Numbers> LongDim(at::IntArrayRef sizes, std::mt19937_64& random) {
  if (sizes.empty()) return std::nullopt;
  const int64_t dim = Below(static_cast<int64_t>(sizes.size()), random);
  if (sizes[static_cast<size_t>(dim)] < 2) return std::nullopt;
  return Numbers{dim};
}
std::optional<Numbers> LongDimAndHalf(at::IntArrayRef sizes, std::mt19937_64& random) {
  const std::optional<Numbers> dim = LongDim(sizes, random);
  if (!dim.has_value()) return std::nullopt;
  return Numbers{(*dim)[0], Below(2, random)};
}
std::optional<Numbers> TwoDims(at::IntArrayRef sizes, std::mt19937_64& random) {
  if (sizes.empty()) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(sizes.size());
  return Numbers{Below(rank, random), Below(rank, random)};
}
std::optional<Numbers> Order(at::IntArrayRef sizes, std::mt19937_64& random) {
  Numbers order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(Below(static_cast<int64_t>(i), random))]);
  }
  return order;
}
std::optional<Numbers> Repeats(at::IntArrayRef sizes, std::mt19937_64& random) {
  if (sizes.size() > 2) return std::nullopt;
  return Numbers{1 + Below(3, random)};
}
std::optional<Numbers> AtLeastRank1(at::IntArrayRef sizes, std::mt19937_64&) {
  if (sizes.empty()) return std::nullopt;
  return Numbers();
}
std::optional<Numbers> AtLeastRank2(at::IntArrayRef sizes, std::mt19937_64&) {
  if (sizes.size() < 2) return std::nullopt;
  return Numbers();
}

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

constexpr OpRow kComputations[] = {
    {"mul", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0] * (n[0] + 0.5); }},
    {"add", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0] + n[0]; }},
    {"sin", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sin(); }},
    {"clone", 1, None, [](const Tensors& a, const Numbers&) { return a[0].clone(); }},
    {"sum", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sum(); }},
    {"sum_dim", 1, Dim, [](const Tensors& a, const Numbers& n) { return a[0].sum(at::IntArrayRef({n[0]})); }},
    {"mul_tensors", 2, None, [](const Tensors& a, const Numbers&) { return a[0] * a[1]; }},
    {"add_tensors", 2, None, [](const Tensors& a, const Numbers&) { return a[0] + a[1]; }},
    {"relu", 1, None, [](const Tensors& a, const Numbers&) { return a[0].relu(); }},
    {"mean", 1, None, [](const Tensors& a, const Numbers&) { return a[0].mean(); }},
    {"reshape", 1, None, [](const Tensors& a, const Numbers&) { return a[0].reshape({-1}); }},
    {"contiguous", 1, None, [](const Tensors& a, const Numbers&) { return a[0].contiguous(); }},
    {"div_tensors", 2, None, [](const Tensors& a, const Numbers&) { return a[0] / (a[1] * a[1] + 1); }},
    {"cat", 2, None,
     [](const Tensors& a, const Numbers&) {
       return at::cat({a[0].reshape({-1}), a[1].reshape({-1})});
     }},
};

constexpr OpRow kViews[] = {
    {"t", 1, Rank2, [](const Tensors& a, const Numbers&) { return a[0].t(); }},
    {"flat", 1, None, [](const Tensors& a, const Numbers&) { return a[0].view(at::IntArrayRef({-1})); }},
    {"select", 1, DimAndIndex, [](const Tensors& a, const Numbers& n) { return a[0].select(n[0], n[1]); }},
    {"slice", 1, DimAndRange, [](const Tensors& a, const Numbers& n) { return a[0].slice(n[0], n[1], n[2], 1); }},
    {"unsqueeze", 1, NewDim, [](const Tensors& a, const Numbers& n) { return a[0].unsqueeze(n[0]); }},
    {"view_as_itself", 1, None, [](const Tensors& a, const Numbers&) { return a[0].view(a[0].sizes()); }},
    {"expand", 1, Repeats,
     [](const Tensors& a, const Numbers& n) {
       Numbers sizes = a[0].sizes().vec();
       sizes.insert(sizes.begin(), n[0]);
       return a[0].expand(sizes);
     }},
    {"diagonal", 1, AtLeastRank2, [](const Tensors& a, const Numbers&) { return a[0].diagonal(0, 0, 1); }},
    {"permute", 1, Order, [](const Tensors& a, const Numbers& n) { return a[0].permute(n); }},
    {"squeeze", 1, None, [](const Tensors& a, const Numbers&) { return a[0].squeeze(); }},
    {"every_other", 1, DimAndIndex, [](const Tensors& a, const Numbers& n) { return a[0].slice(n[0], n[1], kEnd, 2); }},
    {"unbind", 1, DimAndIndex,
     [](const Tensors& a, const Numbers& n) { return a[0].unbind(n[0])[static_cast<size_t>(n[1])]; }},
    {"chunk", 1, LongDimAndHalf,
     [](const Tensors& a, const Numbers& n) { return a[0].chunk(2, n[0])[static_cast<size_t>(n[1])]; }},
    {"view_rows", 1, AtLeastRank1,
     [](const Tensors& a, const Numbers&) {
       return a[0].view({a[0].size(0), -1});
     }},
};

constexpr OpRow kDetach = {"detach", 1, None, [](const Tensors& a, const Numbers&) { return a[0].detach(); }};

constexpr OpRow kWrites[] = {
    {"mul_", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0].mul_(n[0] + 0.5); }},
    {"add_", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0].add_(n[0]); }},
    {"sin_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sin_(); }},
    {"zero_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].zero_(); }},
    {"add_tensor_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].add_(a[1]); }},
    {"mul_tensor_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].mul_(a[1]); }},
    {"copy_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].copy_(a[1]); }},
    {"relu_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].relu_(); }},
    {"fill_", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0].fill_(n[0]); }},
    {"sigmoid_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sigmoid_(); }},
    {"cumsum_", 1, Dim, [](const Tensors& a, const Numbers& n) { return a[0].cumsum_(n[0]); }},
    {"clamp_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].clamp_(-0.5, 0.5); }},
    {"sub_scaled_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].sub_(a[1], 2); }},
    {"addcmul_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].addcmul_(a[1], a[1]); }},
    {"masked_fill_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].masked_fill_(a[1] > 0, 0.5); }},
};

constexpr OpRow kMetadataWrites[] = {
    {"t_", 1, Rank2, [](const Tensors& a, const Numbers&) { return a[0].t_(); }},
    {"unsqueeze_", 1, NewDim, [](const Tensors& a, const Numbers& n) { return a[0].unsqueeze_(n[0]); }},
    {"transpose_", 1, TwoDims, [](const Tensors& a, const Numbers& n) { return a[0].transpose_(n[0], n[1]); }},
    {"squeeze_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].squeeze_(); }},
};

const OpRow* FindOp(const std::string& name) {
  const auto find = [&](absl::Span<const OpRow> rows) -> const OpRow* {
    const auto row = absl::c_find_if(rows, [&](const OpRow& r) { return r.name == name; });
    return row == rows.end() ? nullptr : &*row;
  };
  for (const absl::Span<const OpRow> rows :
       {absl::Span<const OpRow>(kComputations), absl::Span<const OpRow>(kViews), absl::Span<const OpRow>(kWrites),
        absl::Span<const OpRow>(kMetadataWrites)}) {
    if (const OpRow* row = find(rows)) return row;
  }
  return &kDetach;
}

// --- Interpretation ---------------------------------------------------------------

at::Tensor RunStep(const RandomStep& step, const std::map<int, at::Tensor>& values) {
  Tensors args;
  for (int arg : step.args) args.push_back(values.at(arg));
  const at::AutoGradMode mode(at::GradMode::is_enabled() && !step.no_grad);
  return FindOp(step.op)->run(args, step.numbers);
}

Tensors MakeProgramInputs(const RandomProgram& program) {
  Tensors bases;
  for (const RandomBase& base : program.bases) {
    const int64_t k = static_cast<int64_t>(bases.size());
    if (base.kind == RandomBase::kBuffer) {
      bases.push_back(buf(k, base.sizes));
    } else {
      const at::Tensor root = leaf(k, base.sizes);
      bases.push_back(base.kind == RandomBase::kLeaf ? root : root.clone());
    }
  }
  Tensors inputs;
  for (const RandomProgram::Input& input : program.inputs) {
    if (input.same_as >= 0) {
      inputs.push_back(inputs[static_cast<size_t>(input.same_as)]);
      continue;
    }
    at::Tensor view = bases[static_cast<size_t>(input.base)];
    for (const RandomStep& step : input.views) view = RunStep(step, {{0, view}});
    inputs.push_back(view);
  }
  return inputs;
}

Tensors RunProgram(const RandomProgram& program, const Tensors& inputs) {
  std::map<int, at::Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<int>(i)] = inputs[i];
  for (const RandomStep& step : program.steps) values[step.result] = RunStep(step, values);
  Tensors outputs;
  for (int output : program.outputs) outputs.push_back(values.at(output));
  return outputs;
}

bool EagerRuns(const RandomProgram& program) {
  const ConfCase c = CaseOf(program);
  try {
    const EagerRun run = RunEager(c, std::nullopt);
    const GradFacts gradients = BackwardEager(c, run);
    return absl::c_all_of(run.outputs, [](const at::Tensor& t) { return t.isfinite().all().item<bool>(); });
  } catch (const std::exception&) {
    return false;
  }
}

// --- Generation --------------------------------------------------------------------

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) { program_.seed = seed; }

  RandomProgram Generate() {
    AddBases();
    AddInputs();
    // Steps are tried out on real tensors as they are drawn.
    const Tensors inputs = MakeProgramInputs(program_);
    for (size_t i = 0; i < inputs.size(); ++i) values_[static_cast<int>(i)] = inputs[i];
    next_value_ = static_cast<int>(inputs.size());
    const int64_t num_steps = 2 + Below(6, random_);
    for (int64_t i = 0; i < num_steps; ++i) AddStep();
    AddOutputs();
    return program_;
  }

 private:
  bool Chance(int percent) { return Below(100, random_) < percent; }

  template <size_t kSize>
  const OpRow& OneOf(const OpRow (&rows)[kSize]) {
    return rows[static_cast<size_t>(Below(kSize, random_))];
  }

  void AddBases() {
    const int64_t count = 1 + Below(2, random_);
    for (int64_t i = 0; i < count; ++i) {
      static const std::vector<Numbers> kSizes = {{2, 3}, {3, 2}, {3, 3}, {6}, {2, 2, 3}};
      RandomBase base;
      base.kind = Chance(60) ? RandomBase::kComputed : Chance(50) ? RandomBase::kLeaf : RandomBase::kBuffer;
      base.sizes = kSizes[static_cast<size_t>(Below(static_cast<int64_t>(kSizes.size()), random_))];
      program_.bases.push_back(base);
    }
  }

  void AddInputs() {
    const int64_t count = 1 + Below(4, random_);
    for (int64_t i = 0; i < count; ++i) {
      RandomProgram::Input input;
      if (i > 0 && Chance(10)) {
        input.same_as = static_cast<int>(Below(i, random_));
        while (program_.inputs[static_cast<size_t>(input.same_as)].same_as >= 0) {
          input.same_as = program_.inputs[static_cast<size_t>(input.same_as)].same_as;
        }
        program_.inputs.push_back(input);
        continue;
      }
      input.base = static_cast<int>(Below(static_cast<int64_t>(program_.bases.size()), random_));
      program_.inputs.push_back(input);
      for (int64_t views = Chance(50) ? 1 + Below(2, random_) : 0; views > 0; --views) AddInputView();
    }
  }

  // To the last input.
  void AddInputView() {
    const at::Tensor before = MakeProgramInputs(program_).back();
    const OpRow& row = OneOf(kViews);
    const std::optional<Numbers> numbers = row.numbers(before.sizes(), random_);
    if (!numbers.has_value()) return;
    const RandomStep step{.op = row.name, .args = {0}, .numbers = *numbers};
    try {
      RunStep(step, {{0, before}});
      program_.inputs.back().views.push_back(step);
    } catch (const std::exception&) {  // view() of strided memory
    }
  }

  int AnyValue() {
    auto it = values_.begin();
    std::advance(it, Below(static_cast<int64_t>(values_.size()), random_));
    return it->first;
  }

  const OpRow& AnyOp() {
    const int64_t draw = Below(100, random_);
    if (draw < 35) return OneOf(kWrites);
    if (draw < 65) return OneOf(kViews);
    if (draw < 70) return kDetach;
    if (draw < 75) return OneOf(kMetadataWrites);
    return OneOf(kComputations);
  }

  // Whether a write to `to` that reads `from` reads places that it has written,
  // or not, as the order of its loops is.
  static bool DependsOnOrder(const at::Tensor& to, const at::Tensor& from) {
    if (to.storage().unsafeGetStorageImpl() != from.storage().unsafeGetStorageImpl()) return false;
    if (aot::LayoutOf(to) == aot::LayoutOf(from)) return false;
    const auto bytes = static_cast<int64_t>(to.element_size());
    return LayoutsOverlap(aot::LayoutOf(to), bytes, aot::LayoutOf(from), bytes);
  }

  // Whether a write to the tensor, or to an input in whose memory it is, may be one
  // of several to the same place.
  bool MayFoldInput(const at::Tensor& written) {
    const auto folds = [&](const auto& value) {
      return value.second.storage().unsafeGetStorageImpl() == written.storage().unsafeGetStorageImpl() &&
             OverlapsItself(aot::LayoutOf(value.second));
    };
    return OverlapsItself(aot::LayoutOf(written)) || absl::c_any_of(values_, folds);
  }

  // Whether the result may be a view of the argument, or the argument itself.
  static bool MayView(const OpRow& row) {
    const std::string name = row.name;
    return name == "reshape" || name == "contiguous" ||
           absl::c_any_of(kViews, [&](const OpRow& view) { return &view == &row; });
  }

  // Whether the step moves the dimensions of a computed tensor that is no view:
  // without gradients, eager then takes gradients of the new sizes for those of
  // the old ones.
  static bool MovesComputed(const OpRow& row, const at::Tensor& tensor) {
    const bool moves = absl::c_any_of(kMetadataWrites, [&](const OpRow& write) { return &write == &row; });
    return moves && !tensor.is_leaf() && !tensor.is_view();
  }

  void AddStep() {
    for (int tries = 0; tries < 20; ++tries) {
      const OpRow& row = AnyOp();
      std::vector<int> args = {AnyValue()};
      if (row.num_args == 2) args.push_back(AnyValue());
      const std::optional<Numbers> numbers = row.numbers(values_[args[0]].sizes(), random_);
      if (!numbers.has_value()) continue;
      const bool is_write = absl::c_any_of(kWrites, [&](const OpRow& write) { return &write == &row; });
      if (is_write && MayFoldInput(values_[args[0]])) continue;
      if (is_write && args.size() == 2 && DependsOnOrder(values_[args[0]], values_[args[1]])) continue;
      // Views of views made under no_grad have no history in eager, and no
      // metadata tells of it.
      const bool no_grad = Chance(8) && !MayView(row) && !MovesComputed(row, values_[args[0]]);
      const RandomStep step{row.name, args, *numbers, no_grad, next_value_};
      try {
        values_[next_value_] = RunStep(step, values_);
      } catch (const std::exception&) {  // sizes that do not broadcast, a leaf written in place, ...
        continue;
      }
      ++next_value_;
      program_.steps.push_back(step);
      return;
    }
  }

  void AddOutputs() {
    const int64_t count = 1 + Below(3, random_);
    for (int64_t i = 0; i < count; ++i) {
      // Late values are more interesting.
      const int64_t last = static_cast<int64_t>(values_.size()) - 1;
      program_.outputs.push_back(static_cast<int>(Chance(60) ? last - Below(std::min<int64_t>(last + 1, 3), random_)
                                                             : Below(last + 1, random_)));
    }
  }

  std::mt19937_64 random_;
  RandomProgram program_;
  std::map<int, at::Tensor> values_;
  int next_value_ = 0;
};

// --- Text ----------------------------------------------------------------------------

std::string ValueName(int value) { return absl::StrCat("v", value); }

std::string StepText(const RandomStep& step, const std::string& self) {
  std::vector<std::string> args;
  for (size_t i = 1; i < step.args.size(); ++i) args.push_back(ValueName(step.args[i]));
  for (int64_t number : step.numbers) args.push_back(absl::StrCat(number));
  return absl::StrCat(self, ".", step.op, "(", absl::StrJoin(args, ", "), ")");
}

std::string BaseText(const RandomBase& base, size_t index) {
  const std::string sizes = absl::StrCat("(", index, ", [", absl::StrJoin(base.sizes, ", "), "])");
  if (base.kind == RandomBase::kBuffer) return "buf" + sizes;
  return absl::StrCat("leaf", sizes, base.kind == RandomBase::kComputed ? ".clone()" : "");
}

// --- Shrinking --------------------------------------------------------------------------

// `program` without the values in `gone`, and without what needs them.
RandomProgram Without(const RandomProgram& program, std::set<int> gone) {
  RandomProgram smaller = program;
  smaller.steps.clear();
  smaller.outputs.clear();
  for (const RandomStep& step : program.steps) {
    const bool needs_gone = absl::c_any_of(step.args, [&](int arg) { return gone.count(arg) > 0; });
    if (needs_gone || gone.count(step.result) > 0) {
      gone.insert(step.result);
    } else {
      smaller.steps.push_back(step);
    }
  }
  for (int output : program.outputs) {
    if (gone.count(output) == 0) smaller.outputs.push_back(output);
  }
  return smaller;
}

// With the first argument of step `index` in place of its result.
RandomProgram Bypassing(const RandomProgram& program, size_t index) {
  const RandomStep bypassed = program.steps[index];
  RandomProgram smaller = program;
  smaller.steps.erase(smaller.steps.begin() + static_cast<std::ptrdiff_t>(index));
  const auto replace = [&](int& value) {
    if (value == bypassed.result) value = bypassed.args[0];
  };
  for (RandomStep& step : smaller.steps) absl::c_for_each(step.args, replace);
  absl::c_for_each(smaller.outputs, replace);
  return smaller;
}

// Without input `index`, which nothing uses.
std::optional<RandomProgram> WithoutInput(const RandomProgram& program, int index) {
  const auto uses = [&](int value) { return value == index; };
  if (absl::c_any_of(program.outputs, uses)) return std::nullopt;
  for (const RandomStep& step : program.steps) {
    if (absl::c_any_of(step.args, uses)) return std::nullopt;
  }
  RandomProgram smaller = program;
  smaller.inputs.erase(smaller.inputs.begin() + index);
  for (RandomProgram::Input& input : smaller.inputs) {
    if (input.same_as == index) return std::nullopt;
    if (input.same_as > index) --input.same_as;
  }
  const auto shift = [&](int& value) { value -= value > index ? 1 : 0; };
  for (RandomStep& step : smaller.steps) {
    for (int& arg : step.args) shift(arg);
    shift(step.result);
  }
  for (int& output : smaller.outputs) shift(output);
  return smaller;
}

// Programs that are a little smaller.
std::vector<RandomProgram> Smaller(const RandomProgram& program) {
  std::vector<RandomProgram> smaller;
  for (size_t i = program.steps.size(); i-- > 0;) {
    smaller.push_back(Without(program, {program.steps[i].result}));
    smaller.push_back(Bypassing(program, i));
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    smaller.push_back(program);
    smaller.back().outputs.erase(smaller.back().outputs.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (auto without = WithoutInput(program, static_cast<int>(i))) smaller.push_back(*std::move(without));
    for (size_t view = 0; view < program.inputs[i].views.size(); ++view) {
      smaller.push_back(program);
      std::vector<RandomStep>& views = smaller.back().inputs[i].views;
      views.erase(views.begin() + static_cast<std::ptrdiff_t>(view));
    }
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (!program.steps[i].no_grad) continue;
    smaller.push_back(program);
    smaller.back().steps[i].no_grad = false;
  }
  return smaller;
}

}  // namespace

RandomProgram GenerateProgram(uint64_t seed) {
  // A program that eager refuses gives way to the next of its seed.
  for (uint64_t attempt = 0;; ++attempt) {
    Generator generator(seed * 1000003 + attempt);
    RandomProgram program;
    try {
      program = generator.Generate();
    } catch (const std::exception&) {
      continue;
    }
    program.seed = seed;
    if (EagerRuns(program)) return program;
  }
}

ConfCase CaseOf(const RandomProgram& program) {
  return {"random",
          "random",
          [program] { return MakeProgramInputs(program); },
          [program](Tensors inputs) { return RunProgram(program, inputs); },
          /*grad=*/true,
          /*loss_outs=*/{-1},
          /*loss_inputs=*/true,
          "contig",
          /*rng=*/false,
          /*after_bw=*/false};
}

std::string ToText(const RandomProgram& program) {
  std::string text;
  for (size_t i = 0; i < program.bases.size(); ++i) {
    absl::StrAppend(&text, "b", i, " = ", BaseText(program.bases[i], i), "\n");
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const RandomProgram::Input& input = program.inputs[i];
    std::string view = input.same_as >= 0 ? ValueName(input.same_as) : absl::StrCat("b", input.base);
    for (const RandomStep& step : input.views) view = StepText(step, view);
    absl::StrAppend(&text, "v", i, " = ", view, "\n");
  }
  absl::StrAppend(&text, "---\n");
  for (const RandomStep& step : program.steps) {
    absl::StrAppend(&text, ValueName(step.result), " = ", StepText(step, ValueName(step.args[0])),
                    step.no_grad ? "  # under no_grad" : "", "\n");
  }
  absl::StrAppend(
      &text, "return ",
      absl::StrJoin(program.outputs, ", ", [](std::string* out, int value) { out->append(ValueName(value)); }), "\n");
  return text;
}

RandomProgram Shrink(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails) {
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (RandomProgram& candidate : Smaller(program)) {
      bool still_fails = false;
      try {
        still_fails = EagerRuns(candidate) && fails(candidate);
      } catch (const std::exception&) {  // inputs that do not exist
      }
      if (!still_fails) continue;
      program = std::move(candidate);
      shrunk = true;
      break;
    }
  }
  return program;
}

}  // namespace cotan::conformance
