// A tensor that stands for a value of the graph being recorded.
#ifndef COTAN_AOT_CAPTURE_PROXY_TENSOR_H_
#define COTAN_AOT_CAPTURE_PROXY_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

class ProxyTensorImpl;

// The period in which a proxy was made: the construction of a module, or one
// trace. Lives as long as any proxy of it. Not thread-safe.
struct TraceEpoch {
  enum class Kind : uint8_t { kConstruction, kTrace };
  Kind kind = Kind::kTrace;
  absl::flat_hash_set<const ProxyTensorImpl*> live;
};

// Holds a real CPU tensor and the value that it is in the graph. Never mutated,
// as functionalization works above it. Its sizes, strides and dtype are those
// of the real tensor; its storage too, but nothing reads it.
class ProxyTensorImpl : public c10::TensorImpl {
 public:
  ProxyTensorImpl(at::Tensor real, ValueId value, std::shared_ptr<TraceEpoch> epoch);
  ~ProxyTensorImpl() override;

  const at::Tensor& real() const { return real_; }
  // Makes `real`, which has the same elements, the real tensor.
  void set_real(at::Tensor real);
  // kNoValue during construction.
  ValueId value() const { return value_; }
  const std::shared_ptr<TraceEpoch>& epoch() const { return epoch_; }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version_counter,
                                                              bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                              bool allow_tensor_metadata_change) const override;

 private:
  const char* tensorimpl_type_name() const override { return "cotan::ProxyTensorImpl"; }

  at::Tensor real_;
  ValueId value_;
  std::shared_ptr<TraceEpoch> epoch_;
};

at::Tensor MakeProxy(at::Tensor real, ValueId value, std::shared_ptr<TraceEpoch> epoch);

// Null if `tensor` is undefined or no proxy. Does not look into functional
// wrappers; see ProxyOf().
const ProxyTensorImpl* AsProxy(const at::Tensor& tensor);

// Gives the proxy's elements, which are those of `real`, the places in memory that
// they have there.
void MoveReal(const at::Tensor& proxy, at::Tensor real);

// A proxy under functionalization: what a traced function computes with.
at::Tensor WrapFunctional(const at::Tensor& proxy);

// The proxy inside a functional wrapper, up to date with all mutations; null if
// `tensor` is no functional wrapper of a proxy.
const ProxyTensorImpl* ProxyOf(const at::Tensor& tensor);

// Gives a functional wrapper a new content that nothing has mutated yet.
// Whatever viewed its old content does not see the new one.
void Reseat(const at::Tensor& functional, const at::Tensor& proxy);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_PROXY_TENSOR_H_
