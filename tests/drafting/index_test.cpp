// For any memory limit, an index finds the same runs as a linear search of its corpus. A damaged
// file is refused, or all results are valid tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "shared/base/random.h"
#include "shared/drafting/index/corpus_index.h"
#include "shared/drafting/index/index_builder.h"
#include "shared/drafting/index/retrieval_drafter.h"
#include "shared/drafting/kinds.h"
#include "shared/model/fingerprint.h"
#include "shared/speculative/tree_operations.h"
#include "tests/support/expect.h"
#include "tests/support/random_tokens.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tree_paths.h"

namespace edgedraft {
namespace {

using testing::paths_of;
using testing::random_tokens;
using testing::scores_of;
using Tokens = std::vector<std::uint32_t>;
using Documents = std::vector<Tokens>;

// Bytes per suffix held in memory.
constexpr std::uint64_t kSuffixBytes = 16;

Documents random_documents(Random& random, std::uint32_t vocabulary) {
  Documents documents(1 + random.below(6));
  for (Tokens& document : documents) {
    document = random_tokens(random, 1 + random.below(60), vocabulary);
  }
  return documents;
}

// Reference: counts the occurrences of a run by linear search.
std::uint64_t count_of(const Documents& documents, std::span<const std::uint32_t> run) {
  std::uint64_t count = 0;
  for (const Tokens& document : documents) {
    auto at = document.begin();
    while ((at = std::search(at, document.end(), run.begin(), run.end())) != document.end()) {
      ++count;
      ++at;
    }
  }
  return count;
}

// Counts every prefix of the tokens that follow a run.
std::map<Tokens, std::uint64_t> followers_of(const Documents& documents,
                                             std::span<const std::uint32_t> run,
                                             std::size_t length_max) {
  std::map<Tokens, std::uint64_t> counts;
  for (const Tokens& document : documents) {
    for (std::size_t end = run.size(); end < document.size(); ++end) {
      if (!std::equal(run.begin(), run.end(),
                      document.begin() + static_cast<long>(end - run.size()))) {
        continue;
      }
      Tokens path;
      for (std::size_t p = end; p < std::min(end + length_max, document.size()); ++p) {
        path.push_back(document[p]);
        ++counts[path];
      }
    }
  }
  return counts;
}

std::map<Tokens, std::uint64_t> paths_of_trie(const ContinuationTrie& trie) {
  std::map<Tokens, std::uint64_t> counts;
  std::vector<std::pair<std::uint32_t, Tokens>> open{{0, {}}};
  while (!open.empty()) {
    const auto [node, path] = open.back();
    open.pop_back();
    for (std::uint32_t child = trie.nodes[node].child; child != 0;
         child = trie.nodes[child].sibling) {
      Tokens below = path;
      below.push_back(trie.nodes[child].token);
      EXPECT_TRUE(counts.emplace(below, trie.nodes[child].count).second) << "duplicate sibling";
      open.emplace_back(child, below);
    }
  }
  return counts;
}

class CorpusIndexTest : public ::testing::Test {
 protected:
  std::filesystem::path build(const Documents& documents, std::uint32_t vocabulary,
                              std::uint64_t suffixes_at_once = 1u << 16) {
    const auto path = directory_ / "corpus.index";
    auto builder = IndexBuilder::create({.output = path,
                                         .vocabulary_count = vocabulary,
                                         .tokenizer = {},
                                         .is_public = true,
                                         .memory_bytes = kSuffixBytes * suffixes_at_once});
    EXPECT_TRUE(builder);
    for (const Tokens& document : documents) EXPECT_TRUE(builder->add(document));
    EXPECT_TRUE(builder->finish([](std::uint64_t) {}));
    return path;
  }
  CorpusIndex open(const Documents& documents, std::uint32_t vocabulary,
                   std::uint64_t suffixes_at_once = 1u << 16) {
    return CorpusIndex::open(build(documents, vocabulary, suffixes_at_once)).value();
  }

  test::TemporaryDirectory directory_;
};

TEST_F(CorpusIndexTest, HoldsSortedSuffixesForAnyMemoryLimit) {
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    const auto vocabulary = 1 + static_cast<std::uint32_t>(random.below(4));
    const Documents documents = random_documents(random, vocabulary);
    std::vector<Tokens> suffixes;  // cut where the order ends
    for (const Tokens& document : documents) {
      for (auto at = document.begin(); at != document.end(); ++at) {
        suffixes.emplace_back(
            at, std::min(document.end(),
                         at + std::min<std::ptrdiff_t>(kIndexOrder, document.end() - at)));
      }
    }
    std::ranges::stable_sort(suffixes);
    const std::string at_once = test::file_text(build(documents, vocabulary));
    const CorpusIndex index = open(documents, vocabulary, 2 + random.below(suffixes.size() + 1));
    ASSERT_EQ(test::file_text(directory_ / "corpus.index"), at_once) << "round " << round;
    ASSERT_EQ(index.facts().suffix_count, suffixes.size());
    ASSERT_EQ(index.facts().token_count, suffixes.size() + documents.size());
    for (std::uint32_t i = 0; i < suffixes.size(); ++i) {
      const auto found = index.tokens(i, 0, kIndexOrder);
      ASSERT_TRUE(std::ranges::equal(found, suffixes[i])) << "round " << round << ", " << i;
    }
    EXPECT_EQ(directory_.file_count(), 1u) << "no temporary files";
  }
}

TEST_F(CorpusIndexTest, MatchesCorpusSearch) {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    const auto vocabulary = 1 + static_cast<std::uint32_t>(random.below(5));
    const Documents documents = random_documents(random, vocabulary);
    const CorpusIndex index = open(documents, vocabulary, 7);
    for (int look = 0; look < 100; ++look) {
      // Runs from the corpus, random runs, and runs with a token outside it.
      const Tokens& document = documents[random.below(documents.size())];
      Tokens context = random_tokens(random, random.below(3), vocabulary + 1);
      const std::uint64_t first = random.below(document.size());
      context.insert(
          context.end(), document.begin() + static_cast<long>(first),
          document.begin() + static_cast<long>(first + random.below(document.size() - first + 1)));
      if (context.size() > kIndexOrder) context.resize(kIndexOrder);
      if (context.empty()) continue;
      ASSERT_EQ(index.find(context).count(), count_of(documents, context)) << "round " << round;

      std::uint32_t longest = 0;
      while (longest < std::min<std::size_t>(context.size(), kMatchMax) &&
             count_of(documents, std::span(context).last(longest + 1)) > 0) {
        ++longest;
      }
      const auto match = index.longest_match(context, kMatchMax);
      ASSERT_EQ(match.length, longest) << "round " << round;
      if (longest > 0) {
        ASSERT_EQ(match.suffixes, index.find(std::span(context).last(longest)));
      }
    }
  }
}

TEST_F(CorpusIndexTest, CountsFollowersAndSamplesManyPlaces) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const auto vocabulary = 1 + static_cast<std::uint32_t>(random.below(4));
    Documents documents = random_documents(random, vocabulary);
    if (round % 2 == 0) documents.push_back(random_tokens(random, 3000, vocabulary));
    const CorpusIndex index = open(documents, vocabulary);
    for (int look = 0; look < 20; ++look) {
      const Tokens context = random_tokens(random, 1 + random.below(4), vocabulary);
      const auto match = index.longest_match(context, kMatchMax);
      if (match.length == 0) continue;
      const auto run = std::span(context).last(match.length);
      const auto exact = followers_of(documents, run, kCopiedMax);
      const auto found = paths_of_trie(continuations(index, match, kCopiedMax));
      const double all = match.suffixes.count();
      const double looked_at = std::min(all, static_cast<double>(kPlacesMax));
      if (all <= kPlacesMax) {
        ASSERT_EQ(found, exact) << "round " << round;
      }
      for (const auto& [path, count] : exact) {
        const auto place = found.find(path);
        const double share =
            place == found.end() ? 0.0 : static_cast<double>(place->second) / looked_at;
        ASSERT_NEAR(share, static_cast<double>(count) / all, 1.0 / kPlacesMax) << "round " << round;
      }
      for (const auto& [path, count] : found) ASSERT_TRUE(exact.contains(path));
    }
  }
}

TEST_F(CorpusIndexTest, TreesFitShapeAndHoldLikeliestPaths) {
  Random random(4);
  for (int round = 0; round < 200; ++round) {
    const Documents documents = random_documents(random, 4);
    const CorpusIndex index = open(documents, 4);
    const Tokens context = random_tokens(random, 1 + random.below(20), 5);
    const TreeShape shape{.breadth = 1 + static_cast<std::uint32_t>(random.below(4)),
                          .depth = 1 + static_cast<std::uint32_t>(random.below(12)),
                          .nodes = 1 + static_cast<std::uint32_t>(random.below(30))};
    const DraftTree tree = continuation_tree(index, context, shape);
    ASSERT_LE(tree.node_count(), shape.nodes);
    const auto match = index.longest_match(context, kMatchMax);
    ASSERT_EQ(match.length == 0, count_of(documents, std::span(context).last(1)) == 0);
    if (match.length == 0) {
      ASSERT_TRUE(tree.empty());
      continue;
    }
    const auto exact = followers_of(documents, std::span(context).last(match.length), kCopiedMax);
    std::vector<std::uint32_t> children(tree.row_count(), 0);
    for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
      ASSERT_LE(++children[tree.parent(row)], shape.breadth);
      ASSERT_LT(tree.score(row), tree.score(tree.parent(row))) << "every score is below certainty";
    }
    const auto scores = scores_of(tree);
    ASSERT_EQ(scores.size(), tree.node_count()) << "no duplicate siblings";
    for (const auto& [path, score] : scores) {
      ASSERT_TRUE(exact.contains(path));
      ASSERT_LE(path.size(), shape.copied_depth());
      // A more frequent sibling is also present.
      for (const auto& [other, count] : exact) {
        if (other.size() != path.size() ||
            !std::equal(path.begin(), path.end() - 1, other.begin())) {
          continue;
        }
        if (count > exact.at(path)) {
          ASSERT_TRUE(scores.contains(other));
        }
      }
    }
  }
}

TEST_F(CorpusIndexTest, DrafterDependsOnTextNotHistory) {
  Random random(5);
  const Documents documents{random_tokens(random, 400, 4), random_tokens(random, 300, 4)};
  auto indexes = std::make_shared<std::vector<CorpusIndex>>();
  indexes->push_back(open({documents[0]}, 4));
  indexes->push_back(open({documents[1]}, 4));
  RetrievalDrafter drafter(indexes, 50);
  Tokens text;
  for (int step = 0; step < 200; ++step) {
    if (random.below(3) > 0 && text.size() < 40) {
      const Tokens more = random_tokens(random, 1 + random.below(5), 4);
      drafter.append(more);
      text.insert(text.end(), more.begin(), more.end());
    } else if (!text.empty()) {
      text.resize(1 + random.below(text.size()));
      drafter.truncate(static_cast<std::uint32_t>(text.size()));
    }
    if (text.empty()) continue;
    ASSERT_EQ(drafter.token_count(), text.size());
    const TreeShape shape{.breadth = 4, .depth = 6, .nodes = 20};
    const DraftTree expected = merge(continuation_tree((*indexes)[0], text, shape),
                                     continuation_tree((*indexes)[1], text, shape), shape.nodes);
    ASSERT_EQ(scores_of(drafter.draft(shape)), scores_of(expected)) << "step " << step;
  }
  drafter.truncate(1);
  drafter.append(Tokens(47, 0));
  for (const auto& path : paths_of(drafter.draft({.breadth = 2, .depth = 6, .nodes = 20}))) {
    EXPECT_LE(path.size(), 2u) << "two more tokens fit";
  }
  EXPECT_TRUE(drafter.next_logits().empty());
}

TEST_F(CorpusIndexTest, RejectsWrongVersionOrLength) {
  const auto path = build({{1, 2, 3, 1, 2}}, 4);
  const std::string good = test::file_text(path);
  const auto refusal = [&](const std::string& bytes) {
    const auto index = CorpusIndex::open(directory_.write("other.index", bytes));
    EXPECT_FALSE(index);
    if (index) return std::string();
    EXPECT_TRUE(fails_with(index, Errc::bad_file, "other.index"));
    return index.error().message;
  };
  ASSERT_TRUE(CorpusIndex::open(path));
  for (std::size_t length = 0; length < good.size(); ++length) refusal(good.substr(0, length));
  EXPECT_TRUE(contains(refusal(good + "more"), "extended"));
  for (std::size_t at = 0; at < kIndexHeaderBytes; ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    refusal(bytes);
  }
  std::string version = good;
  version[8] = 2;
  EXPECT_TRUE(contains(refusal(version), "version 2"));
  EXPECT_EQ(CorpusIndex::open(directory_ / "nowhere").error().code, Errc::io);
  // A correct digest over an inconsistent header.
  IndexFacts facts{.vocabulary_count = 4, .token_count = 1, .suffix_count = 2};
  const Bytes header = to_header(facts);
  refusal(std::string(reinterpret_cast<const char*>(header.data()), header.size()) +
          std::string(12, '\0'));
}

TEST_F(CorpusIndexTest, DamagedFileYieldsValidTokens) {
  Random random(6);
  const std::string good = test::file_text(build({random_tokens(random, 100, 9)}, 9));
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    for (std::uint64_t i = 0; i < 1 + random.below(60); ++i) {
      const std::uint64_t at = kIndexHeaderBytes + random.below(bytes.size() - kIndexHeaderBytes);
      bytes[at] = static_cast<char>(random());
    }
    const auto index = CorpusIndex::open(directory_.write("damaged.index", bytes));
    ASSERT_TRUE(index);
    EXPECT_EQ(index->check_content().has_value(), bytes == good);
    for (int look = 0; look < 20; ++look) {
      const Tokens context = random_tokens(random, 1 + random.below(20), 9);
      const DraftTree tree = continuation_tree(*index, context, {});
      ASSERT_EQ(scores_of(tree).size(), tree.node_count());
      for (const DraftNode& node : tree.nodes()) ASSERT_LT(node.token, 9u);
    }
  }
}

TEST_F(CorpusIndexTest, RejectsEmptyCorpusAndLeavesNoFiles) {
  auto builder = IndexBuilder::create({.output = directory_ / "none.index", .vocabulary_count = 3});
  ASSERT_TRUE(builder);
  ASSERT_TRUE(builder->add({}));
  EXPECT_TRUE(fails_with(builder->finish([](std::uint64_t) {}), Errc::usage));
  EXPECT_EQ(directory_.file_count(), 0u);
  EXPECT_EQ(IndexBuilder::create({.output = directory_ / "no" / "folder"}).error().code, Errc::io);
}

TEST_F(CorpusIndexTest, RetrievalRequiresIndexOfSameTokenizer) {
  const GgufFile target = GgufFile::open(EDGEDRAFT_MODELS "/target.gguf").value();
  const DrafterKind* const kind = find_drafter_kind("retrieval");
  ASSERT_NE(kind, nullptr);
  EXPECT_TRUE(fails_with(kind->read(target), Errc::usage, "--index"));
  const std::vector<std::filesystem::path> paths{build({{1, 2, 3}}, 4)};
  EXPECT_TRUE(fails_with(kind->read_with_indexes(target, paths), Errc::mismatch, "corpus.index"));
}

// A crafted file can have correct digests.
TEST_F(CorpusIndexTest, RetrievalRejectsIndexOfOtherVocabularySize) {
  const GgufFile target = GgufFile::open(EDGEDRAFT_MODELS "/target.gguf").value();
  const DrafterKind* const kind = find_drafter_kind("retrieval");
  ASSERT_NE(kind, nullptr);
  const auto texts = target.get_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(texts);
  const auto right = static_cast<std::uint32_t>(texts->size());
  const Tokens content{7, kDocumentEnd, 0};  // a document, its end, and the one suffix
  const ByteView numbers = std::as_bytes(std::span(content));
  const IndexFacts facts{.vocabulary_count = right,
                         .token_count = 2,
                         .suffix_count = 1,
                         .is_public = true,
                         .tokenizer = tokenizer_fingerprint(target).value(),
                         .content = sha256(numbers)};
  const auto read_with = [&](std::uint32_t vocabulary_count) {
    IndexFacts said = facts;
    said.vocabulary_count = vocabulary_count;
    const Bytes header = to_header(said);
    std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
    bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size());
    const std::vector<std::filesystem::path> paths{directory_.write("made_up.index", bytes)};
    return kind->read_with_indexes(target, paths);
  };
  EXPECT_TRUE(read_with(right));
  for (const std::uint32_t count : {right - 1, right + 5, 0xFFFF'FFF0u}) {
    EXPECT_TRUE(fails_with(read_with(count), Errc::mismatch, "made_up.index")) << count;
  }
}

}  // namespace
}  // namespace edgedraft
