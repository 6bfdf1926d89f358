#include <iostream>
#include <sstream>
#include "aot/graph/text.h"
#include "aot/graph/verifier.h"
#include "aot/lower/lower.h"
#include "aot/optimizer/optimizer.h"
#include "aot/partition/partition.h"
using namespace cotan::aot;
int main(int argc, char** argv) {
  std::stringstream ss; ss << std::cin.rdbuf();
  auto g = ParseGraph(ss.str());
  if (!g.ok()) { std::cout << g.status() << "\n"; return 1; }
  auto l = LowerToPrims(*g);
  if (!l.ok()) { std::cout << l.status() << "\n"; return 1; }
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "sgd" || mode == "adam") {
    auto s = SeedLoss(*l, 0); if (!s.ok()) std::cout << s << "\n";
    OptimizerConfig c; if (mode == "adam") c.options = AdamW(); else c.options = SgdOptions{.lr=0.01,.momentum=0.9};
    auto st = AppendOptimizer(c, *l); if (!st.ok()) std::cout << st.status() << "\n";
  }
  if (mode == "pair") {
    auto p = Partition(*l); if (!p.ok()) { std::cout << p.status() << "\n"; return 1; }
    auto s = OptimizePair(p->forward, p->backward); std::cout << s << "\n" << PrintGraph(p->forward) << PrintGraph(p->backward); return 0;
  }
  auto s = Optimize(*l); if (!s.ok()) std::cout << s << "\n";
  std::cout << PrintGraph(*l);
}
