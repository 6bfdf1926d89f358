// What a program's effects do on this device: prints, metrics and assertions
// (aot/capture/effects.h) come here in the order in which the traced function had
// them.
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

// "print", "metric", "assert".
absl::string_view EffectKindName(EffectKind kind);

// An effect that happens. Valid as long as the handler runs.
struct EffectEvent {
  EffectKind kind = EffectKind::kPrint;
  absl::string_view name;
  absl::string_view message;
  // Row-major on the host. Its memory is used again when the effect happens
  // next: Clone() it to keep it.
  const Tensor& value;
};

// Called on the thread that runs the method, while it runs: it must not call the
// session. What it returns that is not OK becomes the status of the call, which
// then leaves all states and arguments as they were.
using EffectHandler = std::function<absl::Status(const EffectEvent& event)>;

// Who handles which effects. A print or a metric needs a handler. A failed
// assertion does not: it is InvalidArgument unless a handler, which is called
// only then, says otherwise. Copyable; const methods are thread-safe.
class EffectHandlers {
 public:
  // For the effects of one kind and name; replaces the one there was.
  EffectHandlers& Set(EffectKind kind, absl::string_view name, EffectHandler handler);
  // For those of a kind that have none by name.
  EffectHandlers& Set(EffectKind kind, EffectHandler handler);

  // Null if there is none. Valid until the next Set().
  const EffectHandler* Find(EffectKind kind, absl::string_view name) const;

  // FailedPrecondition: `program` has prints or metrics without a handler; the
  // message names all of them.
  absl::Status Check(const Program& program) const;

 private:
  absl::flat_hash_map<std::pair<EffectKind, std::string>, EffectHandler> by_name_;
  absl::flat_hash_map<EffectKind, EffectHandler> by_kind_;
};

// For people: "print 'fc': f32[2,3] = [1, 2, 3, 4, 5, 6]"; the first elements of
// a large tensor.
std::string EffectText(const EffectEvent& event);

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_EFFECTS_H_
