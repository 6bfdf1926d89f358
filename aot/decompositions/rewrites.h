// SPDX-License-Identifier: Apache-2.0

// Ops that are replaced above autograd while a function is traced, because LibTorch's implementation hides a
// mutation, draws from a hidden generator, or reads the content of tensors.
//
//   batch_norm                      -> _native_batch_norm_legit, which declares that it
//                                      writes the statistics
//   scaled_dot_product_attention    -> matmul, softmax, or LibTorch's fused op (attention.h)
//   _native_batch_norm_legit_functional -> _native_batch_norm_legit on copies of the statistics
//   lstm, gru, rnn                  -> matmul, cotan::recurrent
//   copy                            -> ops that LibTorch can differentiate
//   logical_and_, abs_, ..., cov, polar, block_diag, index_reduce, conv_tbc -> composed_ops.h
//   grid_sampler, affine_grid, max_unpool -> gathers, scatters (sampling_ops.h)
//   cdist, pdist, weight_norm, renorm -> norms (distance_ops.h)
//   scatter_reduce, masked_scatter, one_hot, histc, segment_reduce -> scatter_ops.h
//   embedding_renorm, combinations, scatter with a reduction, bincount -> lookup_ops.h
//   _upsample_*2d_aa                -> matrix products (resize_ops.h)
//   fractional_max_pool             -> gathers (pooling_ops.h)
//   special_*_polynomial_*          -> recurrences (polynomial_ops.h)
//   _linalg_check_errors            -> an assertion (linalg_ops.h)
//   matrix_exp, householder_product -> matrix products (linalg_ops.h)
//   _fft_*, istft                   -> matrix products (fourier_ops.h)
//   ctc_loss, multi_margin_loss, multilabel_margin_loss -> loss_ops.h
//   nonzero, masked_select, x[mask], unique, repeat_interleave -> cotan::leading_rows (data_size_ops.h)
//   ops of symbolic numbers         -> ops of tensors (number_ops.h)
//   equal                           -> a constant where it does not depend on data
//   dropout, bernoulli, rand, multinomial, ... -> cotan::random_uniform and arithmetic
//
// cotan::random_uniform(Tensor state, SymInt[] size, int slice) -> Tensor is the only random op: f32 in [0, 1)
// from base/philox.h, where `state` is i64[2] {seed, offset} and `slice` is the op's first block among the
// program's draws. While tracing, it computes the values that the runtime will draw from the same state.
//
// cotan::recurrent and its backward: see recurrent_layer.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_REWRITES_H_
#define COTAN_AOT_DECOMPOSITIONS_REWRITES_H_

namespace cotan::aot {

// Registers the kernels of kRewriteKey. Idempotent.
void RegisterRewrites();

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_REWRITES_H_
