#include "server/sessions/prefix_index.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft::server {

PrefixIndex::PrefixIndex(KvPool& pool, const Options& options)
    : pool_(pool),
      windowed_(options.windowed),
      window_(options.window),
      needs_states_(options.needs_states) {
  if (windowed_ != nullptr) windowed_->set_reclaimer([this] { return reclaim_window_page(); });
}

PrefixIndex::~PrefixIndex() {
  clear();
  if (windowed_ != nullptr) windowed_->set_reclaimer({});
}

KnownPrefix PrefixIndex::find(const std::string& identity, std::span<const std::uint32_t> tokens) {
  const auto root = roots_.find(identity);
  if (root == roots_.end()) return {};
  const std::uint32_t page_slots = pool_.size().page_slots;
  std::vector<Node*> path;
  std::size_t count = 0;         // pages of the prefix
  std::size_t window_begin = 0;  // first of its last pages that all have pages of windows
  std::size_t begin = 0;
  for (Node* last = &root->second; tokens.size() >= page_slots;
       tokens = tokens.subspan(page_slots)) {
    last = child(*last, tokens.first(page_slots));
    if (last == nullptr) break;
    path.push_back(last);
    if (!last->window_page) begin = path.size();
    if (windowed_ != nullptr && begin > needed_from(path.size())) continue;
    if (needs_states_ && !last->states) continue;
    count = path.size();
    window_begin = begin;
  }
  KnownPrefix found;
  path.resize(count);
  for (const Node* node : path) found.pages.push_back(node->page);
  if (count == 0) return found;
  touch(path.back());
  found.states = path.back()->states;
  if (found.states) touch_states(*path.back());
  if (windowed_ == nullptr) return found;
  const std::size_t kept =
      WindowPages::kept_from(window_, static_cast<std::uint32_t>(count) * page_slots, page_slots);
  for (std::size_t i = std::max(window_begin, kept); i < count; ++i) {
    found.window_pages.push_back(*path[i]->window_page);
    windows_by_use_.splice(windows_by_use_.end(), windows_by_use_, path[i]->window_place);
  }
  return found;
}

void PrefixIndex::add(const std::string& identity, std::span<const std::uint32_t> tokens,
                      std::span<const std::uint32_t> pages,
                      std::span<const std::uint32_t> window_pages,
                      std::shared_ptr<const StateCheckpoint> states) {
  const std::uint32_t page_slots = pool_.size().page_slots;
  EDGEDRAFT_CHECK(tokens.size() == pages.size() * page_slots);
  EDGEDRAFT_CHECK(window_pages.size() <= pages.size());
  EDGEDRAFT_CHECK(!states || states->length() == tokens.size());
  if (pages.empty()) return;
  const auto root = roots_.try_emplace(identity).first;
  root->second.in_roots = root;
  Node* last = &root->second;
  const std::size_t first_window = pages.size() - window_pages.size();
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto own = tokens.first(page_slots);
    tokens = tokens.subspan(page_slots);
    Node* next = child(*last, own);
    if (next == nullptr) {
      const auto made =
          last->children.emplace(PageTokens(own.begin(), own.end()), std::make_unique<Node>());
      next = made.first->second.get();
      next->parent = last;
      next->in_parent = made.first;
      next->page = pages[i];
      next->place = by_use_.insert(by_use_.end(), next);
      pool_.share(pages[i]);
    }
    if (i >= first_window && !next->window_page) {
      next->window_page = window_pages[i - first_window];
      next->window_place = windows_by_use_.insert(windows_by_use_.end(), next);
      windowed_->share(*next->window_page);
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
    drop_window_page(*node);
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
  for (Node* node : by_use_) {
    pool_.give_back(node->page);
    drop_window_page(*node);
  }
  by_use_.clear();
  states_by_use_.clear();
  roots_.clear();
}

std::uint32_t PrefixIndex::needed_from(std::size_t count) const {
  const std::uint32_t page_slots = pool_.size().page_slots;
  return WindowPages::needed_from(window_, static_cast<std::uint32_t>(count) * page_slots,
                                  page_slots);
}

void PrefixIndex::drop_window_page(Node& node) {
  if (!node.window_page) return;
  windowed_->give_back(*node.window_page);
  windows_by_use_.erase(node.window_place);
  node.window_page.reset();
}

bool PrefixIndex::reclaim_window_page() {
  const auto found = std::ranges::find_if(windows_by_use_, [&](const Node* node) {
    return windowed_->holders(*node->window_page) == 1;
  });
  if (found == windows_by_use_.end()) return false;
  drop_window_page(**found);
  return true;
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
