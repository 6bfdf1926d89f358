// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/attention/attention_graph.h"

#include <utility>

#include "base/status_macros.h"

namespace cotan::cuda::attention {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr size_t kQueryDim = 2;
constexpr size_t kKeyDim = 3;

StridedLayout Transposed(StridedLayout layout) {
  std::swap(layout.sizes[2], layout.sizes[3]);
  std::swap(layout.strides[2], layout.strides[3]);
  return layout;
}

// A tensor of the graph.
struct Node {
  const CudnnDescriptor* tensor = nullptr;
  StridedLayout layout;
};

// Adds operations one by one. After an error, which status() keeps, nothing is added.
class GraphWriter {
 public:
  explicit GraphWriter(OperationGraph& graph) : graph_(graph) {}

  const absl::Status& status() const { return status_; }

  Node Memory(TensorId id, DType dtype, const StridedLayout& layout) {
    return Add({id, dtype, layout, kOperandAlignment, GraphTensor::Kind::kMemory});
  }
  Node Scalar(TensorId id) {
    return Add({id, DType::kFloat32, {{1, 1, 1, 1}, {1, 1, 1, 1}, 0}, kOperandAlignment, GraphTensor::Kind::kByValue});
  }
  // Returns a virtual tensor.
  Node Virtual(DType dtype, const StridedLayout& layout) {
    return Add({next_id_++, dtype, layout, kOperandAlignment, GraphTensor::Kind::kVirtual});
  }

  // Write to a new virtual tensor with the sizes of x.
  Node Pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node& b = {}, DType dtype = DType::kFloat32) {
    return PointwiseTo(Virtual(dtype, Dense(x.layout.sizes)), mode, x, b);
  }
  Node PointwiseTo(Node y, cudnnPointwiseMode_t mode, const Node& x, const Node& b = {}) {
    if (status_.ok()) {
      status_ = graph_.AddPointwise(mode, DType::kFloat32, {.x = x.tensor, .b = b.tensor, .y = y.tensor});
    }
    return y;
  }
  // Returns scores with those of the keys that come after their query replaced by `masked`.
  Node MaskedCausally(const Node& scores, const Node& masked) {
    const StridedLayout dense = Dense(scores.layout.sizes);
    const Node query = Virtual(DType::kInt32, dense);
    const Node key = Virtual(DType::kInt32, dense);
    const Node is_seen = Virtual(DType::kBool, dense);
    const Node result = Virtual(DType::kFloat32, dense);
    for (const auto& [index, axis] : {std::pair(query, kQueryDim), std::pair(key, kKeyDim)}) {
      if (!status_.ok()) return result;
      status_ = graph_.AddPointwise(CUDNN_POINTWISE_GEN_INDEX, DType::kFloat32, {.x = scores.tensor, .y = index.tensor},
                                    static_cast<int64_t>(axis));
    }
    if (!status_.ok()) return result;
    status_ = graph_.AddPointwise(CUDNN_POINTWISE_CMP_GE, DType::kBool,
                                  {.x = query.tensor, .b = key.tensor, .y = is_seen.tensor});
    if (!status_.ok()) return result;
    status_ = graph_.AddPointwise(CUDNN_POINTWISE_BINARY_SELECT, DType::kFloat32,
                                  {.x = scores.tensor, .b = masked.tensor, .t = is_seen.tensor, .y = result.tensor});
    return result;
  }

  // Returns the reduction of the last dimension.
  Node ReduceRows(cudnnReduceTensorOp_t op, const Node& x) {
    DimVector sizes = x.layout.sizes;
    sizes[3] = 1;
    const Node y = Virtual(DType::kFloat32, Dense(sizes));
    if (status_.ok()) status_ = graph_.AddReduction(op, *x.tensor, *y.tensor);
    return y;
  }

  // Returns the product in f32.
  Node Product(const Node& a, const Node& b) {
    DimVector sizes = a.layout.sizes;
    sizes[3] = b.layout.sizes[3];
    return ProductTo(Virtual(DType::kFloat32, Dense(sizes)), a, b);
  }
  Node ProductTo(Node c, const Node& a, const Node& b) {
    if (status_.ok()) status_ = graph_.AddMatmul(*a.tensor, *b.tensor, *c.tensor);
    return c;
  }

  // Returns the transpose of the last two dimensions, rounded to `dtype`.
  Node Transpose(const Node& x, DType dtype) {
    const Node y = Virtual(dtype, Transposed(x.layout));
    if (status_.ok()) status_ = graph_.AddReshape(*x.tensor, *y.tensor);
    return y;
  }

 private:
  static StridedLayout Dense(const DimVector& sizes) { return {sizes, ContiguousStrides(sizes), 0}; }

  Node Add(const GraphTensor& tensor) {
    if (!status_.ok()) return {nullptr, tensor.layout};
    const absl::StatusOr<const CudnnDescriptor*> added = graph_.AddTensor(tensor);
    if (added.ok()) return {*added, tensor.layout};
    status_ = added.status();
    return {nullptr, tensor.layout};
  }

  OperationGraph& graph_;
  absl::Status status_;
  int64_t next_id_ = kFirstVirtual;
};

}  // namespace

absl::Status AddForward(const AttentionTensors& tensors, OperationGraph& graph) {
  GraphWriter writer(graph);
  const Node q = writer.Memory(kQuery, tensors.dtype, tensors.q);
  const Node k_transposed = writer.Memory(kKey, tensors.dtype, Transposed(tensors.k));
  const Node v = writer.Memory(kValue, tensors.dtype, tensors.v);
  const Node result = writer.Memory(kResult, tensors.dtype, tensors.result);
  Node scores = writer.Pointwise(CUDNN_POINTWISE_MUL, writer.Product(q, k_transposed), writer.Scalar(kScale));
  if (tensors.is_causal) scores = writer.MaskedCausally(scores, writer.Scalar(kMasked));
  const Node max = writer.ReduceRows(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Node exponentials = writer.Pointwise(CUDNN_POINTWISE_EXP, writer.Pointwise(CUDNN_POINTWISE_SUB, scores, max));
  const Node sum = writer.ReduceRows(CUDNN_REDUCE_TENSOR_ADD, exponentials);
  const Node logsumexp = writer.Memory(kLogSumExp, DType::kFloat32, tensors.rows);
  writer.PointwiseTo(logsumexp, CUDNN_POINTWISE_ADD, max, writer.Pointwise(CUDNN_POINTWISE_LOG, sum));
  writer.ProductTo(result, writer.Pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, tensors.dtype), v);
  return writer.status();
}

absl::Status AddBackward(const AttentionTensors& tensors, OperationGraph& graph) {
  GraphWriter writer(graph);
  const Node q = writer.Memory(kQuery, tensors.dtype, tensors.q);
  const Node k_transposed = writer.Memory(kKey, tensors.dtype, Transposed(tensors.k));
  const Node v_transposed = writer.Memory(kValue, tensors.dtype, Transposed(tensors.v));
  const Node result = writer.Memory(kResult, tensors.dtype, tensors.result);
  const Node logsumexp = writer.Memory(kLogSumExp, DType::kFloat32, tensors.rows);
  const Node grad = writer.Memory(kGrad, tensors.dtype, tensors.grad);
  const Node scale = writer.Scalar(kScale);
  // The engines expect a factor here, that of dropout, and the dots in memory.
  const Node products = writer.Pointwise(CUDNN_POINTWISE_MUL, grad, result);
  const Node sums = writer.ReduceRows(CUDNN_REDUCE_TENSOR_ADD, products);
  const Node dots = writer.PointwiseTo(writer.Memory(kDots, DType::kFloat32, tensors.rows), CUDNN_POINTWISE_MUL, sums,
                                       writer.Scalar(kOne));
  const Node scores = writer.Pointwise(CUDNN_POINTWISE_MUL, writer.Product(q, k_transposed), scale);
  Node shifted = writer.Pointwise(CUDNN_POINTWISE_SUB, scores, logsumexp);
  if (tensors.is_causal) shifted = writer.MaskedCausally(shifted, writer.Scalar(kMasked));
  const Node weights = writer.Pointwise(CUDNN_POINTWISE_EXP, shifted);
  const Node grad_v = writer.Memory(kGradValue, tensors.dtype, tensors.grad_v);
  writer.ProductTo(grad_v, writer.Transpose(weights, tensors.dtype), grad);
  const Node grad_weights = writer.Pointwise(CUDNN_POINTWISE_SUB, writer.Product(grad, v_transposed), dots);
  const Node grad_scores =
      writer.Pointwise(CUDNN_POINTWISE_MUL, writer.Pointwise(CUDNN_POINTWISE_MUL, grad_weights, weights), scale);
  const Node grad_k = writer.Memory(kGradKey, tensors.dtype, tensors.grad_k);
  writer.ProductTo(grad_k, writer.Transpose(grad_scores, tensors.dtype), q);
  const Node grad_q = writer.Memory(kGradQuery, tensors.dtype, tensors.grad_q);
  writer.ProductTo(grad_q, grad_scores, writer.Transpose(k_transposed, DType::kFloat32));
  return writer.status();
}

}  // namespace cotan::cuda::attention
