// SPDX-License-Identifier: Apache-2.0

// Handlers of a program's effects: prints, metrics and assertions (aot/capture/effects.h) happen in the order
// in which the traced function had them.
#ifndef COTAN_RUNTIME_EXECUTION_EFFECTS_H_
#define COTAN_RUNTIME_EXECUTION_EFFECTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

enum class EffectKind : uint8_t { kPrint, kMetric, kAssert };

// Returns "print", "metric" or "assert".
absl::string_view EffectKindName(EffectKind kind);

// One execution of an effect. Valid while the handler runs.
struct EffectEvent {
  EffectKind kind = EffectKind::kPrint;
  absl::string_view name;
  absl::string_view message;
  // Row-major on the host. Its memory is reused when the effect is executed next: call Clone() to keep the
  // value.
  const Tensor& value;
};

// A callback for effects. It is called on the thread that runs the method, during the call, and must not call
// the session. An error that it returns becomes the status of the call, which then leaves all states and
// arguments unchanged.
using EffectHandler = std::function<absl::Status(const EffectEvent& event)>;

// The handlers of effects, by kind and name. A print or a metric needs a handler. An assertion does not: its
// handler is called only if it fails, and without a handler the call fails with InvalidArgument. Copyable;
// const methods are thread-safe.
class EffectHandlers {
 public:
  // Sets the handler of the effects of one kind and name; replaces the previous one.
  EffectHandlers& Set(EffectKind kind, absl::string_view name, EffectHandler handler);
  // Sets the handler of the effects of `kind` that have no handler by name.
  EffectHandlers& Set(EffectKind kind, EffectHandler handler);

  // Returns the handler of an effect, or null if there is none. Valid until the next Set().
  const EffectHandler* Find(EffectKind kind, absl::string_view name) const;

  // Returns OK if each print and metric of `program` has a handler. FailedPrecondition: some have none; the
  // message names all of them.
  absl::Status Check(const Program& program) const;

 private:
  absl::flat_hash_map<std::pair<EffectKind, std::string>, EffectHandler> by_name_;
  absl::flat_hash_map<EffectKind, EffectHandler> by_kind_;
};

// Returns a line such as "print 'fc': f32[2,3] = [1, 2, 3, 4, 5, 6]", with the first elements of a large
// tensor.
std::string EffectText(const EffectEvent& event);

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_EFFECTS_H_
