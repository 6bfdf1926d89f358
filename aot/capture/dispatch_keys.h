// The dispatch keys that tracing takes from LibTorch, and nothing else does.
//
// A call inside a traced function passes, from the top:
//
//   kRewriteKey   switched on by thread-local state alone; ops that must not
//                 reach autograd as they are (batch norm, dropout, random ops,
//                 attention) are replaced by other ops here (rewrites.h)
//   Autograd      LibTorch's own; a backward pass runs the same way down
//   Functionalize LibTorch's own; removes views of mutated tensors and mutation
//   kRecordKey    what remains is written to the graph (recorder.h)
//   CPU           computes real values
#ifndef COTAN_AOT_CAPTURE_DISPATCH_KEYS_H_
#define COTAN_AOT_CAPTURE_DISPATCH_KEYS_H_

#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>

namespace cotan::aot {

// No tensor carries this key, and LibTorch registers nothing for it.
inline constexpr c10::DispatchKey kRewriteKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Carried by proxy tensors. LibTorch 2.15 reserves it for a fake-tensor mode of
// its own, which is off unless asked for.
inline constexpr c10::DispatchKey kRecordKey = c10::DispatchKey::Fake;

// On while a module is constructed.
inline constexpr c10::DispatchKeySet kConstructionKeys =
    c10::DispatchKeySet(c10::DispatchKey::Functionalize) | c10::DispatchKeySet(kRecordKey);

// On while a function is traced.
inline constexpr c10::DispatchKeySet kTracingKeys = kConstructionKeys | c10::DispatchKeySet(kRewriteKey);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_DISPATCH_KEYS_H_
