// SPDX-License-Identifier: Apache-2.0

// In-place ops with number and tensor arguments, for each dtype.
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

struct Write {
  std::string name;
  std::function<void(at::Tensor&, const at::Tensor&)> to;  // writes to the first; the second has its dtype
};

std::vector<Write> Writes() {
  using W = at::Tensor&;
  using T = const at::Tensor&;
  return {
      {"add", [](W x, T y) { x.add_(y); }},
      {"add_number", [](W x, T) { x.add_(2); }},
      {"add_float_number", [](W x, T) { x.add_(1.5); }},
      {"add_with_alpha", [](W x, T y) { x.add_(y, 2); }},
      {"sub", [](W x, T y) { x.sub_(y); }},
      {"sub_number", [](W x, T) { x.sub_(2); }},
      {"mul", [](W x, T y) { x.mul_(y); }},
      {"mul_number", [](W x, T) { x.mul_(3); }},
      {"mul_float_number", [](W x, T) { x.mul_(0.5); }},
      {"mul_with_itself", [](W x, T) { x.mul_(x); }},
      {"div", [](W x, T y) { x.div_(y); }},
      {"div_number", [](W x, T) { x.div_(2); }},
      {"true_divide", [](W x, T y) { x.true_divide_(y); }},
      {"true_divide_number", [](W x, T) { x.true_divide_(2); }},
      {"div_floor", [](W x, T y) { x.div_(y, "floor"); }},
      {"div_floor_number", [](W x, T) { x.div_(2, "floor"); }},
      {"div_trunc", [](W x, T y) { x.div_(y, "trunc"); }},
      {"div_trunc_number", [](W x, T) { x.div_(2, "trunc"); }},
      {"floor_divide", [](W x, T y) { x.floor_divide_(y.abs() + 1); }},
      {"floor_divide_number", [](W x, T) { x.floor_divide_(2); }},
      {"floor_divide_negative_number", [](W x, T) { x.floor_divide_(-3); }},
      {"floor_divide_float_number", [](W x, T) { x.floor_divide_(0.75); }},
      {"remainder", [](W x, T y) { x.remainder_(y.abs() + 1); }},
      {"remainder_number", [](W x, T) { x.remainder_(2); }},
      {"remainder_negative_number", [](W x, T) { x.remainder_(-3); }},
      {"fmod", [](W x, T y) { x.fmod_(y.abs() + 1); }},
      {"fmod_number", [](W x, T) { x.fmod_(2); }},
      {"floor_divide_scalar_tensor", [](W x, T y) { x.floor_divide_(y.select(0, 0).abs() + 1); }},
      {"floor_divide_view", [](W x, T) { x.slice(0, 0, 2).floor_divide_(2); }},
      {"remainder_view", [](W x, T) { x.slice(0, 1, 3).remainder_(2); }},
      {"pow", [](W x, T) { x.pow_(2); }},
      {"square", [](W x, T) { x.square_(); }},
      {"neg", [](W x, T) { x.neg_(); }},
      {"abs", [](W x, T) { x.abs_(); }},
      {"sign", [](W x, T) { x.sign_(); }},
      {"sin", [](W x, T) { x.sin_(); }},
      {"exp", [](W x, T) { x.exp_(); }},
      {"sqrt_of_abs", [](W x, T) { x.abs_().sqrt_(); }},
      {"tanh", [](W x, T) { x.tanh_(); }},
      {"sigmoid", [](W x, T) { x.sigmoid_(); }},
      {"relu", [](W x, T) { x.relu_(); }},
      {"floor", [](W x, T) { x.floor_(); }},
      {"round", [](W x, T) { x.round_(); }},
      {"trunc", [](W x, T) { x.trunc_(); }},
      {"clamp", [](W x, T) { x.clamp_(-1, 1); }},
      {"clamp_min", [](W x, T) { x.clamp_min_(0); }},
      {"clamp_by_tensors", [](W x, T y) { x.clamp_(y, y + y); }},
      {"zero", [](W x, T) { x.zero_(); }},
      {"fill", [](W x, T) { x.fill_(1); }},
      {"fill_with_tensor", [](W x, T y) { x.fill_(y.select(0, 1)); }},
      {"copy", [](W x, T y) { x.copy_(y); }},
      {"copy_from_float", [](W x, T y) { x.copy_(y.to(at::kFloat)); }},
      {"copy_from_bool", [](W x, T y) { x.copy_(y.to(at::kBool)); }},
      {"eq", [](W x, T y) { x.eq_(y); }},
      {"lt_number", [](W x, T) { x.lt_(1); }},
      {"ge", [](W x, T y) { x.ge_(y); }},
      {"logical_and", [](W x, T y) { x.logical_and_(y); }},
      {"logical_not", [](W x, T) { x.logical_not_(); }},
      {"bitwise_and", [](W x, T y) { x.bitwise_and_(y); }},
      {"bitwise_or_number", [](W x, T) { x.bitwise_or_(1); }},
      {"bitwise_xor", [](W x, T y) { x.bitwise_xor_(y); }},
      {"bitwise_not", [](W x, T) { x.bitwise_not_(); }},
      {"bitwise_left_shift", [](W x, T) { x.bitwise_left_shift_(1); }},
      {"masked_fill", [](W x, T y) { x.masked_fill_(y > 0, 1); }},
      {"masked_scatter", [](W x, T y) { x.masked_scatter_(y > 0, y); }},
      {"index_fill",
       [](W x, T) {
         x.index_fill_(0, ints({0, 2}), 1);
       }},
      {"index_add",
       [](W x, T y) {
         x.index_add_(0, ints({0, 2}), y.slice(0, 0, 2));
       }},
      {"index_copy",
       [](W x, T y) {
         x.index_copy_(0, ints({0, 2}), y.slice(0, 0, 2));
       }},
      {"index_put",
       [](W x, T y) {
         x.index_put_({ints({0, 2})}, y.slice(0, 0, 2));
       }},
      {"index_put_accumulated",
       [](W x, T y) {
         x.index_put_({ints({0, 0})}, y.slice(0, 0, 2), true);
       }},
      {"scatter",
       [](W x, T y) {
         x.scatter_(0, ints({2, 0, 1}), y);
       }},
      {"scatter_number",
       [](W x, T) {
         x.scatter_(0, ints({2, 0}), 1);
       }},
      {"scatter_add",
       [](W x, T y) {
         x.scatter_add_(0, ints({2, 0, 2}), y);
       }},
      {"addcmul", [](W x, T y) { x.addcmul_(y, y); }},
      {"lerp", [](W x, T y) { x.lerp_(y, 0.5); }},
      {"cumsum", [](W x, T) { x.cumsum_(0); }},
      {"atan2", [](W x, T y) { x.atan2_(y); }},
      {"maximum_copied", [](W x, T y) { x.copy_(at::maximum(x, y)); }},
      {"sum_added", [](W x, T) { x.add_(x.sum().to(x.scalar_type())); }},
      {"swapped_parts", [](W x, T) { x.slice(0, 0, 2).copy_(x.slice(0, 2, 4).clone()); }},
      {"every_other_zeroed", [](W x, T) { x.slice(0, 0, 4, 2).zero_(); }},
  };
}

}  // namespace

std::vector<ConfCase> InPlaceCases() {
  static auto* const names = new std::deque<std::string>();
  std::vector<ConfCase> cases;
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                                    at::kChar, at::kByte, at::kBool}) {
    for (const Write& write : Writes()) {
      const auto add = [&](const char* of, bool requires_grad) {
        names->push_back(absl::StrCat(write.name, "_of_", c10::toString(type), of));
        const auto inputs = [type, requires_grad] {
          if (requires_grad) return Tensors{leaf(0, {4}, type).clone(), leaf(3, {4}, type)};
          return Tensors{buf(0, {4}, type), buf(3, {4}, type)};
        };
        cases.push_back(Case(names->back().c_str(), inputs, [to = write.to](Tensors in) -> Tensors {
          to(in[0], in[1]);
          return {in[0].clone(), in[0].slice(0, 1, 3)};
        }));
      };
      // Eager does not support cumsum of bool.
      if (type == at::kBool && write.name == "cumsum") continue;
      add("_buffer", false);
      // Their derivatives use the result, which eager rounds to the half-precision dtype.
      const bool is_half = type == at::kHalf || type == at::kBFloat16;
      if (is_half && (write.name == "tanh" || write.name == "sigmoid")) continue;
      if (at::isFloatingType(type)) add("_computed", true);
    }
  }
  return cases;
}

}  // namespace cotan::conformance
