// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/arguments.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/solve.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

// A session on a GPU copies arguments from the host to its device.
bool IsReachable(const Tensor& argument, const Device& device) {
  return &argument.device() == &device ||
         (argument.device().type() == DeviceType::kCpu && device.type() != DeviceType::kCpu);
}

using serialization::Method;
using serialization::SymbolProto;
using serialization::TensorType;
using serialization::Value;

constexpr int64_t kUnknown = -1;

bool UsesSymbol(const SymInt& size, int symbol) {
  if (size.is_constant()) return false;
  if (size.kind() == SymInt::Kind::kSymbol) return size.symbol() == symbol;
  return UsesSymbol(size.lhs(), symbol) || UsesSymbol(size.rhs(), symbol);
}

class Checker {
 public:
  Checker(const Program& program, const Method& method, int num_saved, absl::Span<const Tensor> arguments,
          const Device& device)
      : program_(program), method_(method), num_saved_(num_saved), arguments_(arguments), device_(device) {}

  absl::StatusOr<DimVector> Check(absl::Span<const int64_t> known) {
    symbols_.assign(known.begin(), known.end());
    symbols_.resize(static_cast<size_t>(program_.artifact().symbols_size()), kUnknown);
    COTAN_RETURN_IF_ERROR(CheckCount());
    for (size_t i = 0; i < arguments_.size(); ++i) COTAN_RETURN_IF_ERROR(CheckKind(i));
    for (size_t i = 0; i < arguments_.size(); ++i) COTAN_RETURN_IF_ERROR(SolveSymbols(i));
    COTAN_RETURN_IF_ERROR(CompleteSymbols());
    for (size_t i = 0; i < arguments_.size(); ++i) COTAN_RETURN_IF_ERROR(CheckSizes(i));
    return symbols_;
  }

 private:
  const TensorType& TypeOf(size_t argument) const {
    const uint32_t value = method_.inputs(num_saved_ + static_cast<int>(argument));
    return method_.values(static_cast<int>(value)).type();
  }

  std::string NameOf(size_t argument) const {
    return absl::StrCat("method '", method_.name(), "', argument ", argument, " '",
                        program_.InputName(method_, num_saved_ + static_cast<int>(argument)), "'");
  }

  absl::Status CheckCount() const {
    const int expected = method_.inputs_size() - num_saved_;
    if (static_cast<int>(arguments_.size()) == expected) return absl::OkStatus();
    std::string names;
    for (int i = num_saved_; i < method_.inputs_size(); ++i) {
      absl::StrAppend(&names, i == num_saved_ ? "" : ", ", program_.InputName(method_, i));
    }
    return absl::InvalidArgumentError(absl::StrCat("method '", method_.name(), "' takes ", expected, " arguments (",
                                                   names, "), got ", arguments_.size()));
  }

  // Checks dtype, rank and device.
  absl::Status CheckKind(size_t i) const {
    const Tensor& argument = arguments_[i];
    const TensorType& type = TypeOf(i);
    const bool fits = argument.defined() && argument.dtype() == ToDType(type.dtype()) &&
                      argument.layout().rank() == type.sizes_size();
    if (!fits) return Misfit(i);
    if (IsReachable(argument, device_)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(NameOf(i), " is on ", DeviceTypeName(argument.device().type()),
                                                   ", the session runs on ", DeviceTypeName(device_.type())));
  }

  absl::Status Misfit(size_t i) const {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(i), ": expected ", TensorTypeText(TypeOf(i)), ", got ", arguments_[i].ToString()));
  }

  // Solves for the symbols: a dimension whose size is a symbol, or a sum or product of a symbol with
  // constants, determines its value.
  absl::Status SolveSymbols(size_t i) {
    const TensorType& type = TypeOf(i);
    for (int dim = 0; dim < type.sizes_size(); ++dim) {
      COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(type.sizes(dim)));
      const int64_t extent = arguments_[i].sizes()[static_cast<size_t>(dim)];
      const std::optional<SymbolValue> solved = SolveForSymbol(size, extent);
      if (!solved.has_value()) continue;
      int64_t& known = symbols_[static_cast<size_t>(solved->symbol)];
      const int64_t found = solved->value;
      const SymbolProto& symbol = program_.artifact().symbols(solved->symbol);
      const bool is_symbol = size.kind() == SymInt::Kind::kSymbol;
      const std::string what = is_symbol ? absl::StrCat("is '", symbol.name(), "'")
                                         : absl::StrCat("has ", extent, " elements, which makes '", symbol.name(), "'");
      if (found < symbol.min() || found > symbol.max()) {
        return absl::OutOfRangeError(absl::StrCat(NameOf(i), ": dimension ", dim, " ", what, " in [", symbol.min(),
                                                  ", ", symbol.max(), "], got ", found));
      }
      if (known != kUnknown && known != found) {
        return absl::InvalidArgumentError(
            absl::StrCat(NameOf(i), ": dimension ", dim, " ", what, ", which is ", known, " elsewhere, got ", found));
      }
      known = found;
    }
    return absl::OkStatus();
  }

  absl::Status CompleteSymbols() {
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (symbols_[i] != kUnknown) continue;
      const SymbolProto& symbol = program_.artifact().symbols(static_cast<int>(i));
      COTAN_ASSIGN_OR_RETURN(const bool used, MethodUses(static_cast<int>(i)));
      if (used) {
        return absl::InvalidArgumentError(absl::StrCat("method '", method_.name(), "': no argument has the dimension '",
                                                       symbol.name(), "' as such, so its value is unknown"));
      }
      symbols_[i] = symbol.min();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> MethodUses(int symbol) const {
    for (const Value& value : method_.values()) {
      for (const std::string& text : value.type().sizes()) {
        COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(text));
        if (UsesSymbol(size, symbol)) return true;
      }
    }
    return false;
  }

  absl::Status CheckSizes(size_t i) const {
    COTAN_ASSIGN_OR_RETURN(const DimVector expected, EvaluateSizes(TypeOf(i).sizes(), symbols_));
    return arguments_[i].sizes() == absl::MakeConstSpan(expected) ? absl::OkStatus() : Misfit(i);
  }

  const Program& program_;
  const Method& method_;
  const int num_saved_;
  const absl::Span<const Tensor> arguments_;
  const Device& device_;
  DimVector symbols_;
};

}  // namespace

bool ArgumentsMatch(absl::Span<const TensorSpec> specs, absl::Span<const Tensor* const> arguments,
                    const Device& device) {
  if (specs.size() != arguments.size()) return false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Tensor& argument = *arguments[i];
    if (!argument.defined() || argument.dtype() != specs[i].dtype || !IsReachable(argument, device) ||
        argument.layout().sizes != specs[i].layout.sizes) {
      return false;
    }
  }
  return true;
}

bool SameGeometry(const StridedLayout& a, const StridedLayout& b) {
  if (a.sizes != b.sizes) return false;
  bool same = true;
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.sizes[i] == 0) return true;
    same = same && (a.sizes[i] == 1 || a.strides[i] == b.strides[i]);
  }
  return same;
}

absl::StatusOr<DimVector> CheckArguments(const Program& program, const Method& method, int num_saved,
                                         absl::Span<const Tensor> arguments, const Device& device,
                                         absl::Span<const int64_t> known) {
  return Checker(program, method, num_saved, arguments, device).Check(known);
}

}  // namespace cotan
