// Builds kernel requests for tests.
#ifndef COTAN_KERNELS_CUDA_KERNEL_TESTUTIL_H_
#define COTAN_KERNELS_CUDA_KERNEL_TESTUTIL_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/layout.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

inline StridedLayout Contiguous(const DimVector& sizes) {
  return StridedLayout{.sizes = sizes, .strides = ContiguousStrides(sizes)};
}

// The op and operands of an expression over a domain of the given sizes.
// Methods that add an instruction return its position.
struct ExprRequest {
  explicit ExprRequest(const DimVector& domain) : domain(domain) {
    for (int64_t size : domain) op.mutable_expr()->add_domain_sizes(std::to_string(size));
  }

  int Input(DType dtype, const StridedLayout& layout) {
    inputs.push_back({dtype, layout});
    const int position = Add(serialization::FN_INPUT, static_cast<serialization::DTypeProto>(dtype), {});
    Instruction(position)->set_index(inputs.size() - 1);
    return position;
  }
  int Input(DType dtype, const DimVector& sizes) { return Input(dtype, Contiguous(sizes)); }

  int Constant(double value) {
    const int position = Add(serialization::FN_CONSTANT, serialization::DTYPE_F32, {});
    Instruction(position)->set_float_value(value);
    return position;
  }

  int Size(const std::string& size) {
    const int position = Add(serialization::FN_SIZE, serialization::DTYPE_F32, {});
    Instruction(position)->set_size(size);
    return position;
  }

  int Iota(int dimension) {
    const int position = Add(serialization::FN_IOTA, serialization::DTYPE_F32, {});
    Instruction(position)->set_index(dimension);
    return position;
  }

  // Adds the generator state as an input, too.
  int RandomUniform(const std::string& slice) {
    inputs.push_back({DType::kInt64, Contiguous({2})});
    const int position = Add(serialization::FN_RANDOM_UNIFORM, serialization::DTYPE_F32, {});
    Instruction(position)->set_index(inputs.size() - 1);
    Instruction(position)->set_slice(slice);
    return position;
  }

  int Add(serialization::ScalarFn fn, serialization::DTypeProto dtype, std::initializer_list<int> operands) {
    serialization::ExprInstruction* instruction = op.mutable_expr()->add_instructions();
    instruction->set_fn(fn);
    instruction->set_dtype(dtype);
    for (int operand : operands) instruction->add_operands(operand);
    return op.expr().instructions_size() - 1;
  }

  void Output(int position, DType dtype = DType::kFloat32) {
    op.mutable_expr()->add_outputs(position);
    outputs.push_back({dtype, Contiguous(domain)});
  }

  serialization::ExprInstruction* Instruction(int position) {
    return op.mutable_expr()->mutable_instructions(position);
  }

  KernelRequest Get(Device* device = nullptr) const {
    return KernelRequest{.op = op, .inputs = inputs, .outputs = outputs, .symbols = symbols, .device = device};
  }

  DimVector domain;
  serialization::Op op;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<int64_t> symbols;
};

// The op and operands of a matmul.
struct MatmulRequest {
  MatmulRequest(std::vector<StridedLayout> input_layouts, StridedLayout output_layout, DType dtype = DType::kFloat32) {
    op.mutable_matmul();
    for (StridedLayout& layout : input_layouts) inputs.push_back({dtype, std::move(layout)});
    outputs.push_back({dtype, std::move(output_layout)});
  }

  KernelRequest Get(Device* device = nullptr) const {
    return KernelRequest{.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}, .device = device};
  }

  serialization::Op op;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_KERNEL_TESTUTIL_H_
