// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/scalar_op.h"

#include <c10/core/SymNodeImpl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "aot/capture/number.h"
#include "base/rounding.h"

namespace cotan::aot::pt2 {
namespace {

using c10::IValue;

double Double(const IValue& value) { return value.toScalar().toDouble(); }
bool Truth(const IValue& value) { return Double(value) != 0; }

void CheckDivisor(const IValue& value) {
  if (!Truth(value)) throw std::invalid_argument("division by zero");
}

[[noreturn]] void TooLarge() { throw std::invalid_argument("an integer that exceeds 64 bits"); }

int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == -1) {
    if (a == std::numeric_limits<int64_t>::min()) TooLarge();
    return -a;
  }
  return FloorDiv(a, b);
}

// Calls `function` with both operands as integers if both are integers, otherwise as floating point
// numbers.
template <typename Function>
IValue Arithmetic(const IValue& a, const IValue& b, Function function) {
  const bool integers = !a.isDouble() && !b.isDouble();
  if (integers) return function(a.toScalar().toLong(), b.toScalar().toLong());
  return function(Double(a), Double(b));
}

struct Addition {
  IValue operator()(int64_t a, int64_t b) const {
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) TooLarge();
    return sum;
  }
  IValue operator()(double a, double b) const { return a + b; }
};

struct Subtraction {
  IValue operator()(int64_t a, int64_t b) const {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a, b, &difference)) TooLarge();
    return difference;
  }
  IValue operator()(double a, double b) const { return a - b; }
};

struct Multiplication {
  IValue operator()(int64_t a, int64_t b) const {
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) TooLarge();
    return product;
  }
  IValue operator()(double a, double b) const { return a * b; }
};

struct FloorDivision {
  IValue operator()(int64_t a, int64_t b) const { return FloorDivide(a, b); }
  IValue operator()(double a, double b) const { return std::floor(a / b); }
};

struct Modulo {
  IValue operator()(int64_t a, int64_t b) const { return b == -1 ? int64_t{0} : a - FloorDivide(a, b) * b; }
  IValue operator()(double a, double b) const { return a - std::floor(a / b) * b; }
};

struct Power {
  IValue operator()(int64_t base, int64_t exponent) const {
    if (exponent < 0) return std::pow(static_cast<double>(base), static_cast<double>(exponent));
    // Squares the base while bits of the exponent are left.
    int64_t result = 1;
    for (int64_t square = base; exponent > 0; exponent /= 2) {
      if (exponent % 2 == 1 && __builtin_mul_overflow(result, square, &result)) TooLarge();
      if (exponent > 1 && __builtin_mul_overflow(square, square, &square)) TooLarge();
    }
    return result;
  }
  IValue operator()(double base, double exponent) const { return std::pow(base, exponent); }
};

// `value` is an integer, infinite or NaN.
IValue Rounded(double value) {
  constexpr double kLimit = 0x1p63;
  if (!(value >= -kLimit && value < kLimit)) TooLarge();
  return static_cast<int64_t>(value);
}

struct ScalarOp {
  absl::string_view target;
  size_t operands;
  IValue (*run)(const std::vector<IValue>& x);
};

using Operands = const std::vector<IValue>&;

constexpr ScalarOp kOps[] = {
    {"_operator.add", 2, [](Operands x) { return Arithmetic(x[0], x[1], Addition()); }},
    {"_operator.sub", 2, [](Operands x) { return Arithmetic(x[0], x[1], Subtraction()); }},
    {"_operator.mul", 2, [](Operands x) { return Arithmetic(x[0], x[1], Multiplication()); }},
    {"_operator.floordiv", 2,
     [](Operands x) {
       CheckDivisor(x[1]);
       return Arithmetic(x[0], x[1], FloorDivision());
     }},
    {"_operator.mod", 2,
     [](Operands x) {
       CheckDivisor(x[1]);
       return Arithmetic(x[0], x[1], Modulo());
     }},
    {"_operator.truediv", 2,
     [](Operands x) {
       CheckDivisor(x[1]);
       return IValue(Double(x[0]) / Double(x[1]));
     }},
    {"_operator.pow", 2, [](Operands x) { return Arithmetic(x[0], x[1], Power()); }},
    {"_operator.neg", 1, [](Operands x) { return Arithmetic(IValue(0), x[0], Subtraction()); }},
    {"_operator.pos", 1, [](Operands x) { return x[0]; }},
    {"_operator.eq", 2, [](Operands x) { return IValue(Double(x[0]) == Double(x[1])); }},
    {"_operator.ne", 2, [](Operands x) { return IValue(Double(x[0]) != Double(x[1])); }},
    {"_operator.lt", 2, [](Operands x) { return IValue(Double(x[0]) < Double(x[1])); }},
    {"_operator.le", 2, [](Operands x) { return IValue(Double(x[0]) <= Double(x[1])); }},
    {"_operator.gt", 2, [](Operands x) { return IValue(Double(x[0]) > Double(x[1])); }},
    {"_operator.ge", 2, [](Operands x) { return IValue(Double(x[0]) >= Double(x[1])); }},
    {"_operator.and_", 2, [](Operands x) { return IValue(Truth(x[0]) && Truth(x[1])); }},
    {"_operator.or_", 2, [](Operands x) { return IValue(Truth(x[0]) || Truth(x[1])); }},
    {"torch.sym_not", 1, [](Operands x) { return IValue(!Truth(x[0])); }},
    {"torch.sym_float", 1, [](Operands x) { return IValue(Double(x[0])); }},
    {"torch.sym_int", 1, [](Operands x) { return Rounded(std::trunc(Double(x[0]))); }},
    {"torch.sym_ite", 3, [](Operands x) { return Truth(x[0]) ? x[1] : x[2]; }},
    {"torch.sym_max", 2,
     [](Operands x) { return Arithmetic(x[0], x[1], [](auto a, auto b) { return IValue(std::max(a, b)); }); }},
    {"torch.sym_min", 2,
     [](Operands x) { return Arithmetic(x[0], x[1], [](auto a, auto b) { return IValue(std::min(a, b)); }); }},
    {"torch._sym_sqrt", 1, [](Operands x) { return IValue(std::sqrt(Double(x[0]))); }},
    {"math.ceil", 1, [](Operands x) { return Rounded(std::ceil(Double(x[0]))); }},
    {"math.floor", 1, [](Operands x) { return Rounded(std::floor(Double(x[0]))); }},
    {"math.trunc", 1, [](Operands x) { return Rounded(std::trunc(Double(x[0]))); }},
    {"math.sqrt", 1, [](Operands x) { return IValue(std::sqrt(Double(x[0]))); }},
    {"builtins.round", 1, [](Operands x) { return Rounded(std::nearbyint(Double(x[0]))); }},
};

const ScalarOp* Find(absl::string_view target) {
  const auto found =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const ScalarOp& op) { return op.target == target; });
  return found == std::end(kOps) ? nullptr : found;
}

// --- Numbers that differ from call to call ---------------------------------------

using c10::SymNode;
using c10::SymNodeImpl;

// Returns an operand as a symbolic number like `symbol`, a float if one of the two is.
SymNode ToNode(const IValue& value, const SymNode& symbol) {
  if (value.isSymInt()) return value.toSymInt().toSymNode();
  if (value.isSymFloat()) return value.toSymFloat().toSymNodeImpl();
  if (value.isSymBool()) return value.toSymBool().toSymNodeImpl();
  if (value.isBool()) return symbol->wrap_bool(value.toBool());
  if (value.isInt() && !symbol->is_float()) return symbol->wrap_int(value.toInt());
  return symbol->wrap_float(Double(value));
}

IValue ToValue(const SymNode& node) {
  if (node->is_int()) return c10::SymInt(node);
  if (node->is_bool()) return c10::SymBool(node);
  return c10::SymFloat(node);
}

SymNode Truncated(const SymNode& x) {
  if (x->is_int()) return x;
  return x->lt(x->wrap_float(0))->sym_ite(x->ceil(), x->floor());
}
SymNode Root(const SymNode& x) { return x->sym_float()->pow(x->wrap_float(0.5)); }
SymNode Same(const SymNode& x) { return x; }

struct UnarySymbolOp {
  absl::string_view target;
  SymNode (*run)(const SymNode& x);
};
constexpr UnarySymbolOp kUnarySymbolOps[] = {
    {"_operator.neg", [](const SymNode& x) { return x->neg(); }},
    {"_operator.pos", Same},
    {"torch.sym_not", [](const SymNode& x) { return x->sym_not(); }},
    {"torch.sym_float", [](const SymNode& x) { return x->sym_float(); }},
    {"torch.sym_int", Truncated},
    {"torch._sym_sqrt", Root},
    {"math.ceil", [](const SymNode& x) { return x->is_int() ? x : x->ceil(); }},
    {"math.floor", [](const SymNode& x) { return x->is_int() ? x : x->floor(); }},
    {"math.trunc", Truncated},
    {"math.sqrt", Root},
};

struct BinarySymbolOp {
  absl::string_view target;
  SymNode (SymNodeImpl::*run)(const SymNode& other);
};
constexpr BinarySymbolOp kBinarySymbolOps[] = {
    {"_operator.add", &SymNodeImpl::add},      {"_operator.sub", &SymNodeImpl::sub},
    {"_operator.mul", &SymNodeImpl::mul},      {"_operator.floordiv", &SymNodeImpl::floordiv},
    {"_operator.mod", &SymNodeImpl::mod},      {"_operator.truediv", &SymNodeImpl::truediv},
    {"_operator.eq", &SymNodeImpl::eq},        {"_operator.ne", &SymNodeImpl::ne},
    {"_operator.lt", &SymNodeImpl::lt},        {"_operator.le", &SymNodeImpl::le},
    {"_operator.gt", &SymNodeImpl::gt},        {"_operator.ge", &SymNodeImpl::ge},
    {"_operator.and_", &SymNodeImpl::sym_and}, {"_operator.or_", &SymNodeImpl::sym_or},
    {"torch.sym_max", &SymNodeImpl::sym_max},  {"torch.sym_min", &SymNodeImpl::sym_min},
};

// A power of integers is an integer or a float, depending on the exponent's sign, unless that is known.
SymNode Pow(const std::vector<IValue>& x, const SymNode& base, const SymNode& exponent) {
  if (base->is_float() || exponent->is_float()) return base->sym_float()->pow(exponent->sym_float());
  if (x[1].isInt() && x[1].toInt() >= 0) return base->pow(exponent);
  throw std::invalid_argument("a power of an integer whose exponent may be negative; make one of them a float");
}

// Returns the result of an op with symbolic operands. Division by zero is not an error: it gives what tensors give.
IValue RunOnSymbols(absl::string_view target, const std::vector<IValue>& operands) {
  const IValue& symbol = *std::find_if(operands.begin(), operands.end(), IsSymbolicNumber);
  std::vector<SymNode> nodes;
  for (const IValue& operand : operands) nodes.push_back(ToNode(operand, ToNode(symbol, SymNode())));
  for (const UnarySymbolOp& op : kUnarySymbolOps) {
    if (op.target == target) return ToValue(op.run(nodes[0]));
  }
  if (target == "_operator.pow") return ToValue(Pow(operands, nodes[0], nodes[1]));
  if (target == "torch.sym_ite") return ToValue(nodes[0]->sym_ite(nodes[1], nodes[2]));
  for (const BinarySymbolOp& op : kBinarySymbolOps) {
    if (op.target != target) continue;
    const bool mixed = nodes[0]->is_float() != nodes[1]->is_float();
    const SymNode a = mixed ? nodes[0]->sym_float() : nodes[0];
    return ToValue((a.get()->*op.run)(mixed ? nodes[1]->sym_float() : nodes[1]));
  }
  throw std::invalid_argument("it has no form for numbers that may differ from call to call");
}

}  // namespace

bool IsScalarOp(absl::string_view target) { return Find(target) != nullptr; }

IValue RunScalarOp(absl::string_view target, const std::vector<IValue>& operands) {
  const ScalarOp& op = *Find(target);
  if (operands.size() != op.operands) {
    throw std::invalid_argument(absl::StrCat(op.operands, " operands were expected, not ", operands.size()));
  }
  for (const IValue& operand : operands) {
    if (!operand.isScalar()) throw std::invalid_argument("an operand is not a number");
  }
  if (std::any_of(operands.begin(), operands.end(), IsSymbolicNumber)) return RunOnSymbols(target, operands);
  return op.run(operands);
}

}  // namespace cotan::aot::pt2
