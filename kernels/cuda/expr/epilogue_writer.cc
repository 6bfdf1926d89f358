// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/epilogue_writer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/expr/geometry.h"
#include "kernels/cuda/expr/node_text.h"
#include "kernels/cuda/expr/text_writer.h"

namespace cotan::cuda::expr {
namespace {

using serialization::FN_INPUT;
using serialization::FN_IOTA;
using serialization::FN_RANDOM_UNIFORM;

bool IsNumber(const ExprNode& node) {
  return node.fn == serialization::FN_CONSTANT || node.fn == serialization::FN_SIZE;
}

// Returns true if a position, or an offset of an operand, exceeds 31 bits.
bool NeedsWideIndex(const Problem& problem) {
  const DimVector& sizes = problem.program.domain_sizes;
  if (NumElements(sizes) > std::numeric_limits<int32_t>::max()) return true;
  return std::any_of(problem.operands.begin(), problem.operands.end(), [&](const Operand& operand) {
    int64_t last = 0;
    for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * operand.strides[d];
    return last > std::numeric_limits<int32_t>::max();
  });
}

Axis RowMajorAxis(const Problem& problem) {
  std::vector<int> dims;
  for (int d = 0; d < problem.program.rank(); ++d) {
    if (problem.program.domain_sizes[static_cast<size_t>(d)] != 1) dims.push_back(d);
  }
  return MakeAxis(dims, problem.program.domain_sizes, problem.operands);
}

class EpilogueWriter {
 public:
  explicit EpilogueWriter(const Problem& problem)
      : problem_(problem), index_(NeedsWideIndex(problem)), axis_(RowMajorAxis(problem)) {}

  EpilogueText Write() {
    FindLeaves();
    text_.Line("using Index = ", index_.type(), ";");
    WriteOperands();
    WriteRead();
    WriteWrite();
    WriteMembers();
    EpilogueText result;
    result.definition = absl::StrCat("struct Epilogue {\n", text_.Take(), "};\n");
    result.headers = {"expr", "matmul"};
    if (has_special_) result.headers.emplace_back("math_special");
    if (!draws_.empty()) result.headers.emplace_back("philox");
    std::sort(result.headers.begin(), result.headers.end());
    result.parameters = Parameters();
    result.constructor = absl::StrCat("Epilogue{", absl::StrJoin(initializers_, ", "), "}");
    return result;
  }

 private:
  // A scalar input is loaded once per thread. An output may lie in the memory of one only if the domain is one element.
  bool IsScalar(int input) const {
    const DimVector& strides = problem_.operands[static_cast<size_t>(input)].strides;
    return NumElements(problem_.program.domain_sizes) > 1 &&
           std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 0; });
  }

  void FindLeaves() {
    for (int i = 0; i < problem_.NumNodes(); ++i) {
      const ExprNode& node = problem_.node(i);
      if (!problem_.IsNeeded(i)) continue;
      if (node.fn == FN_INPUT && node.index > 0) (IsScalar(node.index) ? scalars_ : elements_).push_back(i);
      if (node.fn == FN_IOTA) iotas_.push_back(i);
      if (node.fn == FN_RANDOM_UNIFORM) draws_.push_back(i);
    }
  }

  std::string PointerType(size_t operand) const {
    const bool is_input = problem_.operands[operand].kind == Operand::Kind::kInput;
    return absl::StrCat(is_input ? "const " : "", ElementType(problem_.operands[operand].dtype), "*");
  }
  std::string PointerName(size_t operand) const {
    const Operand& of = problem_.operands[operand];
    return absl::StrCat(of.kind == Operand::Kind::kInput ? "in" : "out", of.index);
  }
  std::string NameOf(int node) const {
    return problem_.node(node).fn == FN_INPUT ? absl::StrCat("x", problem_.node(node).index) : absl::StrCat("v", node);
  }
  std::string Value(int node) const {
    return IsNumber(problem_.node(node)) ? ConstantText(problem_.node(node)) : NameOf(node);
  }

  std::string Position(int node) const {
    const std::string offset =
        index_.Offset(axis_, static_cast<size_t>(problem_.operand_of[static_cast<size_t>(node)]), "r");
    return offset.empty() ? "0" : offset;
  }
  std::string Element(size_t operand) const {
    const std::string offset = index_.Offset(axis_, operand, "r");
    return absl::StrCat(PointerName(operand), offset.empty() ? "" : absl::StrCat(" + (", offset, ")"));
  }

  void WriteIndex(const std::vector<size_t>& operands) {
    text_.Line("const Index r = static_cast<Index>(at);");
    for (const std::string& line : index_.Coordinates(axis_, operands, "r")) text_.Line(line);
  }

  void WriteOperands() {
    text_.Line("struct Operands {");
    for (const int i : elements_) text_.Line("  ", ValueType(problem_.node(i).dtype), " ", NameOf(i), ";");
    text_.Line("};");
  }

  void WriteRead() {
    text_.Open("__device__ Operands Read(Shape::Index, Shape::Index at) const");
    std::vector<size_t> operands;
    for (const int i : elements_) operands.push_back(static_cast<size_t>(problem_.node(i).index));
    WriteIndex(operands);
    text_.Line("Operands to;");
    for (const size_t operand : operands) text_.Line("to.x", operand, " = Load(", Element(operand), ");");
    text_.Line("return to;");
    text_.Close();
  }

  void WriteWrite() {
    text_.Open("__device__ void Write(Shape::Sum sum, const Operands& from, Shape::Index at) const");
    std::vector<size_t> operands;
    for (const int i : iotas_) operands.push_back(static_cast<size_t>(problem_.operand_of[static_cast<size_t>(i)]));
    for (const int i : draws_) operands.push_back(static_cast<size_t>(problem_.operand_of[static_cast<size_t>(i)]));
    for (size_t k = 0; k < problem_.outputs.size(); ++k) operands.push_back(problem_.OutputOperand(k));
    WriteIndex(operands);
    const DType dtype = problem_.inputs[0].dtype;
    text_.Line("const ", ValueType(dtype),
               " x0 = ", RoundedText(dtype, absl::StrCat("static_cast<", ValueType(dtype), ">(sum)")), ";");
    for (const int i : elements_)
      text_.Line("const ", ValueType(problem_.node(i).dtype), " ", NameOf(i), " = from.", NameOf(i), ";");
    for (const int i : iotas_) WriteValue(i, PositionText(problem_.node(i).dtype, Position(i)));
    for (const int i : draws_) WriteValue(i, absl::StrCat("random", i, ".Uniform(", Position(i), ")"));
    for (int i = 0; i < problem_.NumNodes(); ++i) WriteFunction(i);
    for (size_t k = 0; k < problem_.outputs.size(); ++k) {
      text_.Line("Store(", Element(problem_.OutputOperand(k)), ", ", Value(problem_.Stored(k)), ");");
    }
    text_.Close();
  }

  void WriteValue(int i, const std::string& value) {
    text_.Line("const ", ValueType(problem_.node(i).dtype), " ", NameOf(i), " = ", value, ";");
  }

  void WriteFunction(int i) {
    const ExprNode& node = problem_.node(i);
    if (!problem_.IsNeeded(i) || ExprArity(node.fn) == 0) return;
    std::vector<std::string> operands;
    for (const int operand : problem_.OperandsOf(i)) operands.push_back(Value(operand));
    const DType operand_dtype = problem_.node(problem_.OperandsOf(i).back()).dtype;
    has_special_ |= IsSpecial(node.fn, operand_dtype);
    WriteValue(i, FunctionText(node, operand_dtype, operands));
  }

  void WriteMembers() {
    const auto add = [&](const std::string& type, const std::string& name, const std::string& value) {
      text_.Line(type, " ", name, ";");
      initializers_.push_back(value);
    };
    for (const int i : elements_) AddPointer(static_cast<size_t>(problem_.node(i).index));
    for (size_t k = 0; k < problem_.outputs.size(); ++k) AddPointer(problem_.OutputOperand(k));
    for (const int i : scalars_) {
      const auto operand = static_cast<size_t>(problem_.node(i).index);
      add(std::string(ValueType(problem_.node(i).dtype)), NameOf(i), absl::StrCat("Load(", PointerName(operand), ")"));
      used_.insert(operand);
    }
    for (const int i : draws_) {
      const ExprNode& node = problem_.node(i);
      const auto operand = static_cast<size_t>(node.index);
      const int64_t stride = problem_.inputs[operand].layout.strides[0];
      add("RandomStream", absl::StrCat("random", i),
          absl::StrCat("RandomStream(", PointerName(operand), ", ", node.slice, "ull, ", stride, ")"));
      used_.insert(operand);
    }
  }

  void AddPointer(size_t operand) {
    text_.Line(PointerType(operand), " ", PointerName(operand), ";");
    initializers_.push_back(PointerName(operand));
    used_.insert(operand);
  }

  std::vector<KernelParameter> Parameters() const {
    std::vector<KernelParameter> parameters;
    for (const size_t operand : used_) {
      const Operand& of = problem_.operands[operand];
      parameters.push_back({PointerType(operand), PointerName(operand),
                            of.kind == Operand::Kind::kInput ? InputArgument(of.index) : OutputArgument(of.index)});
    }
    return parameters;
  }

  const Problem& problem_;
  const IndexText index_;
  const Axis axis_;
  TextWriter text_{1};
  // Needed leaves. Equal ones are one node.
  std::vector<int> elements_;  // inputs of which elements have values of their own
  std::vector<int> scalars_;
  std::vector<int> iotas_;
  std::vector<int> draws_;
  std::set<size_t> used_;  // operands
  std::vector<std::string> initializers_;
  bool has_special_ = false;
};

}  // namespace

EpilogueText WriteEpilogue(const Problem& problem) { return EpilogueWriter(problem).Write(); }

}  // namespace cotan::cuda::expr
