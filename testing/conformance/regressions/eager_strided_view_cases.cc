// SPDX-License-Identifier: Apache-2.0

// Writes through each kind of view, of tensors with each kind of layout.
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

struct Place {
  std::string name;
  std::function<at::Tensor()> make;
};

struct View {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> of;
};

std::vector<Place> Places() {
  return {
      {"dense",
       [] {
         return leaf(0, {2, 4, 4}).clone();
       }},
      {"transposed",
       [] {
         return leaf(0, {4, 4, 2}).clone().transpose(0, 2);
       }},
      {"offset",
       [] {
         return leaf(0, {4, 4, 4}).clone().slice(0, 1, 3);
       }},
      {"every_other",
       [] {
         return leaf(0, {2, 4, 8}).clone().slice(2, 1, 8, 2);
       }},
      {"channels_last",
       [] {
         return leaf(0, {2, 2, 4, 4}).clone().contiguous(at::MemoryFormat::ChannelsLast);
       }},
      {"empty",
       [] {
         return leaf(0, {2, 4, 0}).clone();
       }},
      {"scalar", [] { return leaf(0, {}).clone(); }},
      {"buffer",
       [] {
         return buf(0, {2, 4, 4});
       }},
      {"leaf",
       [] {
         return leaf(0, {2, 4, 4});
       }},
  };
}

at::Tensor AsStrided(const at::Tensor& x, int64_t skip) {
  return x.as_strided({2, 2}, {1, 3}, x.storage_offset() + skip);
}

std::vector<View> Views() {
  using T = const at::Tensor&;
  return {
      {"slice", [](T x) { return x.slice(1, 1, 3); }},
      {"slice_by_two", [](T x) { return x.slice(1, 0, 4, 2); }},
      {"nothing", [](T x) { return x.slice(1, 2, 2); }},
      {"select", [](T x) { return x.select(1, 2); }},
      {"diagonal", [](T x) { return x.diagonal(0, 1, 2); }},
      {"lower_diagonal", [](T x) { return x.diagonal(-1, -2, -1); }},
      {"narrow", [](T x) { return x.narrow(0, 1, 1); }},
      {"unbind", [](T x) { return x.unbind(1).at(1); }},
      {"split", [](T x) { return x.split(3, 1).at(1); }},
      {"split_with_sizes",
       [](T x) {
         return x.split_with_sizes({1, 3}, 1).at(1);
       }},
      {"chunk", [](T x) { return x.chunk(2, 1)[0]; }},
      {"tensor_split", [](T x) { return x.tensor_split(3, 1)[0]; }},
      {"hsplit", [](T x) { return x.hsplit(2).at(1); }},
      {"transpose", [](T x) { return x.transpose(0, -1); }},
      {"permute",
       [](T x) {
         return x.dim() == 4 ? x.permute({1, 3, 0, 2}) : x.permute({1, 2, 0});
       }},
      {"expand",
       [](T x) {
         return x.unsqueeze(0).expand({3, -1, -1, -1});
       }},
      {"squeeze", [](T x) { return x.squeeze(); }},
      {"squeeze_dim", [](T x) { return x.unsqueeze(1).squeeze(1); }},
      {"squeeze_dims",
       [](T x) {
         return x.unsqueeze(1).squeeze({0, 1});
       }},
      {"unsqueeze", [](T x) { return x.unsqueeze(-1); }},
      {"view",
       [](T x) {
         return x.view({8, -1});
       }},
      {"view_flat", [](T x) { return x.view(-1); }},
      {"view_as",
       [](T x) {
         return x.view_as(at::empty({4, 2, 4}));
       }},
      {"reshape",
       [](T x) {
         return x.reshape({4, -1});
       }},
      {"flatten", [](T x) { return x.flatten(); }},
      {"flatten_two", [](T x) { return x.flatten(-2); }},
      {"unflatten",
       [](T x) {
         return x.unflatten(1, {2, -1});
       }},
      {"ravel", [](T x) { return x.ravel(); }},
      {"movedim", [](T x) { return x.movedim(0, 2); }},
      {"moveaxis",
       [](T x) {
         return x.moveaxis({0, 1}, {1, 0});
       }},
      {"swapaxes", [](T x) { return x.swapaxes(0, 1); }},
      {"swapdims", [](T x) { return x.swapdims(0, 1); }},
      {"t_of_a_part", [](T x) { return x.select(0, 0).t(); }},
      {"numpy_T", [](T x) { return x.select(0, 0).numpy_T(); }},
      {"mT", [](T x) { return x.mT(); }},
      {"mH", [](T x) { return x.mH(); }},
      {"matrix_H", [](T x) { return x.select(0, 1).matrix_H(); }},
      {"adjoint", [](T x) { return x.adjoint(); }},
      {"real", [](T x) { return at::real(x); }},
      {"conj", [](T x) { return x.conj(); }},
      {"unfold", [](T x) { return x.unfold(1, 2, 2); }},
      {"unfold_apart", [](T x) { return x.unfold(1, 1, 3); }},
      {"as_strided", [](T x) { return AsStrided(x, 0); }},
      {"as_strided_later", [](T x) { return AsStrided(x, 1); }},
      {"as_strided_of_a_part", [](T x) { return AsStrided(x.select(0, 1), 1); }},
      {"part_of_as_strided", [](T x) { return AsStrided(x, 1).select(0, 1); }},
      {"as_strided_of_a_transpose", [](T x) { return AsStrided(x.transpose(0, 1), 1); }},
      {"as_strided_twice", [](T x) { return AsStrided(x, 1).as_strided({2}, {2}, x.storage_offset() + 2); }},
      {"lift", [](T x) { return x.alias(); }},
      {"detach", [](T x) { return x.detach(); }},
      {"detached_part", [](T x) { return x.select(0, 1).detach(); }},
      {"part_of_detached", [](T x) { return x.detach().select(0, 1); }},
      {"view_dtype_same", [](T x) { return x.view(at::kFloat); }},
      {"contiguous", [](T x) { return x.contiguous(); }},
      {"to_nothing", [](T x) { return x.to(at::kFloat); }},
      {"resolve_conj", [](T x) { return x.resolve_conj(); }},
      {"positive", [](T x) { return x.positive(); }},
      {"atleast_3d", [](T x) { return at::atleast_3d(x); }},
      {"broadcast_to", [](T x) { return x.broadcast_to(x.sizes()); }},
      {"expand_as", [](T x) { return x.expand_as(x); }},
      {"type_as", [](T x) { return x.type_as(x); }},
      {"index_of_number",
       [](T x) {
         return x.index({at::indexing::Slice(), 1});
       }},
      {"index_of_slices",
       [](T x) {
         return x.index({"...", at::indexing::Slice(1, 3)});
       }},
  };
}

// Returns whether the view accesses memory outside the elements of the tensor that it is a view of.
bool LooksIntoGaps(const Place& place, const View& view) {
  if (!absl::StrContains(view.name, "as_strided")) return false;
  const bool is_part = view.name == "as_strided_of_a_part";
  return place.name == "every_other" || (is_part && (place.name == "transposed" || place.name == "offset"));
}

}  // namespace

std::vector<ConfCase> StridedViewCases() {
  static auto* const names = new std::deque<std::string>();
  std::vector<ConfCase> cases;
  const auto add = [&](const Place& place, const View& view, const char* what, std::function<Tensors(Tensors)> f) {
    names->push_back(absl::StrCat(view.name, "_of_", place.name, "_", what));
    cases.push_back(Case(
        names->back().c_str(), [make = place.make] { return Tensors{make()}; }, std::move(f)));
  };
  for (const Place& place : Places()) {
    for (const View& view : Views()) {
      if (LooksIntoGaps(place, view)) continue;
      add(place, view, "written", [of = view.of](Tensors in) -> Tensors {
        at::Tensor v = of(in[0]);
        v.mul_(2);
        return {v, in[0] * in[0]};
      });
      add(place, view, "of_a_result_written", [of = view.of](Tensors in) -> Tensors {
        at::Tensor y = in[0] * 2;
        at::Tensor v = of(y);
        v.copy_(v.sin());
        v.add_(1);
        return {y, v};
      });
      add(place, view, "made_before_its_source_is_written", [of = view.of](Tensors in) -> Tensors {
        const at::Tensor v = of(in[0]);
        in[0].mul_(3);
        return {v * 2, v};
      });
    }
  }
  return cases;
}

}  // namespace cotan::conformance
