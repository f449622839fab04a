#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/runtime/checkpoint_pool.h"
#include "shared/runtime/window_pages.h"

namespace edgedraft::server {

// A known prefix of a sequence.
struct KnownPrefix {
  std::vector<std::uint32_t> pages;  // full pages of keys and values
  // Pages of layers with windows, which need those of the last positions only: of the last of
  // `pages`.
  std::vector<std::uint32_t> window_pages;
  // Recurrent states after the pages; null without pages or without recurrent layers.
  std::shared_ptr<const StateCheckpoint> states = nullptr;
};

// Prefix cache: maps token prefixes to full pages of keys and values. A sequence with a known
// prefix shares its pages instead of recomputing them. Keys and values of a position depend only on
// the tokens up to it, bit for bit.
//
// An identity finds only its own pages. Sharing across identities would leak other clients' prompts
// through response times.
//
// With recurrent layers, only pages up to a checkpoint of their states continue a sequence.
//
// The index holds its pages like any sequence. Pages of dropped sequences stay until reclaim()
// frees them.
//
// Layers with windows have pages in a pool of their own. The index gives them up when that pool is
// short; a prefix then ends earlier, where its last window is known.
//
// Threads   one at a time
class PrefixIndex {
 public:
  struct Options {
    KvPool* windowed = nullptr;  // of the layers with windows; null: there are none
    std::uint32_t window = 0;    // the largest of them
    bool needs_states = false;   // the decoder has recurrent layers
  };
  // Requires  the pools, and that of the checkpoints, outlive it
  explicit PrefixIndex(KvPool& pool) : PrefixIndex(pool, Options()) {}
  PrefixIndex(KvPool& pool, const Options& options);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The longest known prefix of `tokens`, whole pages only, from which a sequence can continue: its
  // windows have their pages, and its states a checkpoint. The caller must hold the pages before
  // the next call.
  KnownPrefix find(const std::string& identity, std::span<const std::uint32_t> tokens);
  // Registers pages for find(), except those whose prefix is known. `window_pages`: of the last of
  // `pages`; `states`: a checkpoint after them.
  // Requires  tokens.size() == pages.size() * page_slots; each page has an owner; states of
  //           tokens.size() positions or null
  void add(const std::string& identity, std::span<const std::uint32_t> tokens,
           std::span<const std::uint32_t> pages, std::span<const std::uint32_t> window_pages = {},
           std::shared_ptr<const StateCheckpoint> states = nullptr);
  // Frees the least recently found page that only the index holds. Returns false if there is none.
  bool reclaim();
  // Drops the checkpoint that was added or found least recently. Returns false if there is none.
  bool reclaim_states();
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
    std::shared_ptr<const StateCheckpoint> states;  // after the page; null: none
    std::list<Node*>::iterator states_place;        // set with states
    std::optional<std::uint32_t> window_page;
    std::list<Node*>::iterator window_place;  // if it has such a page
  };

  Node* child(Node& parent, std::span<const std::uint32_t> tokens) const;
  // Marks the pages from `last` up to the root as most recently used, each before its parent.
  void touch(Node* last);
  void touch_states(Node& node);
  void drop_states(Node& node);
  // First page of windows that a prefix of `count` pages needs.
  std::uint32_t needed_from(std::size_t count) const;
  void drop_window_page(Node& node);
  // Frees the least recently used page of windows that only the index holds; false if there is
  // none.
  bool reclaim_window_page();

  KvPool& pool_;
  KvPool* windowed_;
  std::uint32_t window_;
  bool needs_states_;
  std::map<std::string, Node> roots_;
  std::list<Node*> by_use_;          // least recently used first
  std::list<Node*> windows_by_use_;  // nodes with pages of windows, likewise
  // Nodes with a checkpoint, likewise. A checkpoint is used if a sequence continues after it, not
  // if one passes it: few of a long text are needed.
  std::list<Node*> states_by_use_;
};

}  // namespace edgedraft::server
