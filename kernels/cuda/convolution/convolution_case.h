// SPDX-License-Identifier: Apache-2.0

// Random convolutions for the tests of their kernels.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_CASE_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_CASE_H_

#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::testing {

// The attributes of a convolution and the sizes of its tensors.
struct ConvolutionCase {
  serialization::Convolution op;
  DimVector input;
  DimVector weight;
  DimVector output;

  // For each spatial dimension the attributes are the same. The sizes of the output follow.
  static ConvolutionCase Of(DimVector input, DimVector weight, int64_t stride, int64_t padding, int64_t dilation = 1,
                            int64_t groups = 1);
  static ConvolutionCase Transposed(DimVector input, DimVector weight, int64_t stride, int64_t padding,
                                    int64_t output_padding, int64_t groups = 1);
  std::string ToString() const;
};

// Returns a small convolution with random attributes.
ConvolutionCase RandomConvolution(std::mt19937_64& random);

enum class Gradient { kNone, kInput, kWeight };
enum class Layouts { kRowMajor, kChannelsLast, kRandom };

// An op with the geometry of its operands.
struct ConvolutionSpecs {
  serialization::Op op;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;

  // Refers to this object.
  KernelRequest Request(bool guarded_outputs = false) const;
};

// Returns the forward convolution of `c` with dense operands, or one of its gradients.
ConvolutionSpecs MakeSpecs(const ConvolutionCase& c, Gradient gradient, DType dtype, Layouts layouts);

// An op with operands and the result that kernels/reference computes.
struct ConvolutionOperands {
  serialization::Op op;
  std::vector<std::unique_ptr<cotan::testing::HostTensor>> inputs;
  std::unique_ptr<cotan::testing::HostTensor> output;  // filled as HostTensor's constructor does
  std::vector<double> expected;

  std::vector<cotan::testing::HostTensor*> Inputs() const;
  ConvolutionSpecs Specs() const;
};

// Returns the forward convolution of `c`, with a bias if `has_bias`, or one of its gradients.
ConvolutionOperands MakeOperands(const ConvolutionCase& c, Gradient gradient, DType dtype, Layouts layouts,
                                 bool has_bias, std::mt19937_64& random);

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_CASE_H_
