#include "client/serve/answer/past_answer.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace edgedraft::client {
namespace {

// Content of the message that begins at `begin`; empty if none does.
std::string_view content_at(const MarkedText& chat, std::size_t begin) {
  const auto span = std::ranges::find_if(chat.spans(), [begin](const MarkedText::Span& s) {
    return s.begin <= begin && begin < s.end;
  });
  if (span == chat.spans().end()) return {};
  return std::string_view(chat.text()).substr(begin, span->end - begin);
}

struct Match {
  std::size_t tokens = 0;
  std::size_t bytes = 0;
  bool ends_within = false;  // within the next token
};

// Returns the answer's tokens at the start of `content`, up to one that it may end within.
std::optional<Match> match(const PastAnswer& past, std::string_view content,
                           const Tokenizer& tokenizer) {
  Match match;
  while (match.bytes < content.size() && match.tokens < past.answer_tokens.size()) {
    const std::uint32_t token = past.answer_tokens[match.tokens];
    std::string bytes = tokenizer.token_bytes(token);
    if (match.tokens == 0 && tokenizer.adds_space_prefix() && bytes.starts_with(' ')) {
      bytes.erase(0, 1);
    }
    const std::string_view rest = content.substr(match.bytes);
    if (bytes.empty() || tokenizer.is_end(token)) break;
    if (bytes.size() > rest.size()) {
      if (!bytes.starts_with(rest)) return std::nullopt;
      match.ends_within = true;
      break;
    }
    if (!rest.starts_with(bytes)) return std::nullopt;
    match.bytes += bytes.size();
    ++match.tokens;
  }
  return match;
}

}  // namespace

std::optional<std::vector<std::uint32_t>> encode_behind(const PastAnswer& past,
                                                        const MarkedText& chat,
                                                        const Tokenizer& tokenizer) {
  const std::size_t prompt_end = past.prompt.size();
  if (!chat.text().starts_with(past.prompt.text())) return std::nullopt;
  // Other spans may tokenize equal bytes differently.
  if (chat.slice(0, prompt_end).spans() != past.prompt.spans()) return std::nullopt;
  // The message's content, or the template's form of its calls.
  const std::string_view said = content_at(chat, prompt_end);
  const std::string_view content =
      said.empty() ? std::string_view(chat.text()).substr(prompt_end) : said;
  const auto matched = match(past, content, tokenizer);
  if (!matched || matched->tokens == 0) return std::nullopt;
  if (matched->bytes < said.size() && !matched->ends_within) return std::nullopt;
  const auto rest = tokenizer.encode(chat.slice(prompt_end + matched->bytes, chat.size()));
  const bool goes_on_with_text =
      rest.empty() ||
      (tokenizer.token_type(rest.front()) != TokenType::control && !tokenizer.is_end(rest.front()));
  if (goes_on_with_text && (tokenizer.adds_space_prefix() || said.empty())) return std::nullopt;
  std::vector<std::uint32_t> tokens = past.prompt_tokens;
  const auto answer = past.answer_tokens.begin();
  tokens.insert(tokens.end(), answer, answer + static_cast<std::ptrdiff_t>(matched->tokens));
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

std::vector<std::uint32_t> encode_chat(const PastAnswers& pasts, const MarkedText& chat,
                                       const Tokenizer& tokenizer) {
  std::optional<std::vector<std::uint32_t>> best;
  std::size_t most = 0;
  for (const auto& past : pasts) {
    // Prefers the answer that extends furthest into the text.
    if (past->prompt.size() < most) continue;
    if (auto tokens = encode_behind(*past, chat, tokenizer)) {
      best = std::move(tokens);
      most = past->prompt.size();
    }
  }
  if (best) return *std::move(best);
  auto tokens = tokenizer.encode(chat);
  tokenizer.begin_text(tokens);
  return tokens;
}

}  // namespace edgedraft::client
