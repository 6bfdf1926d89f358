// SPDX-License-Identifier: Apache-2.0

// Writes what a thread does in a visit of the domain, and with reduced values.
//
// Names in the text: in0, out0 are operands, x0 elements of input 0, v7 the value of node 7, t7 its total, y0 elements
// of output 0; k and r are kept and reduced indices, e the position in a pack, j the number of a pack.
#ifndef COTAN_KERNELS_CUDA_EXPR_PHASE_WRITER_H_
#define COTAN_KERNELS_CUDA_EXPR_PHASE_WRITER_H_

#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/expr/analysis.h"
#include "kernels/cuda/expr/kernel_part.h"
#include "kernels/cuda/expr/schedule.h"
#include "kernels/cuda/expr/text_writer.h"

namespace cotan::cuda::expr {

// Writes to one text. All arguments of the constructor outlive it.
class PhaseWriter {
 public:
  PhaseWriter(const Problem& problem, const Schedule& schedule, const PhaseNodes& nodes, TextWriter& text)
      : problem_(problem), schedule_(schedule), nodes_(nodes), text_(text), index_(schedule.wide) {}

  // Writes what the phases [first, end) need: generator states, whether pointers are aligned.
  void WriteStart(int first, int end);
  // Writes the loads of inputs that are the same for all kept indices, before these are known.
  void WriteInvariantInputs();
  // Writes phase `p`. Totals are in variables t<node> afterwards.
  void WritePhase(int p);
  // Writes a whole kernel without reductions: the nodes of phase 0 and the outputs of a level.
  void WritePointwise(bool full);
  // Writes the value of a reduced node that is not a reduction. `stored`: only for a store, in the thread that stores.
  void WriteReducedNode(int i, bool stored);
  void WriteReducedStore(size_t output);
  // Writes what divisions by reduced node `i`, whose value is declared, have in common, if there are some.
  void WriteDivisor(int i);

  // Returns the needed reductions of phase `p`.
  std::vector<int> ReductionsOf(int p) const;
  const IndexText& index() const { return index_; }
  // Sets headers, parameters, `wide` and `guarded` from what has been written.
  void FinishPart(KernelPart& part) const;

 private:
  // A value that comes from memory or from a position, in a phase.
  struct Leaf {
    size_t operand;
    int node;
    PackKind kind;
    std::string name;
  };

  bool IsPointwise() const { return schedule_.kind == Schedule::Kind::kPointwise; }
  bool IsKept(int node) const { return nodes_.kept[static_cast<size_t>(node)]; }
  bool IsStaged(int node) const { return !staged_.empty() && staged_[static_cast<size_t>(node)]; }
  int NumPhases() const { return static_cast<int>(nodes_.full.size()); }
  bool IsPacked() const { return schedule_.pack > 1; }
  bool IsElementwise(int node) const { return IsPointwise() || problem_.IsFull(node); }
  PackKind KindOf(size_t operand) const;
  // Returns the kind of leaf `node`'s packs.
  PackKind LeafKind(int node) const;
  bool IsVectorDraw(int node) const;
  // Returns true if full node `i` divides floats by a reduced value.
  bool DividesByReduced(int i) const;
  // Returns the value of a node as it is named in the current place.
  std::string Value(int node) const;
  // Returns the subscript of a kept or staged node's array for the current step, or "".
  std::string StepSubscript(int node) const;
  // Returns the subscripts of a kept or staged node's array, and of an array of a pack.
  std::string Subscripts(int node, bool is_same) const;
  std::string NameOf(int node) const;
  // Returns the offset of an operand at the current indices. `index` is the reduced index.
  std::string Offset(size_t operand, absl::string_view index) const;
  // Returns the offset of element e of the pack at r.
  std::string ElementOffset(size_t operand) const;
  std::string Parameter(size_t operand);
  std::string ElementAt(size_t operand, absl::string_view offset);

  std::vector<Leaf> LeavesOf(const NodeSet& nodes) const;
  std::vector<size_t> OutputsOf(int p, bool full) const;
  // Declares the arrays of those of `nodes` that are kept. `exact`: all threads fill them.
  void WriteKeptArrays(const NodeSet& nodes, bool exact);
  // Opens a loop over the packs of a thread. Returns true if a condition is open within it, as always if not `exact`.
  bool OpenLoop(absl::string_view end, bool exact);
  // Writes a phase that loads several packs before it computes the values of the first one. A store would keep later
  // loads from starting before it, as it may be to the same memory, and so may a condition.
  void WriteStagedPhase(int p, const std::vector<int>& reductions);
  // Opens a loop over the packs of a stage, within one over stages. As OpenLoop().
  bool OpenStage(int packs, bool exact);
  // Returns the packs of a stage of phase `p`.
  int PacksOfStage(int p) const;
  // Writes the declaration of `count`, if packs are not whole.
  void WriteCount(absl::string_view end);
  // Writes the elements at index r.
  void WriteElements(const NodeSet& nodes, const std::vector<size_t>& outputs, const std::vector<int>& reductions);
  // Writes the nodes, totals and stores of one element.
  void WriteElement(const NodeSet& nodes, const std::vector<Leaf>& leaves, const std::vector<size_t>& outputs,
                    const std::vector<int>& reductions);
  // Returns the number of elements of the current pack.
  std::string PackCount() const;
  std::string LeafValue(const Leaf& leaf, const std::string& offset);
  void WritePackLeaf(const Leaf& leaf);
  void WriteElementLeaf(const Leaf& leaf);
  void WriteNode(int i);
  void WriteAligned(int first, int end, bool full);
  void WriteRandomStreams(const NodeSet& nodes);
  // Returns the declaration of the variable of a node in a loop; of a kept one an assignment.
  std::string Declared(int node) const;

  const Problem& problem_;
  const Schedule& schedule_;
  const PhaseNodes& nodes_;
  TextWriter& text_;
  const IndexText index_;
  NodeSet staged_;  // leaves that are loaded before the elements are computed
  std::set<size_t> used_operands_;
  std::set<int> streams_;  // nodes whose generator is declared
  bool has_random_ = false;
  bool has_special_ = false;
  bool stores_ = false;
  bool has_count_ = false;  // the number of elements of a pack is a variable
};

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_PHASE_WRITER_H_
