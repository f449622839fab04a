#include "shared/drafting/index/index_builder.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"
#include "shared/drafting/index/suffix_order.h"
#include "shared/model/atomic_file.h"

namespace edgedraft {

IndexBuilder::IndexBuilder(IndexOptions options, ScratchFile corpus)
    : options_(std::move(options)), corpus_(std::move(corpus)) {}

Result<IndexBuilder> IndexBuilder::create(IndexOptions options) {
  auto corpus = ScratchFile::create(options.output);
  if (!corpus) return corpus.error();
  return IndexBuilder(std::move(options), std::move(*corpus));
}

Result<void> IndexBuilder::add(std::span<const std::uint32_t> document) {
  if (document.empty()) return {};
  EDGEDRAFT_CHECK(std::ranges::all_of(
      document, [&](std::uint32_t token) { return token < options_.vocabulary_count; }));
  if (corpus_.count() + document.size() + 1 > kIndexTokensMax) {
    return Error{
        Errc::usage,
        "the corpus has more tokens than an index can hold: split it and make several indexes"};
  }
  ++document_count_;
  if (auto written = corpus_.append(document); !written) return written.error();
  return corpus_.append(std::span(&kDocumentEnd, 1));
}

Result<IndexFacts> IndexBuilder::finish(std::function<void(std::uint64_t)> advance) {
  if (document_count_ == 0) return Error{Errc::usage, "the corpus is empty"};
  const auto tokens = corpus_.numbers();
  if (!tokens) return tokens.error();
  IndexFacts facts{.vocabulary_count = options_.vocabulary_count,
                   .token_count = static_cast<std::uint32_t>(tokens->size()),
                   .suffix_count = static_cast<std::uint32_t>(tokens->size() - document_count_),
                   .is_public = options_.is_public,
                   .tokenizer = options_.tokenizer};
  auto file = AtomicFile::create(options_.output);
  if (!file) return file.error();
  if (auto room = file->append(Bytes(kIndexHeaderBytes)); !room) return room.error();
  Sha256 content;
  const auto append = [&](std::span<const std::uint32_t> numbers) {
    content.update(std::as_bytes(numbers));
    return file->append(std::as_bytes(numbers));
  };
  if (auto written = append(*tokens); !written) return written.error();
  const auto sorted = sort_suffixes(*tokens,
                                    {.memory_bytes = options_.memory_bytes,
                                     .beside = options_.output,
                                     .advance = std::move(advance)},
                                    append);
  if (!sorted) return sorted.error();
  facts.content = content.finish();
  if (auto written = file->patch(0, to_header(facts)); !written) return written.error();
  if (auto committed = file->commit(); !committed) return committed.error();
  return facts;
}

}  // namespace edgedraft
