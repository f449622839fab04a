#include "client/serve/request/completion_request.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "shared/constraints/grammar.h"

// Any body parses to a request within its bounds or to an error with a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  using namespace edgedraft::client;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const CompletionKind kind : {CompletionKind::chat, CompletionKind::text}) {
    const auto request = parse_completion(body, kind, {.tokens_max = 16}, 1);
    if (!request) {
      if (request.error().message.empty() || to_json(request.error()).empty()) std::abort();
      continue;
    }
    const Constraints& c = request->constraints;
    if (request->tokens_max == 0 || request->choices == 0 || request->choices > kChoicesMax ||
        c.stops.size() > kStopsMax || c.biases.size() > kBiasesMax ||
        c.grammar.size() > kGrammarBytesMax) {
      std::abort();
    }
    if (!c.grammar.empty()) (void)Grammar::parse(c.grammar);
  }
  return 0;
}
