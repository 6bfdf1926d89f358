// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/plausible_arguments.h"

#include <ATen/ATen.h>

#include <array>
#include <string>

#include "absl/strings/match.h"

namespace cotan::testing {
namespace {

constexpr int64_t kSize = 4;

bool IsOneOf(const std::string& name, std::initializer_list<const char*> names) {
  for (const char* candidate : names) {
    if (name == candidate) return true;
  }
  return false;
}

bool IsVector(const std::string& name, const Guess& guess) {
  return IsOneOf(name, {"bias", "running_mean", "running_var", "save_mean", "save_invstd", "mean", "invstd", "rstd",
                        "boundaries", "sorted_sequence", "offsets", "repeats", "tau", "input_lengths", "vec"}) ||
         (guess.vectors && absl::StrContains(name, "weight"));
}

bool IsIndex(const std::string& name) {
  return IsOneOf(name, {"index", "indices", "offsets", "repeats", "pivots", "LU_pivots", "offset2bag", "bag_size",
                        "maximum_indices", "input_lengths", "target_lengths", "max_indices"});
}

at::Tensor MakeTensor(const std::string& name, const Guess& guess, at::ScalarType dtype) {
  const std::vector<int64_t> sizes(IsVector(name, guess) ? 1 : static_cast<size_t>(guess.rank), kSize);
  if (IsIndex(name)) return at::randint(0, kSize, sizes, at::kLong);
  if (IsOneOf(name, {"condition", "mask"})) return at::randint(0, 2, sizes, at::kLong).to(at::kBool);
  if (IsOneOf(name, {"boundaries", "sorted_sequence"})) return at::arange(kSize, dtype);
  if (!at::isFloatingType(dtype)) return at::randint(1, kSize, sizes, at::kLong).to(dtype);
  return (at::rand(sizes, at::kDouble) * 0.8 + 0.1).to(dtype);
}

std::vector<int64_t> MakeIntegers(const std::string& name, const Guess& guess) {
  const auto rank = static_cast<size_t>(guess.rank);
  if (absl::StrContains(name, "stride") && guess.whole_sizes) {
    std::vector<int64_t> strides(rank, 1);
    for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * kSize;
    return strides;
  }
  if (absl::StrContains(name, "dims") && guess.whole_sizes) {
    std::vector<int64_t> dims(rank);
    for (size_t d = 0; d < rank; ++d) dims[d] = static_cast<int64_t>(rank - 1 - d);
    return dims;
  }
  if (absl::StrContains(name, "dim")) return {0};
  if (IsOneOf(name, {"normalized_shape"})) return {kSize};
  if (IsOneOf(name, {"split_sizes"})) return {1, kSize - 1};
  if (guess.whole_sizes) return std::vector<int64_t>(rank, kSize);
  const size_t spatial = rank > 2 ? rank - 2 : 1;
  if (absl::StrContains(name, "padding")) return std::vector<int64_t>(spatial, 0);
  if (name == "pad") return {1, 1};
  if (absl::StrContains(name, "kernel") || absl::StrContains(name, "size")) return std::vector<int64_t>(spatial, 2);
  return std::vector<int64_t>(spatial, 1);
}

c10::IValue MakeText(const std::string& name) {
  if (name == "reduce") return "prod";
  if (name == "rounding_mode") return "floor";
  if (name == "indexing") return "ij";
  if (name == "mode") return "reduced";
  return "";
}

int64_t MakeInteger(const std::string& name) {
  if (IsOneOf(name, {"dim1", "axis1", "end", "upper"})) return 1;
  if (name == "dim2") return 2;
  if (absl::StrContains(name, "dim") || absl::StrContains(name, "axis") || absl::StrContains(name, "diagonal"))
    return 0;
  if (IsOneOf(name, {"offset", "start", "padding_idx", "storage_offset", "index", "padding", "blank", "mode"}))
    return 0;
  if (IsOneOf(name, {"k", "chunks", "sections", "n", "num_groups", "N"})) return 2;
  return 1;
}

c10::IValue MakeValue(const c10::Type& type, const std::string& name, const Guess& guess, at::ScalarType dtype) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return MakeTensor(name, guess, dtype);
    case c10::TypeKind::NumberType:
      return at::isFloatingType(dtype) ? at::Scalar(0.75) : at::Scalar(2);
    case c10::TypeKind::FloatType:
      return 0.5;
    case c10::TypeKind::ScalarTypeType:
      return static_cast<int64_t>(dtype);
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
      return 0;  // strided, contiguous
    case c10::TypeKind::DeviceObjType:
      return c10::Device(c10::kCPU);
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return name == "dtype" ? static_cast<int64_t>(dtype) : MakeInteger(name);
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return false;
    case c10::TypeKind::StringType:
      return MakeText(name);
    default:
      break;
  }
  if (type.isSubtypeOf(*c10::ListType::ofTensors())) {
    return c10::List<at::Tensor>({MakeTensor(name, guess, dtype), MakeTensor(name, guess, dtype)});
  }
  if (type.isSubtypeOf(*c10::ListType::ofOptionalTensors())) {
    return c10::List<std::optional<at::Tensor>>({MakeTensor("index", {.rank = 1}, dtype)});
  }
  if (type.isSubtypeOf(*c10::ListType::ofBools())) return c10::List<bool>({true, true, true});
  if (type.isSubtypeOf(*c10::ListType::ofFloats())) return std::vector<double>{1, 1};
  const auto* list = type.castRaw<c10::ListType>();
  if (list == nullptr) return c10::IValue();
  if (list->getElementType()->kind() == c10::TypeKind::NumberType) return c10::List<at::Scalar>({at::Scalar(2)});
  return MakeIntegers(name, guess);
}

}  // namespace

std::vector<Guess> Guesses() {
  std::vector<Guess> guesses;
  for (const at::ScalarType dtype : {at::kFloat, at::kLong}) {
    for (const bool whole_sizes : {false, true}) {
      for (const bool vectors : {false, true}) {
        for (const int rank : {2, 4, 3, 5, 1, 0}) guesses.push_back({rank, dtype, whole_sizes, vectors});
      }
    }
  }
  return guesses;
}

OpArguments PlausibleArguments(const c10::FunctionSchema& schema, const Guess& guess) {
  OpArguments arguments;
  for (const c10::Argument& argument : schema.arguments()) {
    // The elements of an output argument do not matter, but it must be defined.
    const bool is_result = argument.is_out();
    if (argument.default_value().has_value() && !is_result) {
      arguments.push_back(*argument.default_value());
    } else if (argument.type()->kind() == c10::TypeKind::OptionalType) {
      const c10::Type& inner = *argument.type()->castRaw<c10::OptionalType>()->getElementType();
      const bool needed = guess.whole_sizes && inner.kind() != c10::TypeKind::TensorType &&
                          inner.kind() != c10::TypeKind::GeneratorType;
      arguments.push_back(needed ? MakeValue(inner, argument.name(), guess, guess.dtype) : c10::IValue());
    } else {
      arguments.push_back(MakeValue(*argument.type(), argument.name(), guess, guess.dtype));
    }
  }
  return arguments;
}

}  // namespace cotan::testing
