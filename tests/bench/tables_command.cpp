#include "tests/bench/tables_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>

#include "client/engine/bundle_file.h"
#include "shared/base/clock.h"
#include "shared/base/percentile.h"
#include "shared/base/progress.h"
#include "shared/base/text_file.h"
#include "shared/program/validators.h"

namespace edgedraft::bench {
namespace {

constexpr const char* kTablesHelp =
    R"(Follows a text as a conversation grows, and prints what a cycle takes of each drafter without weights: three
tokens are written, of which two are taken back and one is kept, and a tree is drafted behind it. The text should
be none that an index holds; what is looked up then lies anywhere in it. Pages of an index that are not in memory
yet are read in a first round that is not timed.

Example:
  edgedraft-bench tables --model target.gguf --kinds ngram,retrieval --index corpus.index --text other.txt)";

constexpr std::uint64_t kFollowedTextBytesMax = 1u << 26;

}  // namespace

void declare_tables(CLI::App& app, TablesOptions& o) {
  app.footer(kTablesHelp);
  app.add_option("--model", o.model, "Any file with the tokenizer")->type_name("FILE.gguf");
  app.add_option("--kinds", o.kinds, "Drafters that need no bundle")
      ->type_name("KIND,...")
      ->delimiter(',');
  app.add_option("--index", o.indexes, "Index for the drafters that look things up (repeatable)")
      ->type_name("FILE");
  app.add_option("--text", o.text, "The text whose tokens they follow")->type_name("FILE");
  app.add_option("--tree", o.tree, "Shape of the drafted trees: breadth, depth, nodes")
      ->delimiter(',')
      ->expected(3)
      ->capture_default_str();
  app.add_option("--cycles", o.cycles, "Most cycles to time")
      ->check(in_range(1u, std::numeric_limits<std::uint32_t>::max()))
      ->capture_default_str();
  app.add_option("--conversation", o.conversation,
                 "Tokens of a conversation, after which another begins")
      ->check(CLI::Range(10u, 100'000u))
      ->capture_default_str();
}

Result<int> run_tables(const TablesOptions& o) {
  if (o.model.empty() || o.kinds.empty() || o.text.empty()) {
    return Error{Errc::usage, "give --model FILE.gguf, --kinds KIND,... and --text FILE"};
  }
  const TreeShape shape{.breadth = o.tree[0], .depth = o.tree[1], .nodes = o.tree[2]};
  if (!valid(shape)) return Error{Errc::usage, "no such tree: see edgedraft run --help"};
  const auto text = read_text(o.text, kFollowedTextBytesMax);
  if (!text) return text.error();
  const auto backend = make_cpu_backend({.threads = 1});
  std::printf("%-12s %10s %10s %10s %10s\n", "", "median", "mean", "99 %", "nodes");
  for (const std::string& kind : o.kinds) {
    const auto file = BundleFile::open(o.model, BundleUse::draft, kind, o.indexes);
    if (!file) return file.error();
    const std::vector<std::uint32_t> tokens = file->encode_raw(*text);
    if (tokens.size() < 10) return Error{Errc::usage, "--text: too short"};
    const std::size_t cycles = std::min<std::size_t>(o.cycles, tokens.size() - 3);
    std::vector<double> micros;
    double nodes = 0.0;
    Progress progress(kind, 2 * cycles);
    for (const bool timed : {false, true}) {
      auto drafter = file->make_drafter(*backend);
      for (std::size_t at = 0; at < cycles; ++at) {
        if (drafter->token_count() >= o.conversation) drafter = file->make_drafter(*backend);
        const Instant start = Clock::now();
        drafter->append(std::span(tokens).subspan(at, 3));
        drafter->truncate(drafter->token_count() - 2);
        const DraftTree tree = drafter->draft(shape);
        const Instant end = Clock::now();
        progress.advance(1);
        if (!timed) continue;
        micros.push_back(1e6 * seconds(end - start));
        nodes += tree.node_count();
      }
    }
    double sum = 0.0;
    for (const double us : micros) sum += us;
    const auto count = static_cast<double>(micros.size());
    std::printf("%-12s %7.1f us %7.1f us %7.1f us %10.1f\n", kind.c_str(), percentile(micros, 0.5),
                sum / count, percentile(micros, 0.99), nodes / count);
  }
  return 0;
}

}  // namespace edgedraft::bench
