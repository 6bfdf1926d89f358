// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/update_chain.h"

#include <cstddef>
#include <utility>

namespace cotan::cpu {
namespace {

// The value of an instruction: a factor alone, or a factor times the chain's value after `version` steps, or
// a factor times an element of `input`.
struct Term {
  enum class Kind { kUnknown, kFactor, kChain, kInput };
  Kind kind = Kind::kUnknown;
  ChainFactor factor = {};
  int version = 0;
  int input = -1;
};

bool IsOne(const ChainFactor& factor) { return factor.constant == 1 && factor.input < 0; }

class Finder {
 public:
  Finder(const ExprProgram& program, absl::Span<const TensorSpec> inputs) : program_(program), inputs_(inputs) {}

  std::vector<ChainStep> Find() {
    for (const ExprNode& node : program_.nodes) {
      if (node.dtype != DType::kFloat32) return {};
      terms_.push_back(TermOf(node));
      if (terms_.back().kind == Term::Kind::kUnknown) return {};
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      const Term& term = terms_[static_cast<size_t>(program_.outputs[k])];
      if (term.kind != Term::Kind::kChain || term.version == 0 || !IsOne(term.factor)) return {};
      int& output = steps_[static_cast<size_t>(term.version) - 1].output;
      if (output >= 0) return {};
      output = static_cast<int>(k);
    }
    return steps_.size() <= kMaxChainSteps ? std::move(steps_) : std::vector<ChainStep>();
  }

 private:
  Term TermOf(const ExprNode& node) {
    const auto operand = [&](size_t k) { return terms_[static_cast<size_t>(node.operands[k])]; };
    switch (node.fn) {
      case serialization::FN_INPUT:
        return InputTerm(node.index);
      case serialization::FN_CONSTANT:
        return {Term::Kind::kFactor, {static_cast<float>(node.float_value), -1}};
      case serialization::FN_MUL:
        return Scaled(operand(0), operand(1));
      case serialization::FN_ADD:
        return Sum(operand(0), operand(1), 1);
      case serialization::FN_SUB:
        return Sum(operand(0), operand(1), -1);
      default:
        return {};
    }
  }

  Term InputTerm(int input) const {
    if (input == 0) return {Term::Kind::kChain};
    const TensorSpec& spec = inputs_[static_cast<size_t>(input)];
    if (spec.layout.sizes.empty()) return {Term::Kind::kFactor, {1, input}};
    if (spec.layout.sizes != program_.domain_sizes) return {};
    return {Term::Kind::kInput, {}, 0, input};
  }

  static Term Scaled(Term a, Term b) {
    if (a.kind == Term::Kind::kFactor) std::swap(a, b);
    if (b.kind != Term::Kind::kFactor || a.kind == Term::Kind::kFactor || !IsOne(a.factor)) return {};
    a.factor = b.factor;
    return a;
  }

  // Returns a + sign * b.
  Term Sum(Term a, Term b, float sign) {
    b.factor.constant *= sign;
    if (b.kind == Term::Kind::kChain) std::swap(a, b);
    const bool continues = a.kind == Term::Kind::kChain && a.version == static_cast<int>(steps_.size());
    if (!continues || b.kind != Term::Kind::kInput) return {};
    steps_.push_back({a.factor, b.factor, b.input, -1});
    return {Term::Kind::kChain, {}, static_cast<int>(steps_.size())};
  }

  const ExprProgram& program_;
  const absl::Span<const TensorSpec> inputs_;
  std::vector<Term> terms_;
  std::vector<ChainStep> steps_;
};

}  // namespace

std::vector<ChainStep> FindUpdateChain(const ExprProgram& program, absl::Span<const TensorSpec> inputs) {
  return Finder(program, inputs).Find();
}

}  // namespace cotan::cpu
