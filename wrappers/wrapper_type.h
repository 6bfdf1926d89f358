// SPDX-License-Identifier: Apache-2.0

// Wrapper types: classes that can be decomposed into named tensors and composed from them (torch's
// traceable tensor subclasses). Parts may be of wrapper types themselves.
//
//   template <typename T>
//   struct Quantized {
//     using Tensor = T;
//     T data, scale;
//
//     static std::string TypeName() { return "cotan.quantized"; }
//     static std::vector<std::string> PartNames() { return {"data", "scale"}; }
//     auto Parts() { return std::tie(data, scale); }
//     std::string Metadata() const { return ""; }                   // data that is not in the parts
//     absl::Status SetMetadata(absl::string_view) { return ...; }   // the inverse
//     std::vector<int64_t> OuterSizes() const { return ...; }       // parts are defined
//   };
//
// The type name identifies the type in artifacts. The name of a template over further wrapper types does
// not include them: its parts have names of their own.
#ifndef COTAN_WRAPPERS_WRAPPER_TYPE_H_
#define COTAN_WRAPPERS_WRAPPER_TYPE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "wrappers/wrapped.h"

namespace cotan {

template <typename W>
concept WrapperType = requires(W& w, const W& c) {
  typename W::Tensor;
  { W::TypeName() } -> std::convertible_to<std::string>;
  { W::PartNames() } -> std::convertible_to<std::vector<std::string>>;
  w.Parts();
  { c.Metadata() } -> std::convertible_to<std::string>;
  { w.SetMetadata(absl::string_view()) } -> std::convertible_to<absl::Status>;
  { c.OuterSizes() } -> std::convertible_to<std::vector<int64_t>>;
};

// Decomposes an object; a plain tensor stays plain.
template <WrapperType W>
Wrapped<typename W::Tensor> Wrap(const W& object);
template <typename T>
requires(!WrapperType<T>) Wrapped<T> Wrap(const T& tensor) { return Wrapped<T>(tensor); }

namespace internal {

template <typename T>
bool AllDefined(const Wrapped<T>& value) {
  for (const T& tensor : value.Tensors()) {
    if (!tensor.defined()) return false;
  }
  return true;
}

}  // namespace internal

template <WrapperType W>
Wrapped<typename W::Tensor> Wrap(const W& object) {
  using T = typename W::Tensor;
  W copy = object;  // of handles
  const std::vector<std::string> names = W::PartNames();
  std::vector<WrappedPart<T>> parts;
  bool all_defined = true;
  std::apply(
      [&](auto&... part) {
        size_t i = 0;
        ((parts.push_back({names[i++], Wrap(part)}),
          all_defined = all_defined && internal::AllDefined(parts.back().value)),
         ...);
      },
      copy.Parts());
  return Wrapped<T>(W::TypeName(), std::move(parts), object.Metadata(),
                    all_defined ? object.OuterSizes() : std::vector<int64_t>());
}

// Composes an object from `value`. `what` names the value in messages: "result 0". InvalidArgument: `value`
// has another type or other parts, or metadata that the type rejects; the message names the part.
template <WrapperType W>
absl::Status UnwrapTo(const Wrapped<typename W::Tensor>& value, absl::string_view what, W& object);
template <typename T>
requires(!WrapperType<T>) absl::Status UnwrapTo(const Wrapped<T>& value, absl::string_view what, T& tensor) {
  if (!value.is_plain()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is a ", value.type_name(), ", not a plain tensor"));
  }
  tensor = value.tensor();
  return absl::OkStatus();
}

template <WrapperType W>
absl::Status UnwrapTo(const Wrapped<typename W::Tensor>& value, absl::string_view what, W& object) {
  if (value.type_name() != W::TypeName()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is ", value.is_plain() ? "a plain tensor" : absl::StrCat("a ", value.type_name()),
                     ", not a ", W::TypeName()));
  }
  const std::vector<std::string> names = W::PartNames();
  if (value.parts().size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has ", value.parts().size(), " parts, a ", W::TypeName(),
                                                   " has ", names.size(), ": ", absl::StrJoin(names, ", ")));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (value.parts()[i].name == names[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, " has the part '", value.parts()[i].name, "' where a ",
                                                   W::TypeName(), " has '", names[i], "'"));
  }
  absl::Status status;
  std::apply(
      [&](auto&... part) {
        size_t i = 0;
        const auto unwrap = [&](auto& one) {
          const WrappedPart<typename W::Tensor>& from = value.parts()[i++];
          if (status.ok()) status = UnwrapTo(from.value, absl::StrCat(what, ".", from.name), one);
        };
        (unwrap(part), ...);
      },
      object.Parts());
  COTAN_RETURN_IF_ERROR(status);
  const absl::Status set = object.SetMetadata(value.metadata());
  if (set.ok()) return set;
  return absl::Status(set.code(), absl::StrCat(what, ": metadata of ", W::TypeName(), ": ", set.message()));
}

template <typename W>
absl::StatusOr<W> Unwrap(const auto& value, absl::string_view what) {
  W object;
  COTAN_RETURN_IF_ERROR(UnwrapTo(value, what, object));
  return object;
}

}  // namespace cotan

#endif  // COTAN_WRAPPERS_WRAPPER_TYPE_H_
