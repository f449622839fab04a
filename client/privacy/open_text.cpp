#include "client/privacy/open_text.h"

#include <string>

namespace edgedraft::client {

OpenText put_back(const MarkedText& masked, const Placeholders& placeholders) {
  const std::string& text = masked.text();
  OpenText open;
  std::size_t done = 0;
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
    const std::string* const value = placeholders.value_of(text.substr(at, kPlaceholderBytes));
    if (value == nullptr) continue;
    open.text.append(masked.slice(done, at));
    if (done == 0) open.open_bytes = at;
    open.text.append(MarkedText::foreign(*value));
    done = at + kPlaceholderBytes;
  }
  open.text.append(masked.slice(done, text.size()));
  return open;
}

OpenTokens encode_apart(const OpenText& text, const Tokenizer& tokenizer) {
  OpenTokens result{.tokens = tokenizer.encode(text.text.slice(0, text.open_bytes))};
  result.open_count = static_cast<std::uint32_t>(result.tokens.size());
  const auto rest = tokenizer.encode(text.text.slice(text.open_bytes, text.text.size()));
  result.tokens.insert(result.tokens.end(), rest.begin(), rest.end());
  return result;
}

void begin_text(OpenTokens& tokens, const Tokenizer& tokenizer) {
  const std::size_t before = tokens.tokens.size();
  tokenizer.begin_text(tokens.tokens);
  if (tokens.open_count == 0) return;
  tokens.open_count += static_cast<std::uint32_t>(tokens.tokens.size() - before);
}

}  // namespace edgedraft::client
