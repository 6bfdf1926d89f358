// One tensor of a user: plain, or of a wrapper type, taken apart into its named
// parts. `T` is at::Tensor where functions are compiled and Variable where they
// run.
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

// A value: it holds its tensors as handles. Wrap() makes one of an object of a
// wrapper type, Unwrap() the reverse (wrapper_type.h).
template <typename T>
class Wrapped {
 public:
  // A plain tensor that is undefined.
  Wrapped() = default;
  explicit Wrapped(T tensor) : tensor_(std::move(tensor)) {}
  // A tensor of the wrapper type `type_name`, which is not empty.
  Wrapped(std::string type_name, std::vector<WrappedPart<T>> parts, std::string metadata,
          std::vector<int64_t> outer_sizes)
      : type_name_(std::move(type_name)),
        parts_(std::move(parts)),
        metadata_(std::move(metadata)),
        outer_sizes_(std::move(outer_sizes)) {}

  bool is_plain() const { return type_name_.empty(); }
  // If plain.
  const T& tensor() const { return tensor_; }

  // Otherwise: the registered name, and what the type's parts are, in its order.
  const std::string& type_name() const { return type_name_; }
  const std::vector<WrappedPart<T>>& parts() const { return parts_; }
  std::vector<WrappedPart<T>>& parts() { return parts_; }
  // Whatever else the type needs, as it serializes itself.
  const std::string& metadata() const { return metadata_; }
  // What it shows to whoever takes it for one tensor. Empty also if not known.
  const std::vector<int64_t>& outer_sizes() const { return outer_sizes_; }

  // All plain tensors in it, in order.
  std::vector<T> Tensors() const {
    std::vector<T> tensors;
    Append(tensors);
    return tensors;
  }
  void Append(std::vector<T>& tensors) const {
    if (is_plain()) tensors.push_back(tensor_);
    for (const WrappedPart<T>& part : parts_) part.value.Append(tensors);
  }

  // The same with other tensors: `replace` is called with each, in order.
  template <typename F>
  auto Map(F&& replace) const -> Wrapped<decltype(replace(std::declval<const T&>()))> {
    using U = decltype(replace(std::declval<const T&>()));
    if (is_plain()) return Wrapped<U>(replace(tensor_));
    std::vector<WrappedPart<U>> parts;
    for (const WrappedPart<T>& part : parts_) parts.push_back({part.name, part.value.Map(replace)});
    return Wrapped<U>(type_name_, std::move(parts), metadata_, outer_sizes_);
  }

  // "plain", "cotan.quantized{data: plain, scale: plain}".
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
