// SPDX-License-Identifier: Apache-2.0

// Complex arithmetic: out of place and in place, on leaves, computed tensors and buffers.
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

at::Tensor Buf(int64_t k, at::IntArrayRef sizes, at::ScalarType type) {
  const at::ScalarType real = c10::toRealValueType(type);
  return at::complex(buf(k, sizes, real), buf(k + 4, sizes, real));
}

at::Tensor Root(int64_t k, at::IntArrayRef sizes, at::ScalarType type) {
  const at::Tensor t = Buf(k, sizes, type).requires_grad_(true);
  g_roots.push_back(t);
  return t;
}

at::Tensor Integers(const at::Tensor& x) { return (at::real(x) * 3).to(at::kLong); }

struct Op {
  std::string name;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> of;
};

// Returns the ops; their arguments are square matrices.
std::vector<Op> Ops() {
  using T = const at::Tensor&;
  return {
      {"add", [](T x, T y) { return x + y; }},
      {"add_with_alpha", [](T x, T y) { return x.add(y, 2); }},
      {"add_with_complex_alpha", [](T x, T y) { return x.add(y, c10::complex<double>(1, 2)); }},
      {"add_number", [](T x, T) { return x + 2; }},
      {"add_complex_number", [](T x, T) { return x + c10::complex<double>(1, -2); }},
      {"number_minus", [](T x, T) { return 2 - x; }},
      {"rsub", [](T x, T y) { return at::rsub(x, y); }},
      {"sub", [](T x, T y) { return x - y; }},
      {"sub_complex_number", [](T x, T) { return x - c10::complex<double>(1, -2); }},
      {"mul", [](T x, T y) { return x * y; }},
      {"mul_self", [](T x, T) { return x * x; }},
      {"mul_number", [](T x, T) { return x * 3; }},
      {"mul_complex_number", [](T x, T) { return x * c10::complex<double>(1, -2); }},
      {"mul_real", [](T x, T y) { return x * at::real(y); }},
      {"real_mul", [](T x, T y) { return at::imag(y) * x; }},
      {"div", [](T x, T y) { return x / y; }},
      {"div_number", [](T x, T) { return x / 2; }},
      {"div_complex_number", [](T x, T) { return x / c10::complex<double>(1, -2); }},
      {"div_real", [](T x, T y) { return x / at::real(y); }},
      {"real_div", [](T x, T y) { return at::real(y) / x; }},
      {"number_div", [](T x, T) { return 1 / x; }},
      {"reciprocal", [](T x, T) { return x.reciprocal(); }},
      {"neg", [](T x, T) { return -x; }},
      {"positive", [](T x, T) { return x.positive(); }},
      {"mm", [](T x, T y) { return at::mm(x, y); }},
      {"mm_of_conjugate", [](T x, T y) { return at::mm(x.conj(), y); }},
      {"mm_with_mH", [](T x, T y) { return at::mm(x, y.mH()); }},
      {"matmul", [](T x, T y) { return at::matmul(x, y); }},
      {"matmul_batched", [](T x, T y) { return at::matmul(x.unsqueeze(0), y.unsqueeze(0)); }},
      {"bmm", [](T x, T y) { return at::bmm(x.unsqueeze(0), y.unsqueeze(0)); }},
      {"mv", [](T x, T y) { return at::mv(x, y.select(0, 0)); }},
      {"dot", [](T x, T y) { return at::dot(x.select(0, 0), y.select(0, 1)); }},
      {"vdot", [](T x, T y) { return at::vdot(x.select(0, 0), y.select(0, 1)); }},
      {"addmm", [](T x, T y) { return at::addmm(x, x, y); }},
      {"outer", [](T x, T y) { return at::outer(x.select(0, 0), y.select(0, 1)); }},
      {"einsum",
       [](T x, T y) {
         return at::einsum("ij,jk->ik", {x, y});
       }},
      {"linear", [](T x, T y) { return at::linear(x, y); }},
      {"baddbmm", [](T x, T y) { return at::baddbmm(x, x.unsqueeze(0), y.unsqueeze(0)); }},
      {"abs", [](T x, T) { return x.abs(); }},
      {"abs_squared", [](T x, T) { return x.abs().square(); }},
      {"angle", [](T x, T) { return x.angle(); }},
      {"sgn", [](T x, T) { return x.sgn(); }},
      {"conj", [](T x, T) { return x.conj(); }},
      {"conj_physical", [](T x, T) { return at::conj_physical(x); }},
      {"resolve_conj", [](T x, T) { return x.conj().resolve_conj(); }},
      {"conj_mul", [](T x, T y) { return x.conj() * y; }},
      {"norm_by_conj", [](T x, T) { return at::real(x * x.conj()); }},
      {"imag_of_conj_times_two", [](T x, T) { return at::imag(x.conj()) * 2; }},
      {"imag_of_conj_squared", [](T x, T) { return at::imag(x.conj()).square(); }},
      {"imag_of_conj_part", [](T x, T) { return at::imag(x.conj().select(0, 1)) + 1; }},
      {"part_of_imag_of_conj", [](T x, T) { return at::imag(x.conj()).select(0, 1); }},
      {"sum_of_imag_of_conj", [](T x, T) { return at::imag(x.conj()).sum(); }},
      {"real_of_conj_times_two", [](T x, T) { return at::real(x.conj()) * 2; }},
      {"real", [](T x, T) { return at::real(x); }},
      {"imag", [](T x, T) { return at::imag(x); }},
      {"imag_plus_real", [](T x, T) { return at::imag(x) + at::real(x); }},
      {"imag_of_product", [](T x, T y) { return at::imag(x * y); }},
      {"view_as_real", [](T x, T) { return at::view_as_real(x); }},
      {"view_as_real_times", [](T x, T) { return at::view_as_real(x) * 2; }},
      {"view_as_real_of_result", [](T x, T) { return at::view_as_real(x * 2); }},
      {"bits_of_result", [](T x, T) { return (x * 2).view(c10::toRealValueType(x.scalar_type())); }},
      {"bits_of_parts", [](T x, T) { return Flat(at::view_as_real(x) * 2).view(x.scalar_type()); }},
      {"view_as_complex", [](T x, T) { return at::view_as_complex(at::view_as_real(x) * 2); }},
      {"view_as_complex_view", [](T x, T) { return at::view_as_complex(at::view_as_real(x)); }},
      {"complex", [](T x, T y) { return at::complex(at::real(x), at::imag(y)); }},
      {"polar", [](T x, T y) { return at::polar(at::real(x), at::imag(y)); }},
      {"sum", [](T x, T) { return x.sum(); }},
      {"sum_dim", [](T x, T) { return x.sum(0); }},
      {"sum_keep", [](T x, T) { return x.sum({-1}, true); }},
      {"mean", [](T x, T) { return x.mean(); }},
      {"mean_dim", [](T x, T) { return x.mean(1); }},
      {"cumsum", [](T x, T) { return x.cumsum(0); }},
      {"norm", [](T x, T) { return x.norm(); }},
      {"linalg_vector_norm", [](T x, T) { return at::linalg_vector_norm(x, 2); }},
      {"exp", [](T x, T) { return x.exp(); }},
      {"log", [](T x, T) { return x.log(); }},
      {"sqrt", [](T x, T) { return x.sqrt(); }},
      {"rsqrt", [](T x, T) { return x.rsqrt(); }},
      {"square", [](T x, T) { return x.square(); }},
      {"pow_2", [](T x, T) { return x.pow(2); }},
      {"pow_3", [](T x, T) { return x.pow(3); }},
      {"pow_half", [](T x, T) { return x.pow(0.5); }},
      {"pow_tensor", [](T x, T y) { return at::pow(x, y); }},
      {"sin", [](T x, T) { return x.sin(); }},
      {"cos", [](T x, T) { return x.cos(); }},
      {"tan", [](T x, T) { return x.tan(); }},
      {"sinh", [](T x, T) { return x.sinh(); }},
      {"cosh", [](T x, T) { return x.cosh(); }},
      {"tanh", [](T x, T) { return x.tanh(); }},
      {"sigmoid", [](T x, T) { return x.sigmoid(); }},
      {"silu", [](T x, T) { return at::silu(x); }},
      {"log1p", [](T x, T) { return x.log1p(); }},
      {"expm1", [](T x, T) { return x.expm1(); }},
      {"t", [](T x, T) { return x.t(); }},
      {"mH", [](T x, T) { return x.mH(); }},
      {"mH_times", [](T x, T y) { return x.mH() * y; }},
      {"diagonal", [](T x, T) { return x.diagonal(); }},
      {"trace", [](T x, T) { return x.trace(); }},
      {"tril", [](T x, T) { return x.tril(); }},
      {"diag_embed", [](T x, T) { return at::diag_embed(x); }},
      {"cat",
       [](T x, T y) {
         return at::cat({x, y});
       }},
      {"stack",
       [](T x, T y) {
         return at::stack({x, y}, -1);
       }},
      {"where", [](T x, T y) { return at::where(at::real(x) > 0, x, y); }},
      {"masked_fill", [](T x, T) { return x.masked_fill(at::real(x) > 0, 2); }},
      {"parts_summed", [](T x, T) { return at::view_as_real(x).sum(); }},
      {"parts_summed_by_dimension", [](T x, T) { return at::view_as_real(x).mean(-1); }},
      {"parts_turned", [](T x, T) { return at::view_as_real(x).transpose(0, 2) * 2; }},
      {"complex_of_turned_parts",
       [](T x, T) { return at::view_as_complex(at::view_as_real(x).transpose(0, 1).flip(2).contiguous()); }},
      {"where_of_integers", [](T x, T y) { return at::where(at::real(y) > 0, Integers(y), x); }},
      {"where_or_integers", [](T x, T y) { return at::where(at::real(y) > 0, x, Integers(y)); }},
      {"where_of_bools", [](T x, T y) { return at::where(at::real(y) > 0, at::imag(y) > 0, x); }},
      {"masked_fill_integer",
       [](T x, T y) { return x.masked_fill(at::real(x) > 0, Integers(y).select(0, 0).select(0, 0)); }},
      {"index_fill_integer",
       [](T x, T y) { return x.index_fill(0, at::arange(2), Integers(y).select(0, 0).select(0, 1)); }},
      {"slice_scatter_integers", [](T x, T y) { return x.slice_scatter(Integers(y).slice(1, 0, 2), 1, 1, 3); }},
      {"select_scatter_integers", [](T x, T y) { return x.select_scatter(Integers(y).select(0, 0), 0, 1); }},
      {"diagonal_scatter_integers", [](T x, T y) { return x.diagonal_scatter(Integers(y).diagonal()); }},
      {"cat_integers",
       [](T x, T y) {
         return at::cat({Integers(y), x, at::imag(y) > 0}, 1);
       }},
      {"add_integers", [](T x, T y) { return x + Integers(y); }},
      {"mul_bools", [](T x, T y) { return (at::imag(y) > 0) * x; }},
      {"div_by_integers", [](T x, T y) { return x / (Integers(y) * 2 + 1); }},
      {"to_bool", [](T x, T) { return at::complex(at::zeros_like(at::real(x)), at::imag(x)).to(at::kBool); }},
      {"written_into_bools", [](T x, T y) { return (at::real(y) > 0).copy_(at::complex(at::imag(x), at::real(x))); }},
      {"written_into_integers", [](T x, T y) { return Integers(y).copy_(x * 3); }},
      {"to_complex_of_integers", [](T x, T y) { return Integers(y).to(x.scalar_type()); }},
      {"index_select",
       [](T x, T) {
         return x.index_select(0, ints({1, 0, 1}));
       }},
      {"index",
       [](T x, T) {
         return x.index({ints({1, 0})});
       }},
      {"gather",
       [](T x, T) {
         return x.gather(0, ints({1, 0, 1}).view({1, 3}));
       }},
      {"flip", [](T x, T) { return x.flip({0}); }},
      {"roll", [](T x, T) { return x.roll(1, 0); }},
      {"repeat",
       [](T x, T) {
         return x.repeat({2, 1});
       }},
      {"expand",
       [](T x, T) {
         return x.unsqueeze(0).expand({2, -1, -1});
       }},
      {"unfold", [](T x, T) { return x.unfold(0, 2, 1); }},
      {"split", [](T x, T) { return x.split(2, 1)[1] * 2; }},
      {"unbind", [](T x, T) { return x.unbind(1)[1] * 2; }},
      {"reshape", [](T x, T) { return x.t().reshape(-1); }},
      {"flatten", [](T x, T) { return x.flatten(); }},
      {"squeeze", [](T x, T) { return x.unsqueeze(0).squeeze(0) * 2; }},
      {"squeeze_all", [](T x, T) { return x.unsqueeze(0).squeeze() * 2; }},
      {"clone", [](T x, T) { return x.clone(); }},
      {"contiguous", [](T x, T) { return x.t().contiguous(); }},
      {"detach", [](T x, T) { return x.detach() * x; }},
      {"eq", [](T x, T y) { return at::eq(x, y); }},
      {"ne", [](T x, T y) { return at::ne(x, y); }},
      {"isfinite", [](T x, T) { return at::isfinite(x); }},
      {"isnan", [](T x, T) { return at::isnan(x); }},
      {"any", [](T x, T) { return x.any(); }},
      {"zeros_like", [](T x, T) { return at::zeros_like(x) + x; }},
      {"ones_like", [](T x, T) { return at::ones_like(x) * x; }},
      {"full_like", [](T x, T) { return at::full_like(x, 2) * x; }},
      {"new_full",
       [](T x, T) {
         return x.new_full({3, 3}, c10::complex<double>(1, 2)) * x;
       }},
      {"eye", [](T x, T) { return at::eye(3, x.options().requires_grad(false)) * x; }},
      {"constant",
       [](T x, T) { return at::scalar_tensor(c10::complex<double>(0, 1), x.options().requires_grad(false)) * x; }},
      {"full", [](T x, T) { return at::full({3}, c10::complex<double>(0, 1), x.options().requires_grad(false)) * x; }},
      {"to_complex128", [](T x, T) { return x.to(at::kComplexDouble); }},
      {"to_complex64", [](T x, T) { return x.to(at::kComplexFloat) * 2; }},
      {"real_to_complex", [](T x, T y) { return at::real(x).to(y.scalar_type()) * y; }},
      {"mixed_types", [](T x, T y) { return x.to(at::kComplexFloat) * y.to(at::kComplexDouble); }},
      {"addcmul", [](T x, T y) { return at::addcmul(x, x, y, 2); }},
      {"addcdiv", [](T x, T y) { return at::addcdiv(x, x, y, 2); }},
      {"lerp", [](T x, T y) { return at::lerp(x, y, 0.25); }},
      {"isreal", [](T x, T) { return at::isreal(x); }},
      {"mse", [](T x, T y) { return (x - y).abs().pow(2).mean(); }},
      {"softplus_of_abs", [](T x, T) { return at::softplus(x.abs()); }},
      {"fft", [](T x, T) { return at::fft_fft(x); }},
      {"ifft", [](T x, T) { return at::fft_ifft(x); }},
      {"fft2", [](T x, T) { return at::fft_fft2(x); }},
      {"rfft", [](T x, T) { return at::fft_rfft(at::real(x)); }},
      {"irfft", [](T x, T) { return at::fft_irfft(x); }},
      {"as_strided",
       [](T x, T) {
         return x.as_strided({2, 2}, {3, 1}, 1);
       }},
      {"neg_view", [](T x, T) { return at::_neg_view(x) * 2; }},
  };
}

struct Write {
  std::string name;
  std::function<void(at::Tensor&, const at::Tensor&)> to;
};

std::vector<Write> Writes() {
  using W = at::Tensor&;
  using T = const at::Tensor&;
  return {
      {"add", [](W x, T y) { x.add_(y); }},
      {"add_with_alpha", [](W x, T y) { x.add_(y, 2); }},
      {"add_number", [](W x, T) { x.add_(2); }},
      {"add_complex_number", [](W x, T) { x.add_(c10::complex<double>(1, 2)); }},
      {"add_real", [](W x, T y) { x.add_(at::real(y)); }},
      {"sub", [](W x, T y) { x.sub_(y); }},
      {"mul", [](W x, T y) { x.mul_(y); }},
      {"mul_number", [](W x, T) { x.mul_(2); }},
      {"mul_complex_number", [](W x, T) { x.mul_(c10::complex<double>(1, 2)); }},
      {"mul_self", [](W x, T) { x.mul_(x); }},
      {"mul_real", [](W x, T y) { x.mul_(at::real(y)); }},
      {"div", [](W x, T y) { x.div_(y); }},
      {"div_number", [](W x, T) { x.div_(2); }},
      {"neg", [](W x, T) { x.neg_(); }},
      {"reciprocal", [](W x, T) { x.reciprocal_(); }},
      {"conj_physical", [](W x, T) { x.conj_physical_(); }},
      {"sgn", [](W x, T) { x.sgn_(); }},
      {"abs", [](W x, T) { x.abs_(); }},
      {"exp", [](W x, T) { x.exp_(); }},
      {"log", [](W x, T) { x.log_(); }},
      {"sqrt", [](W x, T) { x.sqrt_(); }},
      {"square", [](W x, T) { x.square_(); }},
      {"pow", [](W x, T) { x.pow_(2); }},
      {"sin", [](W x, T) { x.sin_(); }},
      {"tanh", [](W x, T) { x.tanh_(); }},
      {"copy", [](W x, T y) { x.copy_(y); }},
      {"copy_conjugate", [](W x, T y) { x.copy_(y.conj()); }},
      {"copy_real", [](W x, T y) { x.copy_(at::real(y)); }},
      {"zero", [](W x, T) { x.zero_(); }},
      {"fill", [](W x, T) { x.fill_(2); }},
      {"fill_complex", [](W x, T) { x.fill_(c10::complex<double>(1, 2)); }},
      {"fill_with_tensor", [](W x, T y) { x.fill_(y.select(0, 0).select(0, 0)); }},
      {"real_mul", [](W x, T) { at::real(x).mul_(2); }},
      {"imag_mul", [](W x, T) { at::imag(x).mul_(2); }},
      {"imag_copy", [](W x, T y) { at::imag(x).copy_(at::real(y)); }},
      {"imag_of_conj_mul", [](W x, T) { at::imag(x.conj()).mul_(2); }},
      {"imag_of_conj_add", [](W x, T y) { at::imag(x.conj()).add_(at::real(y)); }},
      {"real_of_conj_add", [](W x, T y) { at::real(x.conj()).add_(at::real(y)); }},
      {"conj_add", [](W x, T y) { x.conj().add_(y); }},
      {"conj_of_row_add", [](W x, T y) { x.select(0, 1).conj().add_(y.select(0, 0)); }},
      {"view_as_real_mul", [](W x, T) { at::view_as_real(x).mul_(2); }},
      {"bits_mul", [](W x, T) { x.view(c10::toRealValueType(x.scalar_type())).mul_(2); }},
      {"bits_of_row_sin", [](W x, T) { x.select(0, 1).view(c10::toRealValueType(x.scalar_type())).sin_(); }},
      {"view_as_real_part", [](W x, T) { at::view_as_real(x).select(-1, 1).add_(2); }},
      {"row_mul", [](W x, T y) { x.select(0, 1).mul_(y.select(0, 0)); }},
      {"rows_add", [](W x, T y) { x.slice(0, 0, 2).add_(y.slice(0, 1, 3)); }},
      {"column_copy", [](W x, T y) { x.select(1, 1).copy_(y.select(0, 0)); }},
      {"diagonal_mul", [](W x, T) { x.diagonal().mul_(2); }},
      {"transpose_add", [](W x, T y) { x.t().add_(y); }},
      {"mH_add", [](W x, T y) { x.mH().add_(y); }},
      {"flat_mul", [](W x, T) { x.view(-1).slice(0, 2, 5).mul_(2); }},
      {"as_strided_mul",
       [](W x, T) {
         x.as_strided({2, 2}, {3, 1}, 1).mul_(2);
       }},
      {"masked_fill", [](W x, T y) { x.masked_fill_(at::real(y) > 0, 2); }},
      {"index_put",
       [](W x, T y) {
         x.index_put_({ints({0, 2})}, y.slice(0, 0, 2));
       }},
      {"index_add",
       [](W x, T y) {
         x.index_add_(0, ints({0, 2}), y.slice(0, 0, 2));
       }},
      {"addcmul", [](W x, T y) { x.addcmul_(y, y); }},
      {"addmm", [](W x, T y) { x.addmm_(y, y); }},
      {"lerp", [](W x, T y) { x.lerp_(y, 0.5); }},
      {"t", [](W x, T) { x.t_(); }},
      {"t_and_mul",
       [](W x, T) {
         x.t_();
         x.mul_(2);
       }},
      {"detached_mul", [](W x, T) { x.detach().mul_(2); }},
  };
}

}  // namespace

std::vector<ConfCase> ComplexCases() {
  static auto* const names = new std::deque<std::string>();
  std::vector<ConfCase> cases;
  const auto add = [&](std::string name, std::function<Tensors()> inputs, std::function<Tensors(Tensors)> f) {
    names->push_back(std::move(name));
    cases.push_back(Case(names->back().c_str(), std::move(inputs), std::move(f)));
  };
  for (const at::ScalarType type : {at::kComplexFloat, at::kComplexDouble}) {
    const std::string of = type == at::kComplexFloat ? "_c64" : "_c128";
    for (const Op& op : Ops()) {
      const auto f = [f = op.of](Tensors in) -> Tensors { return {f(in[0], in[1])}; };
      add(
          op.name + of + "_of_leaves",
          [type] {
            return Tensors{Root(0, {3, 3}, type), Root(1, {3, 3}, type)};
          },
          f);
      add(
          op.name + of + "_of_buffers",
          [type] {
            return Tensors{Buf(0, {3, 3}, type), Buf(1, {3, 3}, type)};
          },
          f);
    }
    for (const Write& write : Writes()) {
      const auto f = [to = write.to](Tensors in) -> Tensors {
        to(in[0], in[1]);
        return {in[0] * in[0], in[0].select(0, 1)};
      };
      add(
          write.name + of + "_in_place",
          [type] {
            return Tensors{Root(0, {3, 3}, type).clone(), Root(1, {3, 3}, type)};
          },
          f);
      add(
          write.name + of + "_in_place_of_a_buffer",
          [type] {
            return Tensors{Buf(0, {3, 3}, type), Buf(1, {3, 3}, type)};
          },
          f);
      add(
          write.name + of + "_in_place_of_a_result",
          [type] {
            return Tensors{Root(0, {3, 3}, type), Root(1, {3, 3}, type)};
          },
          [to = write.to](Tensors in) -> Tensors {
            at::Tensor y = in[0] * 2;
            to(y, in[1]);
            return {y, y.sum()};
          });
      if (write.name == "as_strided_mul") continue;  // its memory has gaps
      add(
          write.name + of + "_in_place_of_a_strided_input",
          [type] {
            return Tensors{Root(0, {4, 3, 3}, type).clone().select(0, 1).t(), Root(1, {3, 3}, type)};
          },
          f);
    }
  }
  return cases;
}

}  // namespace cotan::conformance
