#include "client/serve/text/visible_text.h"

#include <gtest/gtest.h>

#include <chrono>

#include "client/engine/bundle_file.h"
#include "client/serve/answer/past_answer.h"
#include "shared/base/random.h"
#include "tests/client/generation_rig.h"

namespace edgedraft::client {
namespace {

using Tokens = std::vector<std::uint32_t>;

class VisibleTextTest : public ::testing::Test {
 protected:
  const Tokenizer& tokenizer() const { return bundle_.tokenizer(); }
  Tokens tokens(const std::string& text) const { return tokenizer().encode(text, Special::plain); }
  // One character per token, however the tokenizer would split the text.
  Tokens characters(const std::string& text) const {
    Tokens single;
    for (const char c : text) {
      const Tokens one = tokens(std::string(1, c));
      single.insert(single.end(), one.begin(), one.end());
    }
    return single;
  }
  VisibleText text(std::vector<std::string> stops = {}, bool shows_drafts = false) const {
    return VisibleText({.tokenizer = tokenizer(),
                        .leading_space = LeadingSpace::keep,
                        .stops = std::move(stops),
                        .shows_drafts = shows_drafts});
  }

  BundleFile bundle_ =
      BundleFile::open(EDGEDRAFT_MODELS "/moa-tli1.gguf", BundleUse::draft).value();
};

// Assembles the text from the pieces as a client does (docs/assistant.md).
void follow(std::string& shown, const std::vector<VisibleText::Piece>& pieces) {
  for (const auto& piece : pieces) {
    if (piece.revise_from) {
      std::size_t bytes = 0;
      for (std::size_t left = *piece.revise_from; bytes < shown.size(); ++bytes) {
        const bool begins = (static_cast<unsigned char>(shown[bytes]) & 0xC0u) != 0x80u;
        if (begins && left-- == 0) break;
      }
      shown.resize(bytes);
    }
    shown += piece.text;
  }
}

TEST_F(VisibleTextTest, PiecesYieldWholeTextForAnyTokens) {
  const std::string all = "A naïve café – 日本語 🙂 and the end.";
  VisibleText answer = text();
  std::string shown;
  for (const std::uint32_t token : tokens(all)) {
    answer.add(token, Provenance::verified);
    for (const auto& piece : answer.take()) {
      EXPECT_EQ(piece.text.find("\xEF\xBF\xBD"), std::string::npos) << "part of a character";
      shown += piece.text;
    }
  }
  answer.finish();
  follow(shown, answer.take());
  EXPECT_EQ(shown, all);
  EXPECT_EQ(answer.text(), all);
}

TEST_F(VisibleTextTest, FindsStopsAcrossTokensAndHidesThem) {
  for (const std::string stop : {"dog ran", "og", "ran away", "a", "Lily", "."}) {
    SCOPED_TRACE(stop);
    const std::string all = "One day a little dog ran away. Lily";
    const std::string before = all.substr(0, all.find(stop));
    VisibleText answer = text({"never", stop});
    std::string shown;
    for (const std::uint32_t token : tokens(all)) {
      answer.add(token, Provenance::verified);
      follow(shown, answer.take());
      EXPECT_TRUE(before.starts_with(shown)) << shown;
    }
    EXPECT_TRUE(answer.stopped());
    answer.finish();
    follow(shown, answer.take());
    EXPECT_EQ(shown, before);
    EXPECT_EQ(answer.text(), before);
  }
}

TEST_F(VisibleTextTest, ShowsIncompleteStopAtEnd) {
  VisibleText answer = text({"dog ran home"});
  std::string shown;
  for (const std::uint32_t token : tokens("a dog ran")) answer.add(token, Provenance::verified);
  follow(shown, answer.take());
  EXPECT_EQ(shown, "a ");
  answer.finish();
  follow(shown, answer.take());
  EXPECT_EQ(shown, "a dog ran");
  EXPECT_FALSE(answer.stopped());
}

TEST_F(VisibleTextTest, OfflineStopIsFinalOnlyAfterCheck) {
  const Tokens words = tokens("a dog ran. It");
  const auto count = static_cast<std::uint32_t>(words.size());
  VisibleText answer = text({"ran."}, /*shows_drafts=*/true);
  for (const std::uint32_t token : words) answer.add(token, Provenance::offline);
  EXPECT_TRUE(answer.stopped());
  EXPECT_FALSE(answer.stopped_for_good());
  answer.confirm(0, 2);
  EXPECT_FALSE(answer.stopped_for_good()) << "not final yet";
  VisibleText corrected = answer;
  answer.confirm(2, count);
  EXPECT_TRUE(answer.stopped_for_good());
  EXPECT_EQ(answer.text(), "a dog ");
  // The target would not have written it.
  corrected.rewrite(2);
  EXPECT_FALSE(corrected.stopped());
  for (const std::uint32_t token : tokens(" sat.")) corrected.add(token, Provenance::verified);
  corrected.finish();
  EXPECT_FALSE(corrected.stopped_for_good());

  VisibleText online = text({"ran."}, /*shows_drafts=*/true);
  for (const std::uint32_t token : words) online.add(token, Provenance::verified);
  EXPECT_TRUE(online.stopped_for_good());
}

TEST_F(VisibleTextTest, WithdrawsTextThatMayBecomeStop) {
  VisibleText answer = text({"dog ran"}, /*shows_drafts=*/true);
  std::string shown;
  for (const std::uint32_t token : characters("a dog sat")) answer.add(token, Provenance::offline);
  follow(shown, answer.take());
  EXPECT_EQ(shown, "a dog sat");
  answer.rewrite(static_cast<std::uint32_t>(characters("a dog").size()));
  follow(shown, answer.take());
  EXPECT_EQ(shown, "a ");
  for (const std::uint32_t token : characters(" ran")) answer.add(token, Provenance::verified);
  EXPECT_TRUE(answer.stopped());
  answer.finish();
  follow(shown, answer.take());
  EXPECT_EQ(shown, "a ");
}

TEST_F(VisibleTextTest, HoldsBackOfflineTextUntilCheckedOrKept) {
  const Tokens words = tokens(" one two three");
  VisibleText answer = text();
  for (const std::uint32_t token : words) answer.add(token, Provenance::offline);
  EXPECT_TRUE(answer.take().empty());
  answer.confirm(0, 1);
  auto pieces = answer.take();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, " one");
  EXPECT_EQ(pieces[0].provenance, Provenance::verified);
  answer.keep(2);
  pieces = answer.take();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, " two");
  EXPECT_EQ(pieces[0].provenance, Provenance::offline);
  // The third token is withdrawn before the client sees it.
  answer.rewrite(2);
  answer.add(words[0], Provenance::verified);
  pieces = answer.take();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].text, " one");
  EXPECT_FALSE(pieces[0].revise_from);
}

// For any sequence of writes and withdrawals, a client that follows the pieces has the text.
TEST_F(VisibleTextTest, RevisionsYieldWholeText) {
  Random random(5);
  const Tokens some = tokens("über 日本 dog 🙂 cat – naïve ran away");
  for (int run = 0; run < 300; ++run) {
    VisibleText answer = text({}, true);
    std::string shown;
    std::uint32_t settled = 0;
    Tokens now;
    for (int step = 0; step < 30; ++step) {
      const std::uint64_t what = random.below(8);
      if (what == 0 && now.size() > settled) {
        const auto index = static_cast<std::uint32_t>(settled + random.below(now.size() - settled));
        answer.rewrite(index);
        now.resize(index);
      } else {
        const bool verified = what < 4;
        now.push_back(some[random.below(some.size())]);
        answer.add(now.back(), verified ? Provenance::verified : Provenance::offline);
        if (verified) settled = static_cast<std::uint32_t>(now.size());
      }
      if (random.below(2) == 0) follow(shown, answer.take());
    }
    answer.finish();
    follow(shown, answer.take());
    ASSERT_EQ(shown, decode(tokenizer(), now, LeadingSpace::keep)) << "run " << run;
  }
}

// A client that reads an answer's text to its end.
struct Reader final : GenerationObserver {
  Reader(VisibleText from) : answer(std::move(from)) {}

  void on_token(std::uint32_t token, Provenance provenance) override {
    answer.add(token, provenance);
    take();
  }
  void on_confirmed(std::uint32_t first, std::uint32_t end) override {
    answer.confirm(first, end);
    take();
  }
  void on_kept(std::uint32_t count) override {
    answer.keep(count);
    take();
  }
  void on_rewrite(std::uint32_t index) override {
    answer.rewrite(index);
    take();
  }
  void on_state(ClientState, const std::string&) override {}
  void take() {
    const auto pieces = answer.take();
    for (const auto& piece : pieces) revisions += piece.revise_from ? 1 : 0;
    follow(shown, pieces);
  }

  VisibleText answer;
  std::string shown;
  int revisions = 0;
};

// Links break, go silent and forget at random. Each client ends with the whole text, and clients
// that did not ask for revisions see none.
TEST_F(VisibleTextTest, ThousandRunsOverBrokenLinksYieldWholeText) {
  using Kind = testing::LinkFault::Kind;
  int outages = 0;
  int revised = 0;
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    testing::GenerationRig::Options options{.drafter = random.below(2) == 0
                                                           ? testing::ToyDrafter::moa_tli1
                                                           : testing::ToyDrafter::independent,
                                            .tree = TreeShape{.breadth = 2, .depth = 3, .nodes = 6},
                                            .tokens_max = 30};
    constexpr Kind kKinds[] = {Kind::lost_request, Kind::lost_answer, Kind::silence,
                               Kind::forgotten, Kind::refused};
    std::uint32_t request = static_cast<std::uint32_t>(random.below(3));
    for (int fault = 0; fault < 4; ++fault) {
      const Kind kind = request == 0 ? Kind::lost_request : kKinds[random.below(5)];
      options.faults.push_back({.request = request,
                                .kind = kind,
                                .wait_calls = static_cast<std::uint32_t>(2 + random.below(20))});
      request += 1 + static_cast<std::uint32_t>(random.below(4));
    }
    const std::uint64_t policy = random.below(3);  // wait, keep, revise
    GenerationTerms terms{.tokens_max = 30, .writes_offline = policy != 0};
    if (policy == 1) terms.keep_after = std::chrono::milliseconds(random.below(30));
    testing::GenerationRig rig(options);
    rig.generation().set(terms);
    Reader reader(text({}, policy == 2));
    rig.listener().also = &reader;
    const Tokens prompt{5, 6, static_cast<std::uint32_t>(7 + random.below(50))};
    const testing::Answer answer = rig.answer(prompt);
    reader.answer.finish();
    reader.take();
    ASSERT_EQ(reader.shown, decode(tokenizer(), answer.tokens, LeadingSpace::keep)) << seed;
    ASSERT_TRUE(policy == 2 || reader.revisions == 0) << seed;
    if (rig.listener().kept == 0) {
      ASSERT_EQ(answer.tokens, rig.plain(prompt).tokens) << seed;
    }
    outages += answer.stats.offline_tokens > 0 ? 1 : 0;
    revised += reader.revisions > 0 ? 1 : 0;
    kept += rig.listener().kept > 0 ? 1 : 0;
  }
  EXPECT_GT(outages, 200);
  EXPECT_GT(revised, 50);
  EXPECT_GT(kept, 50);
}

class PastAnswerTest : public VisibleTextTest {
 protected:
  MarkedText render(const std::vector<ChatMessage>& messages) const {
    return bundle_.render_chat(chat_, {.messages = messages}).value();
  }
  PastAnswer past(const Tokens& answer) const {
    const MarkedText prompt = render({{"user", "Hi"}});
    return {.prompt = prompt, .prompt_tokens = tokenizer().encode(prompt), .answer_tokens = answer};
  }

  ChatTemplate chat_ = bundle_.chat_template({}).value();
};

TEST_F(PastAnswerTest, ReusesTokensOfOwnAnswer) {
  const std::string answer = "a little dog";
  // The tokenizer would split the text otherwise.
  Tokens own = characters(answer);
  ASSERT_NE(own, tokens(answer));
  const Tokens said = own;
  own.push_back(*tokenizer().eos_id());
  const MarkedText later = render({{"user", "Hi"}, {"assistant", answer}, {"user", "And?"}});
  const auto encoded = encode_behind(past(own), later, tokenizer());
  ASSERT_TRUE(encoded);
  const Tokens canonical = tokenizer().encode(later);
  EXPECT_EQ(decode(tokenizer(), *encoded, LeadingSpace::keep),
            decode(tokenizer(), canonical, LeadingSpace::keep));
  Tokens beginning = past(own).prompt_tokens;
  beginning.insert(beginning.end(), said.begin(), said.end());
  ASSERT_GT(encoded->size(), beginning.size());
  EXPECT_TRUE(std::equal(beginning.begin(), beginning.end(), encoded->begin()));
}

TEST_F(PastAnswerTest, ReusesCutAnswerUpToCut) {
  const MarkedText later = render({{"user", "Hi"}, {"assistant", "a lit"}, {"user", "And?"}});
  const auto encoded = encode_behind(past(tokens("a little dog")), later, tokenizer());
  ASSERT_TRUE(encoded);
  EXPECT_EQ(decode(tokenizer(), *encoded, LeadingSpace::keep),
            decode(tokenizer(), tokenizer().encode(later), LeadingSpace::keep));
}

TEST_F(PastAnswerTest, IgnoresOtherHistories) {
  const PastAnswer own = past(tokens("a dog"));
  for (const auto& messages : std::vector<std::vector<ChatMessage>>{
           {{"user", "Ho"}, {"assistant", "a dog"}, {"user", "And?"}},
           {{"user", "Hi"}, {"assistant", "a cat"}, {"user", "And?"}},
           {{"user", "Hi"}, {"assistant", "a dog!"}, {"user", "And?"}},
           {{"user", "Hi"}, {"user", "And?"}},
           {{"user", "Hi"}}}) {
    EXPECT_FALSE(encode_behind(own, render(messages), tokenizer()));
  }
  // A user's message that spells out the prompt is not the prompt.
  const MarkedText fake = MarkedText::foreign(own.prompt.text() + "a dog");
  EXPECT_FALSE(encode_behind(own, fake, tokenizer()));
}

class ThoughtsTest : public VisibleTextTest {
 protected:
  VisibleText thinker(Thoughts thoughts, bool shows_drafts = false) const {
    return VisibleText({.tokenizer = tokenizer(),
                        .leading_space = LeadingSpace::keep,
                        .stops = {},
                        .shows_drafts = shows_drafts,
                        .thoughts = thoughts});
  }
  // Both parts as a client assembles them.
  struct Shown {
    std::string thought;
    std::string text;
    void take(VisibleText& answer) {
      for (const auto& piece : answer.take()) follow(piece.is_thought ? thought : text, {piece});
    }
  };
  Shown show(VisibleText answer, const std::string& all) const {
    Shown shown;
    for (const std::uint32_t token : tokens(all)) {
      answer.add(token, Provenance::verified);
      shown.take(answer);
    }
    answer.finish();
    shown.take(answer);
    EXPECT_EQ(shown.thought, answer.thought());
    EXPECT_EQ(shown.text, answer.text());
    return shown;
  }
};

TEST_F(ThoughtsTest, SeparatesThoughtFromAnswer) {
  struct Case {
    const char* all;
    Thoughts thoughts;
    const char* thought;
    const char* text;
  };
  for (const Case& c : {
           Case{"<think>\nTwo and two. \n\n</think>\n\nIt is 4.", Thoughts::maybe, "Two and two.",
                "It is 4."},
           Case{"Two </th> two.\n</think>It is 4.", Thoughts::begun, "Two </th> two.", "It is 4."},
           Case{"<think></think>4", Thoughts::maybe, "", "4"},
           Case{"<think>and on and on </thi", Thoughts::maybe, "and on and on </thi", ""},
           Case{"<thin ice> is no thought", Thoughts::maybe, "", "<thin ice> is no thought"},
           Case{"<thin", Thoughts::maybe, "", "<thin"},
           Case{"It is 4. <think>no</think>", Thoughts::maybe, "", "It is 4. <think>no</think>"},
           Case{"<think>a</think>b", Thoughts::none, "", "<think>a</think>b"},
           Case{"<|channel|>analysis<|message|>Two and two.<|end|>"
                "<|start|>assistant<|channel|>final<|message|>It is 4.",
                Thoughts::maybe, "Two and two.", "It is 4."},
           Case{"<|channel|>final<|message|>It is 4.", Thoughts::maybe, "", "It is 4."},
           Case{"<|channel|>analysis<|message|>and on and on<|en", Thoughts::maybe,
                "and on and on<|en", ""},
           Case{"<|channel|>analysis<|message|>and on.<|end|><|start|>", Thoughts::maybe, "and on.",
                ""},
           Case{"<|chan", Thoughts::maybe, "", "<|chan"},
       }) {
    const Shown shown = show(thinker(c.thoughts), c.all);
    EXPECT_EQ(shown.thought, c.thought) << c.all;
    EXPECT_EQ(shown.text, c.text) << c.all;
  }
}

// A chat template refuses an earlier answer with channels in it.
TEST(ContentTest, IsTheFinalChannel) {
  EXPECT_EQ(content_of("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
                       "<|channel|>final<|message|>It is 4."),
            "It is 4.");
  EXPECT_EQ(content_of("<|channel|>analysis<|message|>Hm."), "");
  EXPECT_EQ(content_of("<think>Hm.</think>4"), "<think>Hm.</think>4");
  EXPECT_EQ(content_of("A <|channel|> is a mark."), "A <|channel|> is a mark.");
}

// The withdrawal precedes any other piece.
TEST_F(ThoughtsTest, WithdrawsThoughtAtOnce) {
  const Tokens words = characters("<think>a dog  ran");
  VisibleText whole = thinker(Thoughts::maybe, /*shows_drafts=*/true);
  Shown before;
  for (const std::uint32_t token : words) {
    whole.add(token, Provenance::offline);
    before.take(whole);
  }
  EXPECT_EQ(before.thought, "a dog  ran");
  for (std::size_t index = 0; index < words.size(); ++index) {
    VisibleText answer = whole;
    Shown shown = before;
    answer.rewrite(static_cast<std::uint32_t>(index));
    shown.take(answer);
    EXPECT_EQ(shown.thought, answer.thought()) << index;
    for (std::size_t i = index; i < words.size(); ++i) answer.add(words[i], Provenance::verified);
    for (const std::uint32_t token : characters("</think>It did.")) {
      answer.add(token, Provenance::verified);
    }
    answer.finish();
    shown.take(answer);
    EXPECT_EQ(shown.thought, "a dog  ran") << index;
    EXPECT_EQ(shown.text, "It did.") << index;
  }
}

TEST_F(ThoughtsTest, WithdrawsNoThoughtIfNoneWasShown) {
  VisibleText answer = thinker(Thoughts::maybe, /*shows_drafts=*/true);
  for (const std::uint32_t token : tokens("a dog")) answer.add(token, Provenance::offline);
  answer.take();
  answer.rewrite(0);
  const auto pieces = answer.take();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_FALSE(pieces[0].is_thought);
  EXPECT_EQ(pieces[0].revise_from, 0u);
}

TEST_F(ThoughtsTest, CorrectsThoughtAndText) {
  const Tokens offline = tokens("<think>a dog</think>It was a cat.");
  const Tokens right = tokens("<think>a dog ran</think>It was a dog.");
  const auto common =
      static_cast<std::uint32_t>(std::ranges::mismatch(offline, right).in1 - offline.begin());
  VisibleText answer = thinker(Thoughts::maybe, /*shows_drafts=*/true);
  Shown shown;
  for (const std::uint32_t token : offline) {
    answer.add(token, Provenance::offline);
    shown.take(answer);
  }
  EXPECT_EQ(shown.thought, "a dog");
  EXPECT_TRUE(shown.text.starts_with("It was a c")) << shown.text;
  answer.confirm(0, common);
  answer.rewrite(common);
  for (std::size_t i = common; i < right.size(); ++i) {
    answer.add(right[i], Provenance::verified);
    shown.take(answer);
  }
  answer.finish();
  shown.take(answer);
  EXPECT_EQ(shown.thought, "a dog ran");
  EXPECT_EQ(shown.text, "It was a dog.");
}

}  // namespace
}  // namespace edgedraft::client
