// SPDX-License-Identifier: Apache-2.0

#include "kernels/testing/random_expr.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/api/expr_program.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::testing {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

constexpr DType kDTypes[] = {DType::kBool,    DType::kUInt8,   DType::kInt8,    DType::kInt16,
                             DType::kInt32,   DType::kInt64,   DType::kFloat16, DType::kBFloat16,
                             DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat64};

// Those of training under autocast. A third of the programs have no others.
constexpr DType kMixedDTypes[] = {DType::kFloat32, DType::kBFloat16};

constexpr ScalarFn kFloatUnary[] = {FN_NEG,   FN_ABS,  FN_SIGN,       FN_CEIL, FN_FLOOR, FN_ROUND,
                                    FN_TRUNC, FN_SQRT, FN_RECIPROCAL, FN_RELU, FN_ISNAN, FN_ISINF};
constexpr ScalarFn kFloatBinary[] = {FN_ADD,  FN_SUB,  FN_MUL,       FN_DIV,       FN_MAXIMUM, FN_MINIMUM,
                                     FN_FMAX, FN_FMIN, FN_TRUNC_DIV, FN_REMAINDER, FN_FMOD,    FN_COPYSIGN};
constexpr ScalarFn kIntegerUnary[] = {FN_NEG, FN_ABS, FN_SIGN, FN_RELU, FN_BITWISE_NOT};
constexpr ScalarFn kIntegerBinary[] = {FN_ADD,  FN_SUB,        FN_MUL,         FN_FLOOR_DIV, FN_TRUNC_DIV, FN_REMAINDER,
                                       FN_FMOD, FN_POW,        FN_MAXIMUM,     FN_MINIMUM,   FN_AND,       FN_OR,
                                       FN_XOR,  FN_SHIFT_LEFT, FN_SHIFT_RIGHT, FN_FMAX,      FN_FMIN};
constexpr ScalarFn kBoolBinary[] = {FN_FMAX, FN_FMIN, FN_ADD, FN_MUL, FN_MAXIMUM, FN_MINIMUM, FN_AND, FN_OR, FN_XOR};
constexpr ScalarFn kBoolUnary[] = {FN_LOGICAL_NOT, FN_BITWISE_NOT, FN_SIGN};
constexpr ScalarFn kComparisons[] = {FN_EQ, FN_NE, FN_LT, FN_LE, FN_GT, FN_GE};
constexpr ScalarFn kReductions[] = {FN_REDUCE_SUM, FN_REDUCE_PROD, FN_REDUCE_MAX, FN_REDUCE_MIN};

class Generator {
 public:
  Generator(std::mt19937_64& random, int64_t max_elements) : random_(random), max_elements_(max_elements) {}

  RandomExpr Make() {
    is_mixed_ = Below(3) == 0;
    ChooseDomain();
    std::vector<int> reduce_dims;
    for (size_t d = 0; d < reduce_.size(); ++d) {
      if (reduce_[d]) reduce_dims.push_back(static_cast<int>(d));
    }
    ExprBuilder builder(domain_, reduce_dims);
    b_ = &builder;
    const int inputs = 1 + Below(3);
    for (int i = 0; i < inputs; ++i) AddInput(PickDType());
    if (Below(4) == 0) AddRandomDraw();
    const int steps = 2 + Below(14);
    for (int i = 0; i < steps; ++i) AddStep();
    AddOutputs();
    expr_.op = builder.Build();
    return std::move(expr_);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  template <typename T, size_t N>
  T Pick(const T (&list)[N]) {
    return list[random_() % N];
  }

  DType PickDType() { return is_mixed_ ? Pick(kMixedDTypes) : Pick(kDTypes); }

  void ChooseDomain() {
    constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 16, 17, 33, 64, 100, 130, 300, 1000, 1025, 2500};
    const int rank = Below(5);
    int64_t elements = 1;
    for (int d = 0; d < rank; ++d) {
      int64_t size = Below(40) == 0 ? 0 : Pick(kSizes);
      if (elements * size > max_elements_) size = 1 + Below(3);
      elements *= std::max<int64_t>(size, 1);
      domain_.push_back(size);
    }
    std::shuffle(domain_.begin(), domain_.end(), random_);
    const bool reduces = rank > 0 && Below(3) != 0;
    for (int d = 0; d < rank; ++d) reduce_.push_back(reduces && Below(2) == 0);
  }

  bool HasReduceDims() const { return std::find(reduce_.begin(), reduce_.end(), true) != reduce_.end(); }

  // Sizes that broadcast to the domain; sometimes reduced ones.
  DimVector InputSizes() {
    DimVector sizes(domain_.begin(), domain_.end());
    const int kind = Below(4);
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (kind == 1 && reduce_[d]) sizes[d] = 1;
      if (kind == 2 && Below(2) == 0) sizes[d] = 1;
    }
    while (kind == 2 && !sizes.empty() && sizes[0] == 1 && Below(2) == 0) sizes.erase(sizes.begin());
    return sizes;
  }

  int AddInput(DType dtype) {
    const DimVector sizes = InputSizes();
    const bool gaps = Below(3) == 0;  // drawn here, because compilers evaluate arguments in different orders
    const bool expand = Below(6) == 0;
    auto tensor = std::make_unique<HostTensor>(dtype, RandomLayout(sizes, random_, gaps, expand));
    if (Below(2) == 0) tensor = std::make_unique<HostTensor>(dtype, sizes);
    FillRandom(*tensor, random_, dtype == DType::kUInt8 ? 0 : -20, 20);
    if (IsFloatingPoint(dtype) && Below(3) == 0) AddSpecialValues(*tensor);
    expr_.inputs.push_back(std::move(tensor));
    const int node = b_->Input(static_cast<int>(expr_.inputs.size()) - 1, dtype);
    values_.push_back({node, IsFull(sizes)});
    return node;
  }

  void AddSpecialValues(HostTensor& tensor) {
    constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(),
                                   std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity(),
                                   0.0,
                                   -0.0,
                                   1e-40,
                                   3e38};
    std::vector<double> values = tensor.Values();
    for (double& value : values) {
      if (Below(5) == 0) value = Pick(kSpecial);
    }
    tensor.SetValues(values);
  }

  bool IsFull(absl::Span<const int64_t> sizes) const {
    if (!HasReduceDims()) return true;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] != 1 && reduce_[reduce_.size() - sizes.size() + d]) return true;
    }
    return false;
  }

  void AddRandomDraw() {
    expr_.inputs.push_back(std::make_unique<HostTensor>(DType::kInt64, std::vector<int64_t>{2},
                                                        std::vector<double>{12345.0 + Below(100), 77.0 + Below(100)}));
    values_.push_back({b_->Random(static_cast<int>(expr_.inputs.size()) - 1, Below(2) == 0 ? "" : "1000"), true});
  }

  struct Made {
    int node;
    bool full;
  };

  const Made& PickValue() { return values_[random_() % values_.size()]; }

  // A value of the dtype: an existing one, a cast, or a new leaf.
  Made ValueOf(DType dtype) {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const Made& value = PickValue();
      if (b_->dtype(value.node) == dtype) return value;
    }
    if (Below(3) == 0) {
      const double constant = dtype == DType::kBool ? Below(2) : Below(7) - (dtype == DType::kUInt8 ? 0 : 3);
      return Add(b_->Constant(dtype, constant), !HasReduceDims());
    }
    if (Below(4) == 0 && !domain_.empty() && dtype != DType::kBool) {
      return Add(b_->Iota(dtype, Below(static_cast<int>(domain_.size()))), true);
    }
    const Made source = PickValue();
    return CastTo(source, dtype);
  }

  // Floats are rounded to small integers before they become integers: a cast of a value outside the target's
  // range is undefined.
  Made CastTo(Made source, DType dtype) {
    if (IsFloatingPoint(b_->dtype(source.node)) && IsInteger(dtype))
      source = Small(source, dtype == DType::kUInt8 ? 0 : -8, 8);
    return Add(b_->Cast(source.node, dtype), source.full);
  }

  Made Add(int node, bool full) {
    values_.push_back({node, full});
    return values_.back();
  }

  // The float `value` rounded to an integer in [low, high]; NaN becomes low.
  Made Small(Made value, double low, double high) {
    const DType dtype = b_->dtype(value.node);
    const int clamped =
        b_->Apply(FN_FMIN, {b_->Apply(FN_FMAX, {value.node, b_->Constant(dtype, low)}), b_->Constant(dtype, high)});
    return Add(b_->Apply(FN_TRUNC, {clamped}), value.full);
  }

  // The float `value` with +0 for -0: which of both zeros a maximum returns depends on the order of the elements.
  Made PositiveZero(Made value) { return Add(b_->Add(value.node, b_->Constant(b_->dtype(value.node), 0)), value.full); }

  void AddStep() {
    const Made a = PickValue();
    const DType dtype = b_->dtype(a.node);
    const int kind = Below(10);
    if (kind == 0) {
      CastTo(a, PickDType());
    } else if (kind == 1) {
      const Made b = ValueOf(dtype);
      Add(b_->Apply(Pick(kComparisons), {a.node, b.node}), a.full || b.full);
    } else if (kind == 2) {
      const Made condition = ValueOf(DType::kBool);
      const Made b = ValueOf(dtype);
      Add(b_->Apply(FN_SELECT, {condition.node, a.node, b.node}), condition.full || a.full || b.full);
    } else if (kind <= 4 && HasReduceDims()) {
      AddReduction(a);
    } else if (kind <= 6) {
      AddUnary(a, dtype);
    } else {
      const Made b = ValueOf(dtype);
      const ScalarFn fn = IsFloatingPoint(dtype)  ? Pick(kFloatBinary)
                          : dtype == DType::kBool ? Pick(kBoolBinary)
                                                  : Pick(kIntegerBinary);
      Add(b_->Apply(fn, {a.node, b.node}), a.full || b.full);
    }
  }

  void AddUnary(const Made& a, DType dtype) {
    const ScalarFn fn = IsFloatingPoint(dtype)  ? Pick(kFloatUnary)
                        : dtype == DType::kBool ? Pick(kBoolUnary)
                                                : Pick(kIntegerUnary);
    Add(b_->Apply(fn, {a.node}), a.full);
  }

  void AddReduction(Made a) {
    const ScalarFn fn = Pick(kReductions);
    if (IsFloatingPoint(b_->dtype(a.node)) && fn == FN_REDUCE_SUM) a = Small(a, -8, 8);
    if (IsFloatingPoint(b_->dtype(a.node)) && fn == FN_REDUCE_PROD) a = Small(a, -1, 1);
    if (IsFloatingPoint(b_->dtype(a.node)) && (fn == FN_REDUCE_MAX || fn == FN_REDUCE_MIN)) a = PositiveZero(a);
    Add(b_->Apply(fn, {a.node}), false);
  }

  void AddOutputs() {
    const int outputs = 1 + Below(3);
    for (int k = 0; k < outputs; ++k) {
      // Late instructions depend on most of the program.
      const size_t last = values_.size() - 1;
      const Made value = values_[k == 0 ? last : last - random_() % std::min<size_t>(values_.size(), 6)];
      DimVector sizes(domain_.begin(), domain_.end());
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (!value.full && reduce_[d]) sizes[d] = 1;
      }
      b_->Output(value.node);
      expr_.output_dtypes.push_back(b_->dtype(value.node));
      expr_.output_layouts.push_back(Below(2) == 0 ? StridedLayout{sizes, ContiguousStrides(sizes)}
                                                   : RandomLayout(sizes, random_, Below(2) == 0, false));
    }
  }

  std::mt19937_64& random_;
  const int64_t max_elements_;
  std::vector<int64_t> domain_;
  std::vector<bool> reduce_;
  ExprBuilder* b_ = nullptr;
  std::vector<Made> values_;
  bool is_mixed_ = false;  // dtypes are those of kMixedDTypes
  RandomExpr expr_;
};

}  // namespace

RandomExpr MakeRandomExpr(std::mt19937_64& random, int64_t max_elements) {
  return Generator(random, max_elements).Make();
}

}  // namespace cotan::testing
