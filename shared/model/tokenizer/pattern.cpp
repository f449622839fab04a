#include "shared/model/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <limits>

#include "shared/base/check.h"
#include "shared/base/error.h"

namespace edgedraft {
namespace {

template <auto kFree>
struct Freeing {
  template <class T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, Freeing<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freeing<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freeing<pcre2_match_context_free>>;

// PCRE2's \s includes U+180E, which is no white space.
std::string with_unicode_spaces(std::string_view expression) {
  std::string out;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char escaped = expression[i] == '\\' && i + 1 < expression.size() ? expression[i + 1] : 0;
    if (escaped == 's' || escaped == 'S') {
      out += escaped == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      ++i;
    } else {
      out += expression[i];
      if (escaped != 0) out += expression[++i];
    }
  }
  return out;
}

}  // namespace

struct Pattern::State {
  Code code;
  MatchContext context;

  std::optional<Match> find(std::string_view text, std::size_t at, pcre2_match_data* match) const;
};

Pattern::Pattern(std::string_view expression) : state_(std::make_shared<State>()) {
  const std::string translated = with_unicode_spaces(expression);
  int error = 0;
  PCRE2_SIZE error_at = 0;
  state_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                   translated.size(), PCRE2_UTF | PCRE2_UCP, &error, &error_at,
                                   nullptr));
  EDGEDRAFT_CHECK(state_->code);
  // Without it (e.g. no executable memory) matching is only slower.
  (void)pcre2_jit_compile(state_->code.get(), PCRE2_JIT_COMPLETE);
  // The default limit is for untrusted expressions; ours take steps in proportion to the text.
  state_->context.reset(pcre2_match_context_create(nullptr));
  EDGEDRAFT_CHECK(state_->context);
  pcre2_set_match_limit(state_->context.get(), std::numeric_limits<std::uint32_t>::max());
}

std::optional<Pattern::Match> Pattern::State::find(std::string_view text, std::size_t at,
                                                   pcre2_match_data* match) const {
  if (at >= text.size()) return std::nullopt;
  // Checking the encoding in every call would be quadratic.
  const auto run = [&](std::uint32_t options) {
    return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | options, match, context.get());
  };
  int status = run(0);
  // Compiled code has a small stack of its own.
  if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = run(PCRE2_NO_JIT);
  if (status == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (status < 0) {
    throw Failure({Errc::io, "PCRE2 failed on a text (error " + std::to_string(status) +
                                 "): check the available memory"});
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
  return Match{.begin = bounds[0], .end = bounds[1]};
}

std::optional<Pattern::Match> Pattern::find(std::string_view text, std::size_t at) const {
  const MatchData match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  return state_->find(text, at, match.get());
}

void Pattern::split(std::string_view text, const std::function<void(std::string_view)>& use) const {
  const MatchData data(pcre2_match_data_create(1, nullptr));
  if (!data) throw std::bad_alloc();
  std::size_t at = 0;
  for (auto match = state_->find(text, at, data.get()); match;
       match = state_->find(text, at, data.get())) {
    if (match->begin > at) use(text.substr(at, match->begin - at));
    use(text.substr(match->begin, match->end - match->begin));
    at = match->end;
  }
  if (at < text.size()) use(text.substr(at));
}

}  // namespace edgedraft
