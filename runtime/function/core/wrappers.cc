// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/wrappers.h"

#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace cotan {
namespace {

template <typename... Parts>
absl::Status Refuse(const std::string& name, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' ", parts...));
}

std::string NamesOf(const WrapperMeta& meta) {
  return absl::StrJoin(meta.attributes, ", ",
                       [](std::string* out, const WrapperAttribute& attribute) { out->append(attribute.name); });
}

absl::Status FlattenWrapper(const WrapperMeta& meta, const WrappedVariable& value, const std::string& name,
                            std::vector<Variable>& flat) {
  if (value.is_plain()) return Refuse(name, "is a plain tensor, not a ", meta.type_name);
  if (value.type_name() != meta.type_name) return Refuse(name, "is a ", value.type_name(), ", not a ", meta.type_name);
  if (value.parts().size() != meta.attributes.size()) {
    return Refuse(name, "has ", value.parts().size(), " attributes; a ", meta.type_name, " has ",
                  meta.attributes.size(), ": ", NamesOf(meta));
  }
  if (value.metadata() != meta.metadata) {
    return Refuse(name, "has the metadata \"", value.metadata(), "\"; the one traced had \"", meta.metadata, "\"");
  }
  for (size_t i = 0; i < meta.attributes.size(); ++i) {
    const WrapperAttribute& attribute = meta.attributes[i];
    const WrappedPart<Variable>& part = value.parts()[i];
    if (part.name != attribute.name) {
      return Refuse(name, "has the attribute '", part.name, "' where a ", meta.type_name, " has '", attribute.name,
                    "'");
    }
    const std::string full = absl::StrCat(name, ".", attribute.name);
    if (const auto* inner = std::get_if<WrapperMeta>(&attribute.value)) {
      COTAN_RETURN_IF_ERROR(FlattenWrapper(*inner, part.value, full, flat));
    } else if (part.value.is_plain()) {
      flat.push_back(part.value.tensor());
    } else {
      return Refuse(full, "is a ", part.value.type_name(), ", not a plain tensor");
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> OuterSizes(const WrapperMeta& meta, absl::Span<const int64_t> symbols) {
  std::vector<int64_t> sizes;
  for (const SymInt& size : meta.outer_sizes) {
    const absl::StatusOr<int64_t> value = size.Evaluate(symbols);
    if (!value.ok()) return {};  // a symbol without a value: the outer sizes stay unset
    sizes.push_back(*value);
  }
  return sizes;
}

// Returns the wrapper built from the first tensors of `flat`, and removes these.
WrappedVariable TakeWrapper(const WrapperMeta& meta, absl::Span<const Variable>& flat,
                            absl::Span<const int64_t> symbols) {
  std::vector<WrappedPart<Variable>> parts;
  for (const WrapperAttribute& attribute : meta.attributes) {
    WrappedPart<Variable>& part = parts.emplace_back();
    part.name = attribute.name;
    if (const auto* inner = std::get_if<WrapperMeta>(&attribute.value)) {
      part.value = TakeWrapper(*inner, flat, symbols);
    } else {
      part.value = WrappedVariable(flat[0]);
      flat.remove_prefix(1);
    }
  }
  return WrappedVariable(meta.type_name, std::move(parts), meta.metadata, OuterSizes(meta, symbols));
}

}  // namespace

absl::Status FlattenAs(const FlatMeta& meta, const WrappedVariable& value, const std::string& name,
                       std::vector<Variable>& flat) {
  if (const auto* wrapper = std::get_if<WrapperMeta>(&meta)) return FlattenWrapper(*wrapper, value, name, flat);
  if (!value.is_plain()) return Refuse(name, "is a ", value.type_name(), ", not a plain tensor");
  flat.push_back(value.tensor());
  return absl::OkStatus();
}

WrappedVariable RewrapAs(const FlatMeta& meta, absl::Span<const Variable> flat, absl::Span<const int64_t> symbols) {
  if (const auto* wrapper = std::get_if<WrapperMeta>(&meta)) return TakeWrapper(*wrapper, flat, symbols);
  return WrappedVariable(flat[0]);
}

WrappedVariable GradientOf(const WrappedVariable& value) {
  return value.Map([](const Variable& tensor) { return tensor.defined() ? tensor.grad() : Variable(); });
}

}  // namespace cotan
