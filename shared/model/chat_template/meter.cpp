#include "shared/model/chat_template/meter.h"

#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/lexer.h"

namespace edgedraft::chat {

bool Meter::spend(std::size_t steps) {
  steps_ += steps;
  if (steps_ > kTemplateStepsMax) {
    stop({Errc::usage, "the chat template takes too many steps" + std::string(kRemedy)});
  }
  return !error_;
}

void Meter::fail(int line, const std::string& what) {
  stop({Errc::unsupported,
        "chat template, line " + std::to_string(line) + ": " + what + std::string(kRemedy)});
}

void Meter::unsupported(int line, const std::string& what) {
  stop(unsupported_at(line, what));
}

void Meter::stop(Error error) {
  if (!error_) error_ = std::move(error);
}

Error output_too_long() {
  return {Errc::usage, "the rendered conversation is longer than 16 MiB"};
}

}  // namespace edgedraft::chat
