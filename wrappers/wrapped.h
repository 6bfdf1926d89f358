// SPDX-License-Identifier: Apache-2.0

// One tensor of the user: plain, or of a wrapper type and decomposed into its named parts. `T` is
// at::Tensor in the compiler and Variable in the runtime.
#ifndef COTAN_WRAPPERS_WRAPPED_H_
#define COTAN_WRAPPERS_WRAPPED_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan {

template <typename T>
struct WrappedPart;

// A tensor or a decomposed wrapper; holds its tensors as handles. Wrap() makes it from an object of a
// wrapper type, Unwrap() is the inverse (wrapper_type.h).
template <typename T>
class Wrapped {
 public:
  // Makes an undefined plain tensor.
  Wrapped() = default;
  explicit Wrapped(T tensor) : tensor_(std::move(tensor)) {}
  // Makes a tensor of the wrapper type `type_name`, which is not empty.
  Wrapped(std::string type_name, std::vector<WrappedPart<T>> parts, std::string metadata,
          std::vector<int64_t> outer_sizes)
      : type_name_(std::move(type_name)),
        parts_(std::move(parts)),
        metadata_(std::move(metadata)),
        outer_sizes_(std::move(outer_sizes)) {}

  bool is_plain() const { return type_name_.empty(); }
  // Requires is_plain().
  const T& tensor() const { return tensor_; }

  // Require !is_plain(): the registered name of the type, and its parts in the order of PartNames().
  const std::string& type_name() const { return type_name_; }
  const std::vector<WrappedPart<T>>& parts() const { return parts_; }
  std::vector<WrappedPart<T>>& parts() { return parts_; }
  // Returns the type's further data, as it serializes itself.
  const std::string& metadata() const { return metadata_; }
  // Returns the sizes of the wrapper as one tensor; also empty if they are unknown.
  const std::vector<int64_t>& outer_sizes() const { return outer_sizes_; }

  // Returns all plain tensors in it, in order.
  std::vector<T> Tensors() const {
    std::vector<T> tensors;
    Append(tensors);
    return tensors;
  }
  void Append(std::vector<T>& tensors) const {
    if (is_plain()) tensors.push_back(tensor_);
    for (const WrappedPart<T>& part : parts_) part.value.Append(tensors);
  }

  // Returns a copy in which each plain tensor is replaced by replace(tensor); calls are in order.
  template <typename F>
  auto Map(F&& replace) const -> Wrapped<decltype(replace(std::declval<const T&>()))> {
    using U = decltype(replace(std::declval<const T&>()));
    if (is_plain()) return Wrapped<U>(replace(tensor_));
    std::vector<WrappedPart<U>> parts;
    for (const WrappedPart<T>& part : parts_) parts.push_back({part.name, part.value.Map(replace)});
    return Wrapped<U>(type_name_, std::move(parts), metadata_, outer_sizes_);
  }

  // Returns "plain" or, for example, "cotan.quantized{data: plain, scale: plain}".
  std::string StructureText() const {
    if (is_plain()) return "plain";
    return absl::StrCat(type_name_, "{",
                        absl::StrJoin(parts_, ", ",
                                      [](std::string* out, const WrappedPart<T>& part) {
                                        absl::StrAppend(out, part.name, ": ", part.value.StructureText());
                                      }),
                        "}");
  }

 private:
  T tensor_;
  std::string type_name_;
  std::vector<WrappedPart<T>> parts_;
  std::string metadata_;
  std::vector<int64_t> outer_sizes_;
};

template <typename T>
struct WrappedPart {
  std::string name;
  Wrapped<T> value;
};

}  // namespace cotan

#endif  // COTAN_WRAPPERS_WRAPPED_H_
