// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/op_arguments.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

namespace cotan::testing {

Arg T(Sizes sizes) {
  return [sizes](at::ScalarType dtype) { return (at::rand(sizes, at::kDouble) * 2 - 1).to(dtype); };
}

Arg Positive(Sizes sizes) {
  return [sizes](at::ScalarType dtype) { return (at::rand(sizes, at::kDouble) * 0.8 + 0.1).to(dtype); };
}

Arg Transposed(Sizes sizes) {
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  return [sizes](at::ScalarType dtype) { return (at::rand(sizes, at::kDouble) * 2 - 1).to(dtype).transpose(-1, -2); };
}

Arg Regular(Sizes sizes) {
  return [sizes](at::ScalarType dtype) {
    return (at::rand(sizes, at::kDouble) * 2 - 1 + 3 * at::eye(sizes[sizes.size() - 2], sizes.back(), at::kDouble))
        .to(dtype);
  };
}

Arg PositiveDefinite(Sizes sizes) {
  return [sizes](at::ScalarType dtype) {
    const at::Tensor x = at::rand(sizes, at::kDouble) * 2 - 1;
    return (at::matmul(x, x.transpose(-1, -2)) + at::eye(sizes.back(), at::kDouble)).to(dtype);
  };
}

Arg ChannelsLast(Sizes sizes) {
  return [sizes](at::ScalarType dtype) {
    return (at::rand(sizes, at::kDouble) * 2 - 1).to(dtype).contiguous(at::MemoryFormat::ChannelsLast);
  };
}

Arg Index(Sizes sizes, int64_t limit) {
  return [sizes, limit](at::ScalarType) { return at::randint(0, limit, sizes, at::kLong); };
}

Arg Mask(Sizes sizes) {
  return [sizes](at::ScalarType) { return at::randint(0, 2, sizes, at::kLong).to(at::kBool); };
}

Arg V(c10::IValue value) {
  return [value](at::ScalarType) { return value; };
}

Arg Ints(Sizes values) { return V(c10::IValue(values)); }
Arg Bools(std::vector<bool> values) {
  c10::List<bool> list;
  for (const bool value : values) list.push_back(value);
  return V(list);
}

Arg Num(double value) { return V(at::Scalar(value)); }
Arg None() { return V(c10::IValue()); }
Arg List(std::vector<Arg> members) {
  return [members](at::ScalarType dtype) {
    c10::List<at::Tensor> list;
    for (const Arg& member : members) list.push_back(member(dtype).toTensor());
    return list;
  };
}

Arg OptionalList(std::vector<Arg> members) {
  return [members](at::ScalarType dtype) {
    c10::List<std::optional<at::Tensor>> list;
    for (const Arg& member : members) {
      const c10::IValue value = member(dtype);
      list.push_back(value.isNone() ? std::optional<at::Tensor>() : std::optional<at::Tensor>(value.toTensor()));
    }
    return list;
  };
}

Arg Longs(Sizes values) {
  return [values](at::ScalarType) { return at::tensor(values, at::kLong); };
}

Arg Dtype() {
  return [](at::ScalarType dtype) { return c10::IValue(static_cast<int64_t>(dtype)); };
}

}  // namespace cotan::testing
