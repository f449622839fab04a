#include "server/sessions/prefix_index.h"

#include <utility>

#include "shared/base/check.h"

namespace edgedraft::server {

KnownPrefix PrefixIndex::find(const std::string& identity, std::span<const std::uint32_t> tokens) {
  KnownPrefix known;
  const auto root = roots_.find(identity);
  if (root == roots_.end()) return known;
  Node* last = &root->second;
  Node* usable = last;
  std::size_t usable_count = 0;
  const std::uint32_t page_slots = pool_.size().page_slots;
  while (tokens.size() >= page_slots) {
    Node* const next = child(*last, tokens.first(page_slots));
    if (next == nullptr) break;
    known.pages.push_back(next->page);
    last = next;
    tokens = tokens.subspan(page_slots);
    if (needs_states_ && !next->states) continue;
    usable = next;
    usable_count = known.pages.size();
  }
  known.pages.resize(usable_count);
  known.states = usable->states;
  touch(usable);
  if (usable->states) touch_states(*usable);
  return known;
}

void PrefixIndex::add(const std::string& identity, std::span<const std::uint32_t> tokens,
                      std::span<const std::uint32_t> pages,
                      std::shared_ptr<const StateCheckpoint> states) {
  const std::uint32_t page_slots = pool_.size().page_slots;
  EDGEDRAFT_CHECK(tokens.size() == pages.size() * page_slots);
  EDGEDRAFT_CHECK(!states || states->length() == tokens.size());
  if (pages.empty()) return;
  const auto root = roots_.try_emplace(identity).first;
  root->second.in_roots = root;
  Node* last = &root->second;
  for (const std::uint32_t page : pages) {
    const auto own = tokens.first(page_slots);
    tokens = tokens.subspan(page_slots);
    Node* next = child(*last, own);
    if (next == nullptr) {
      const auto made =
          last->children.emplace(PageTokens(own.begin(), own.end()), std::make_unique<Node>());
      next = made.first->second.get();
      next->parent = last;
      next->in_parent = made.first;
      next->page = page;
      next->place = by_use_.insert(by_use_.end(), next);
      pool_.share(page);
    }
    last = next;
  }
  touch(last);
  if (!states || last->states) return;
  last->states = std::move(states);
  last->states_place = states_by_use_.insert(states_by_use_.end(), last);
}

bool PrefixIndex::reclaim() {
  for (Node* node : by_use_) {
    // A page is useful only if all earlier ones are known, so leaves are evicted first.
    if (!node->children.empty() || pool_.holders(node->page) > 1) continue;
    pool_.give_back(node->page);
    drop_states(*node);
    by_use_.erase(node->place);
    Node* const parent = node->parent;
    parent->children.erase(node->in_parent);
    if (parent->parent == nullptr && parent->children.empty()) roots_.erase(parent->in_roots);
    return true;
  }
  return false;
}

bool PrefixIndex::reclaim_states() {
  if (states_by_use_.empty()) return false;
  drop_states(*states_by_use_.front());
  return true;
}

void PrefixIndex::clear() {
  for (const Node* node : by_use_) pool_.give_back(node->page);
  by_use_.clear();
  states_by_use_.clear();
  roots_.clear();
}

PrefixIndex::Node* PrefixIndex::child(Node& parent, std::span<const std::uint32_t> tokens) const {
  const auto found = parent.children.find(PageTokens(tokens.begin(), tokens.end()));
  return found == parent.children.end() ? nullptr : found->second.get();
}

void PrefixIndex::touch(Node* last) {
  for (Node* node = last; node->parent != nullptr; node = node->parent) {
    by_use_.splice(by_use_.end(), by_use_, node->place);
  }
}

void PrefixIndex::touch_states(Node& node) {
  states_by_use_.splice(states_by_use_.end(), states_by_use_, node.states_place);
}

void PrefixIndex::drop_states(Node& node) {
  if (!node.states) return;
  states_by_use_.erase(node.states_place);
  node.states.reset();
}

}  // namespace edgedraft::server
