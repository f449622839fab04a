#include "client/engine/drafter_selection.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/drafting/kinds.h"

namespace edgedraft::client {
namespace {

using Names = std::vector<std::string>;

struct Candidate {
  std::size_t bundle;
  Names joining;  // kinds that join automatically, besides the user's choice
};

Names joining_kinds(const DrafterWishes& wishes) {
  Names names;
  if (!wishes.merges_if_faster || !wishes.kind.empty()) return names;
  for (const DrafterKind* kind : drafter_kinds()) {
    const bool has_what_it_needs = !kind->drafts_from_indexes() || !wishes.indexes.empty();
    if (kind->joins_others && has_what_it_needs) names.emplace_back(kind->name);
  }
  return names;
}

std::string plus(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += "+" + name;
  return text;
}

RunMemory::Key key_of(const std::string& server, const BundleFile& bundle, const Names& joining) {
  const auto& drafter = bundle.hello().drafter;
  return {.server = server,
          .drafter = std::string(bundle.drafter_kind()) + plus(joining) +
                     (drafter ? ' ' + to_hex(*drafter) : "")};
}

Result<std::vector<BundleFile>> open_all(const DrafterWishes& wishes, BundleUse use) {
  std::vector<BundleFile> bundles;
  for (const std::filesystem::path& path : wishes.bundles) {
    auto bundle = BundleFile::open(path, use, wishes.kind, wishes.indexes);
    if (!bundle) return bundle.error();
    if (auto merged = bundle->merge(wishes.merge); !merged) return merged.error();
    bundles.push_back(std::move(*bundle));
    const wire::Hello& first = bundles.front().hello();
    const wire::Hello& hello = bundles.back().hello();
    if (hello.target != first.target || hello.tokenizer != first.tokenizer) {
      return Error{Errc::mismatch,
                   wishes.bundles.front().string() + " and " + path.string() +
                       " were made for different targets: give bundles for one target"};
    }
  }
  return bundles;
}

}  // namespace

Result<SelectedDrafter> select_drafter(const DrafterWishes& wishes, BundleUse use,
                                       const RunMemory* memory, const AnswersExpected& answers) {
  EDGEDRAFT_CHECK(!wishes.bundles.empty());
  auto bundles = open_all(wishes, use);
  if (!bundles) return bundles.error();
  std::vector<Candidate> candidates;
  std::vector<KnownDrafter> drafters;
  const Names joining = joining_kinds(wishes);
  for (std::size_t i = 0; memory != nullptr && i < bundles->size(); ++i) {
    const BundleFile& bundle = (*bundles)[i];
    for (const Names& names : {Names{}, joining}) {
      if (names.empty() && !candidates.empty() && candidates.back().bundle == i) continue;
      candidates.push_back({.bundle = i, .joining = names});
      drafters.push_back({.name = bundle.path().stem().string() + plus(names),
                          .known = memory->find(key_of(answers.server, bundle, names))});
    }
  }
  if (candidates.size() < 2) {
    BundleFile& first = bundles->front();
    auto key = key_of(answers.server, first, {});
    return SelectedDrafter{.bundle = std::move(first), .memory_key = std::move(key), .why = {}};
  }
  DrafterChoice choice =
      choose_drafter(drafters, answers.breadth, answers.tokens, answers.on_battery);
  const Candidate& taken = candidates[choice.index];
  BundleFile& bundle = (*bundles)[taken.bundle];
  auto key = key_of(answers.server, bundle, taken.joining);
  if (auto merged = bundle.merge(taken.joining); !merged) return merged.error();
  return SelectedDrafter{
      .bundle = std::move(bundle), .memory_key = std::move(key), .why = std::move(choice.why)};
}

DrafterChoice choose_drafter(std::span<const KnownDrafter> drafters, std::uint32_t breadth,
                             std::uint32_t tokens, bool on_battery) {
  EDGEDRAFT_CHECK(!drafters.empty());
  for (std::size_t i = 0; i < drafters.size(); ++i) {
    const auto& known = drafters[i].known;
    if (!known || !RunControl(*known).knows_enough()) {
      return {.index = i, .why = drafters[i].name + " has not been measured yet"};
    }
  }
  DrafterChoice choice{.index = 0, .why = "tokens/s"};
  double best = 0.0;
  for (std::size_t i = 0; i < drafters.size(); ++i) {
    const double predicted =
        RunControl(*drafters[i].known).fastest(breadth, tokens, on_battery).tokens_per_second;
    choice.why +=
        (i == 0 ? ": " : ", ") + drafters[i].name + " " + std::to_string(std::lround(predicted));
    if (RunControl::kAsFast * predicted > best) {
      choice.index = i;
      best = predicted;
    }
  }
  return choice;
}

}  // namespace edgedraft::client
