#include <algorithm>
#include <deque>

#include "tests/server/session_memory_rig.h"

// Sessions that outgrow the memory.
namespace edgedraft::server {
namespace {

using testing::kToyVocabulary;
using testing::SessionMemoryTest;

// Clients that draft large trees at once, with too little memory for all.
class GrowthTest : public SessionMemoryTest {
 protected:
  struct Peer {
    Client client;
    Tokens prompt;
    Tokens expected;
    Tokens answer = {};

    bool done() const { return answer.size() >= expected.size(); }
  };

  void refill(PassLoop& server, Peer& peer) {
    ask_in_lockstep(server, peer.client, testing::joined(peer.prompt, peer.answer));
  }

  // A full tree with two right tokens.
  void draft_widely(PassLoop& server, Peer& peer) {
    std::vector<HintNode> nodes;
    for (std::size_t i = peer.answer.size(); i < peer.expected.size() && nodes.size() < 2; ++i) {
      const std::uint16_t distance = nodes.empty() ? 0 : 1;
      nodes.push_back({.token = peer.expected[i], .distance = distance});
    }
    while (nodes.size() < kDraftNodesMax) {
      const auto distance = static_cast<std::uint16_t>(random_.below(nodes.size() + 1));
      nodes.push_back({.token = static_cast<std::uint32_t>(random_.below(kToyVocabulary)),
                       .distance = distance});
    }
    draft(server, peer.client, nodes);
  }

  // All clients send prompts at once and then draft as fast as possible. Returns how often sessions
  // had to be refilled.
  std::uint32_t serve(std::uint32_t peer_count, std::uint32_t prompt_count,
                      std::size_t answer_count) {
    PassLoop server = loop(kLeastPages);
    const std::uint64_t refused_before = refused(Refusal::session_unknown);
    std::deque<Peer> peers;
    for (std::uint64_t id = 1; id <= peer_count; ++id) {
      Peer peer{.client = client(id), .prompt = random_tokens(prompt_count), .expected = {}};
      peer.expected = alone(peer.prompt, answer_count);
      peers.push_back(std::move(peer));
    }
    for (Peer& peer : peers) refill(server, peer);
    std::uint32_t refills = 0;
    const auto all_done = [&] {
      return std::all_of(peers.begin(), peers.end(), [](const Peer& p) { return p.done(); });
    };
    for (int step = 0; !all_done(); ++step) {
      if (step == 20000) {
        ADD_FAILURE() << "no progress";
        break;
      }
      server.step();
      now_ += std::chrono::milliseconds(5);
      EXPECT_LE(server.memory().pages_held, kLeastPages);
      for (Peer& peer : peers) {
        if (!has_reply(peer.client)) continue;
        if (!inboxes_.at(peer.client.connection_id)->refusals.empty()) {
          EXPECT_EQ(error(peer.client).code, Errc::session_unknown);
          ++refills;
          refill(server, peer);
          continue;
        }
        const wire::Verdict told = verdict(peer.client);
        peer.answer.insert(peer.answer.end(), told.tokens.begin(), told.tokens.end());
        peer.answer.push_back(told.next);
        if (!peer.done()) {
          draft_widely(server, peer);
          continue;
        }
        peer.answer.resize(peer.expected.size());
        EXPECT_EQ(peer.answer, peer.expected);
        server.end(peer.client.connection_id);
      }
    }
    EXPECT_EQ(server.waiting_count(), 0u);
    EXPECT_EQ(refused(Refusal::session_unknown) - refused_before, refills);
    return refills;
  }
};

// Either could grow alone, but not both. The earlier one continues.
TEST_F(GrowthTest, TwoGrowingSessionsBothFinish) {
  EXPECT_GT(serve(2, 150, 100), 0u);
}

TEST_F(GrowthTest, ManySessionsInSmallestPoolAllFinish) {
  serve(12, 60, 40);
  serve(6, 200, 20);
}

}  // namespace
}  // namespace edgedraft::server
