#include "client/generation/server_view.h"

#include <algorithm>

namespace edgedraft {

void ServerView::welcomed(const wire::Welcome& welcome) {
  signed_in = true;
  link_error.reset();
  link_closed = false;
  fresh_session = offered_session = welcome.session;
  nodes_max = welcome.nodes_max;
  row_budget = welcome.row_budget;
  stream_tokens_max = welcome.stream_tokens_max;
  runs = welcome.hint_nodes_max > 0;
  newest_row = welcome.newest_row;
  context_count = welcome.context_count;
  ask_again = {};
}

void ServerView::lost(const Error& error) {
  signed_in = false;
  link_error = error;
}

void ServerView::took_tokens(bool as_new_session) {
  if (as_new_session && fresh_session) session = fresh_session;
  fresh_session.reset();
}

void ServerView::forgot() {
  session.reset();
  fresh_session = offered_session;
  count = 0;
}

TreeShape ServerView::affordable(TreeShape shape) const {
  shape.nodes = std::min(shape.nodes, nodes_max);
  if (row_budget > 0) shape.nodes = std::min(shape.nodes, row_budget - 1);
  shape.limit(shape.nodes);
  return shape;
}

}  // namespace edgedraft
