#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/runtime/kv_pool.h"

namespace edgedraft {

// Full pages of keys and values by the tokens that they follow from, so that a sequence which
// begins as another one did shares its pages instead of computing them again. Keys and values of a
// position depend on the tokens up to it alone, bit for bit.
//
// An identity finds its own pages only. With another's it would learn from the time that an answer
// takes which prompts others had sent.
//
// The index is one of a page's holders. It keeps pages of sequences that are gone until reclaim()
// takes them.
//
// Threads   one at a time
class PrefixIndex {
 public:
  // Requires  the pool outlives it
  explicit PrefixIndex(KvPool& pool) : pool_(pool) {}
  ~PrefixIndex() { clear(); }
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The pages of the longest known beginning of `tokens`, whole pages only. The caller has to hold
  // them before anything else happens.
  std::vector<std::uint32_t> find(const std::string& identity,
                                  std::span<const std::uint32_t> tokens);
  // From now on find() knows these pages, but for those whose tokens it knows already.
  // Requires  tokens.size() == pages.size() * page_slots; somebody holds the pages
  void add(const std::string& identity, std::span<const std::uint32_t> tokens,
           std::span<const std::uint32_t> pages);
  // Frees the page that was longest not found and that nobody else holds. False: there is none.
  bool reclaim();
  // Forgets all pages.
  void clear();

  std::size_t page_count() const { return by_use_.size(); }

 private:
  using PageTokens = std::vector<std::uint32_t>;
  // A page and, below it, the pages that followed it.
  struct Node {
    Node* parent = nullptr;  // null for an identity's root, which is no page
    std::map<PageTokens, std::unique_ptr<Node>> children;
    std::map<PageTokens, std::unique_ptr<Node>>::iterator in_parent;
    std::map<std::string, Node>::iterator in_roots;  // of a root
    std::uint32_t page = 0;
    std::list<Node*>::iterator place;
  };

  Node* child(Node& parent, std::span<const std::uint32_t> tokens) const;
  // Marks the pages from `last` up to the root as just used, so that each stands before its parent.
  void touch(Node* last);

  KvPool& pool_;
  std::map<std::string, Node> roots_;
  std::list<Node*> by_use_;  // longest unused first
};

}  // namespace edgedraft
