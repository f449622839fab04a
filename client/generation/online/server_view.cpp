#include "client/generation/online/server_view.h"

namespace edgedraft::client {

void ServerView::welcomed(const wire::Welcome& welcome) {
  signed_in = true;
  link_error.reset();
  link_closed = false;
  fresh_session = offered_session = welcome.session;
  nodes_max = welcome.nodes_max;
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

}  // namespace edgedraft::client
