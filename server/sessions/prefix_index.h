#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shared/runtime/kv_pool.h"

namespace edgedraft::server {

// Prefix cache: maps token prefixes to full pages of keys and values. A sequence with a known
// prefix shares its pages instead of recomputing them. Keys and values of a position depend only on
// the tokens up to it, bit for bit.
//
// An identity finds only its own pages. Sharing across identities would leak other clients' prompts
// through response times.
//
// The index holds its pages like any sequence. Pages of dropped sequences stay until reclaim()
// frees them.
//
// Threads   one at a time
class PrefixIndex {
 public:
  // Requires  the pool outlives it
  explicit PrefixIndex(KvPool& pool) : pool_(pool) {}
  ~PrefixIndex() { clear(); }
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // Pages of the longest known prefix of `tokens`, whole pages only. The caller must hold them
  // before the next call.
  std::vector<std::uint32_t> find(const std::string& identity,
                                  std::span<const std::uint32_t> tokens);
  // Registers pages for find(), except those whose prefix is known.
  // Requires  tokens.size() == pages.size() * page_slots; each page has an owner
  void add(const std::string& identity, std::span<const std::uint32_t> tokens,
           std::span<const std::uint32_t> pages);
  // Frees the least recently found page that only the index holds. Returns false if there is none.
  bool reclaim();
  void clear();

  std::size_t page_count() const { return by_use_.size(); }

 private:
  using PageTokens = std::vector<std::uint32_t>;
  // A page and the pages that follow it.
  struct Node {
    Node* parent = nullptr;  // null for an identity's root, which has no page
    std::map<PageTokens, std::unique_ptr<Node>> children;
    std::map<PageTokens, std::unique_ptr<Node>>::iterator in_parent;
    std::map<std::string, Node>::iterator in_roots;  // set for roots
    std::uint32_t page = 0;
    std::list<Node*>::iterator place;
  };

  Node* child(Node& parent, std::span<const std::uint32_t> tokens) const;
  // Marks the pages from `last` up to the root as most recently used, each before its parent.
  void touch(Node* last);

  KvPool& pool_;
  std::map<std::string, Node> roots_;
  std::list<Node*> by_use_;  // least recently used first
};

}  // namespace edgedraft::server
