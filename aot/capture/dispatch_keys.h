// SPDX-License-Identifier: Apache-2.0

// The dispatch keys that tracing uses.
//
// A call inside a traced function passes, from the top:
//
//   kObserveKey   included by thread-local state only, while the ops that a block calls are compared with those of
//                 another (aot/blocks/op_sequence.h)
//   kRewriteKey   included by thread-local state only; replaces ops that must not reach autograd
//                 (batch norm, dropout, random ops, attention) by others (aot/decompositions/rewrites.h)
//   Autograd      LibTorch's; the ops of a backward pass continue below it
//   Functionalize LibTorch's; replaces mutations, and views of mutated tensors
//   kRecordKey    records the remaining ops in the graph (recorder.h)
//   CPU           computes real values
#ifndef COTAN_AOT_CAPTURE_DISPATCH_KEYS_H_
#define COTAN_AOT_CAPTURE_DISPATCH_KEYS_H_

#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>

namespace cotan::aot {

// Keys above autograd. No tensor has them, and LibTorch registers no kernels for them.
inline constexpr c10::DispatchKey kObserveKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
inline constexpr c10::DispatchKey kRewriteKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

// Key of proxy tensors, whose kernels record ops. LibTorch 2.15 reserves it for a fake-tensor mode of its
// own, which is off by default.
inline constexpr c10::DispatchKey kRecordKey = c10::DispatchKey::Fake;

// Keys that are included while a module is constructed.
inline constexpr c10::DispatchKeySet kConstructionKeys =
    c10::DispatchKeySet(c10::DispatchKey::Functionalize) | c10::DispatchKeySet(kRecordKey);

// Keys that are included while a function is traced.
inline constexpr c10::DispatchKeySet kTracingKeys = kConstructionKeys | c10::DispatchKeySet(kRewriteKey);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_DISPATCH_KEYS_H_
