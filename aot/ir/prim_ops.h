// SPDX-License-Identifier: Apache-2.0

// The registry of the dialect prim: the names, signatures and properties of its ops.
//
// COTAN_PRIM_OPS is the only list. The enum PrimOp, the table behind PrimInfo(), the verifier's
// checks of prim nodes (prim_verifier.h) and the access to their arguments by name (prim_node.h)
// derive from it. Production code has no other spelling of an op's name.
#ifndef COTAN_AOT_IR_PRIM_OPS_H_
#define COTAN_AOT_IR_PRIM_OPS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan::aot {

// Parameters that several ops share.
#define COTAN_CONVOLUTION_CONFIG \
  "int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups"
#define COTAN_POOL_CONFIG                                                                               \
  "int[] kernel, int[] stride, int[] padding, int[] dilation, bool ceil_mode, bool count_include_pad, " \
  "int divisor_override"

// Calls PRIM(enumerator of PrimOp, name, PrimKind, PrimCost, PrimResult, signature) for each op.
//
// A signature is written as PyTorch writes schemas: tensors first, then attributes, then results.
//   Tensor, Tensor?   an operand; `?`: it may be None
//   Tensor[]          an argument that is a list of operands
//   Tensor...         the other operands, one argument each
//   int, int[]        integers that do not depend on sizes; int?: it may be None
//   SymInt, SymInt[]  size expressions
//   float, bool, str
// A result `Tensor?` may be missing; the results after it then move forward.
// clang-format off
#define COTAN_PRIM_OPS(PRIM)                                                                                          \
  PRIM(kView, "prim.view", kView, kFree, kShared,                                                                     \
       "(Tensor x, SymInt[] sizes) -> Tensor")                                                                        \
  PRIM(kPermute, "prim.permute", kView, kFree, kShared,                                                               \
       "(Tensor x, int[] dims) -> Tensor")                                                                            \
  PRIM(kExpand, "prim.expand", kView, kFree, kShared,                                                                 \
       "(Tensor x, SymInt[] sizes) -> Tensor")                                                                        \
  PRIM(kSlice, "prim.slice", kView, kFree, kShared,                                                                   \
       "(Tensor x, int dim, SymInt start, SymInt end, SymInt step) -> Tensor")                                        \
  PRIM(kSelect, "prim.select", kView, kFree, kShared,                                                                 \
       "(Tensor x, int dim, SymInt index) -> Tensor")                                                                 \
  PRIM(kAsStrided, "prim.as_strided", kView, kFree, kShared,                                                          \
       "(Tensor x, SymInt[] sizes, SymInt[] strides, SymInt offset) -> Tensor")                                       \
  PRIM(kDiagonal, "prim.diagonal", kView, kFree, kShared,                                                             \
       "(Tensor x, int offset, int dim1, int dim2) -> Tensor")                                                        \
  PRIM(kUnfold, "prim.unfold", kView, kFree, kShared,                                                                 \
       "(Tensor x, int dim, int size, int step) -> Tensor")                                                           \
  PRIM(kViewAsReal, "prim.view_as_real", kView, kFree, kShared,                                                       \
       "(Tensor x) -> Tensor")                                                                                        \
  PRIM(kViewAsComplex, "prim.view_as_complex", kView, kFree, kShared,                                                 \
       "(Tensor x) -> Tensor")                                                                                        \
  /* The operand's bytes as elements of another dtype. */                                                              \
  PRIM(kViewDType, "prim.view_dtype", kView, kFree, kShared,                                                          \
       "(Tensor x, int dtype) -> Tensor")                                                                             \
  /* The operand itself. Fusion merges no producer and consumer through it; it is removed after fusion. */              \
  PRIM(kBarrier, "prim.barrier", kView, kFree, kShared,                                                               \
       "(Tensor x, SymInt[] sizes) -> Tensor")                                                                        \
  PRIM(kCopy, "prim.copy", kCopy, kLinear, kStrided,                                                                  \
       "(Tensor x) -> Tensor")                                                                                        \
  /* Copies between the device and host memory beside it (Value.on_host of program.proto). A value on the host is only    \
     read by prim.from_host, and is an input or output only if it is saved for the backward. */                        \
  PRIM(kToHost, "prim.to_host", kCopy, kLinear, kStrided,                                                              \
       "(Tensor x) -> Tensor")                                                                                        \
  PRIM(kFromHost, "prim.from_host", kCopy, kLinear, kStrided,                                                          \
       "(Tensor x) -> Tensor")                                                                                        \
  PRIM(kConcat, "prim.concat", kCopy, kLinear, kDense,                                                                \
       "(Tensor[] tensors, int dim) -> Tensor")                                                                       \
  PRIM(kMatmul, "prim.matmul", kMatmul, kContraction, kDense,                                                         \
       "(Tensor a, Tensor b, Tensor? bias) -> Tensor")                                                                \
  /* Carries a program, whose input 0 is the product (aot/fusion/matmul_epilogue.h). */                               \
  PRIM(kMatmulEpilogue, "prim.matmul_epilogue", kMatmul, kContraction, kStrided,                                      \
       "(Tensor a, Tensor b, Tensor... inputs) -> Tensor...")                                                         \
  PRIM(kConvolution, "prim.convolution", kConvolution, kContraction, kStrided,                                        \
       "(Tensor x, Tensor weight, Tensor? bias, " COTAN_CONVOLUTION_CONFIG ") -> Tensor")                             \
  PRIM(kConvolutionBackwardInput, "prim.convolution_backward_input", kConvolution, kContraction, kStrided,            \
       "(Tensor grad, Tensor weight, " COTAN_CONVOLUTION_CONFIG ") -> Tensor")                                        \
  PRIM(kConvolutionBackwardWeight, "prim.convolution_backward_weight", kConvolution, kContraction, kDense,            \
       "(Tensor grad, Tensor x, " COTAN_CONVOLUTION_CONFIG ") -> Tensor")                                             \
  PRIM(kMaxPool, "prim.max_pool", kPool, kLinear, kStrided,                                                           \
       "(Tensor x, " COTAN_POOL_CONFIG ") -> (Tensor values, Tensor indices)")                                        \
  PRIM(kMaxPoolBackward, "prim.max_pool_backward", kPool, kLinear, kStrided,                                          \
       "(Tensor grad, Tensor indices, " COTAN_POOL_CONFIG ") -> Tensor")                                              \
  PRIM(kAvgPool, "prim.avg_pool", kPool, kLinear, kStrided,                                                           \
       "(Tensor x, " COTAN_POOL_CONFIG ") -> Tensor")                                                                 \
  PRIM(kAvgPoolBackward, "prim.avg_pool_backward", kPool, kLinear, kStrided,                                          \
       "(Tensor grad, " COTAN_POOL_CONFIG ") -> Tensor")                                                              \
  PRIM(kGather, "prim.gather", kIndexing, kLinear, kDense,                                                            \
       "(Tensor x, Tensor index, int dim) -> Tensor")                                                                 \
  PRIM(kScatterAdd, "prim.scatter_add", kIndexing, kLinear, kDense,                                                   \
       "(Tensor rows, Tensor index, Tensor? base, int dim, int padding_index) -> Tensor")                             \
  PRIM(kCheckedIndex, "prim.checked_index", kIndexing, kLinear, kDense,                                               \
       "(Tensor index, SymInt size, bool from_end, int? ignored) -> Tensor")                                          \
  /* `function` is a serialization::Scan::Function; MAX and MIN have indices. */                                      \
  PRIM(kScan, "prim.scan", kScan, kLinear, kDense,                                                                    \
       "(Tensor x, int function, int dim, bool reverse) -> (Tensor values, Tensor? indices)")                         \
  PRIM(kSort, "prim.sort", kSort, kLinear, kDense,                                                                    \
       "(Tensor x, int dim, bool descending) -> (Tensor values, Tensor indices)")                                     \
  PRIM(kAttention, "prim.attention", kAttention, kContraction, kStrided,                                              \
       "(Tensor q, Tensor k, Tensor v, Tensor? bias, bool is_causal, float scale)"                                    \
       " -> (Tensor result, Tensor logsumexp)")                                                                       \
  PRIM(kAttentionBackward, "prim.attention_backward", kAttention, kContraction, kStrided,                             \
       "(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor result, Tensor logsumexp, Tensor? bias,"                   \
       " bool is_causal, float scale) -> (Tensor dq, Tensor dk, Tensor dv)")                                          \
  /* `cell` is lstm, gru, rnn_relu or rnn_tanh; `state` is c0 of an LSTM, the bias of a GRU. */                       \
  PRIM(kRecurrent, "prim.recurrent", kRecurrent, kContraction, kStrided,                                              \
       "(Tensor projected, Tensor weight, Tensor h0, Tensor? state, str cell, bool reverse)"                          \
       " -> (Tensor hidden, Tensor? cell_states, Tensor? gates)")                                                     \
  /* `grad_gates`: of projected, or of all gates of a GRU (program.proto). `grad_c0`: of an LSTM. */                  \
  PRIM(kRecurrentBackward, "prim.recurrent_backward", kRecurrent, kContraction, kStrided,                             \
       "(Tensor grad, Tensor hidden, Tensor weight, Tensor h0, Tensor? gates, Tensor? cell_states,"                   \
       " Tensor? c0, Tensor? grad_last_cell, str cell, bool reverse)"                                                 \
       " -> (Tensor grad_gates, Tensor grad_h0, Tensor? grad_c0)")                                                    \
  /* `kind` is print, metric or assert; takes a token and returns the next one. */                                    \
  PRIM(kEffect, "prim.effect", kEffect, kLinear, kStrided,                                                            \
       "(Tensor token, Tensor value, str kind, str name, str message) -> Tensor")                                     \
  /* `function` is a serialization::LinearAlgebra::Function, whose comment lists operands and results. */             \
  PRIM(kLinearAlgebra, "prim.linear_algebra", kLinearAlgebra, kContraction, kDense,                                   \
       "(Tensor a, Tensor? second, Tensor? third, int function, bool upper, bool transpose, bool unit_diagonal,"      \
       " bool full_matrices) -> (Tensor first, Tensor? second, Tensor? third)")
// clang-format on

#define COTAN_PRIM_ENUMERATOR(op, ...) op,
enum class PrimOp : uint8_t { COTAN_PRIM_OPS(COTAN_PRIM_ENUMERATOR) };
#undef COTAN_PRIM_ENUMERATOR

// Families of ops that passes treat alike.
enum class PrimKind : uint8_t {
  kView,  // the result shares the first operand's memory; the runtime executes it as a step of a ViewOp
  kCopy,  // moves elements
  kMatmul,
  kConvolution,
  kPool,
  kIndexing,
  kScan,
  kSort,
  kAttention,
  kRecurrent,
  kEffect,  // visible outside of the program; executed exactly once
  kLinearAlgebra,
};

enum class PrimCost : uint8_t {
  kFree,         // no work at run time
  kLinear,       // about as expensive as loading the operands and storing the results
  kContraction,  // sums of products: more arithmetic than memory traffic
};

enum class PrimResult : uint8_t {
  kShared,   // in the memory of the first operand
  kDense,    // dense and row-major when fusion runs, so that a reshape needs no copy
  kStrided,  // possibly in another order of dimensions
};

enum class PrimParameterKind : uint8_t {
  kTensor,
  kOptionalTensor,
  kTensorList,
  kTensors,  // the rest of the arguments
  kInt,
  kOptionalInt,
  kIntList,
  kSymInt,
  kSymIntList,
  kFloat,
  kBool,
  kString,
};

struct PrimParameter {
  absl::string_view name;
  PrimParameterKind kind = PrimParameterKind::kTensor;
};

struct PrimOpInfo {
  static constexpr size_t kMaxParameters = 10;
  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

  PrimOp op = PrimOp::kView;
  absl::string_view name;       // "prim.view"
  absl::string_view signature;  // "(Tensor x, SymInt[] sizes) -> Tensor"
  PrimKind kind = PrimKind::kView;
  PrimCost cost = PrimCost::kFree;
  PrimResult result = PrimResult::kShared;
  PrimParameter parameters[kMaxParameters];  // the first `num_parameters`, in the order of Node::arguments
  size_t num_parameters = 0;
  size_t min_results = 0;
  size_t max_results = 0;

  absl::Span<const PrimParameter> Parameters() const { return {parameters, num_parameters}; }
};

// Returns all ops, indexed by PrimOp.
absl::Span<const PrimOpInfo> AllPrimOps();

const PrimOpInfo& PrimInfo(PrimOp op);
inline absl::string_view PrimName(PrimOp op) { return PrimInfo(op).name; }

// Returns the op of a name such as "prim.view"; none if no prim op has it.
std::optional<PrimOp> FindPrimOp(absl::string_view name);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_PRIM_OPS_H_
