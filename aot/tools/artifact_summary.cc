#include "aot/tools/artifact_summary.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/dtype.h"
#include "base/sym_int.h"

namespace cotan::aot {
namespace {

int64_t ElementsOf(const serialization::TensorType& type) {
  int64_t elements = 1;
  for (const std::string& text : type.sizes()) {
    const absl::StatusOr<SymInt> size = SymInt::Parse(text);
    if (size.ok() && size->is_constant()) elements *= size->constant();
  }
  return elements;
}

int64_t BytesOf(const serialization::TensorType& type) {
  return ElementsOf(type) * static_cast<int64_t>(ByteSize(static_cast<DType>(type.dtype())));
}

}  // namespace

MethodBytes BytesOf(const serialization::Method& method) {
  MethodBytes bytes;
  const int first_saved = method.outputs_size() - static_cast<int>(method.num_saved());
  for (int i = std::max(first_saved, 0); i < method.outputs_size(); ++i) {
    bytes.saved += BytesOf(method.values(static_cast<int>(method.outputs(i))).type());
  }
  // Index of the op after which a value is not needed; views count as nothing.
  std::vector<int> last_use(static_cast<size_t>(method.values_size()), -1);
  for (int i = 0; i < method.ops_size(); ++i) {
    for (const uint32_t value : method.ops(i).inputs()) last_use[value] = i;
  }
  for (const uint32_t value : method.outputs()) last_use[value] = method.ops_size();
  for (const serialization::StateUpdate& update : method.state_updates()) last_use[update.value()] = method.ops_size();

  std::vector<int64_t> freed(static_cast<size_t>(method.ops_size()) + 1);
  int64_t alive = 0;
  for (int i = 0; i < method.ops_size(); ++i) {
    if (!method.ops(i).has_view()) {
      for (const uint32_t value : method.ops(i).outputs()) {
        const int64_t size = BytesOf(method.values(static_cast<int>(value)).type());
        alive += size;
        freed[static_cast<size_t>(std::max(last_use[value], i))] += size;
      }
    }
    bytes.peak = std::max(bytes.peak, alive);
    alive -= freed[static_cast<size_t>(i)];
  }
  return bytes;
}

ParameterCount ParametersOf(const serialization::Artifact& artifact) {
  ParameterCount count;
  for (const serialization::State& state : artifact.states()) {
    if (state.role() != serialization::State::PARAMETER) continue;
    const int64_t elements = ElementsOf(state.type());
    count.all += elements;
    if (state.requires_grad()) count.trained += elements;
  }
  return count;
}

std::string BytesText(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const double kib = static_cast<double>(bytes) / 1024;
  return kib < 1024 ? absl::StrFormat("%.1f KiB", kib) : absl::StrFormat("%.1f MiB", kib / 1024);
}

}  // namespace cotan::aot
