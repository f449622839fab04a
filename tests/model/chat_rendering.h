#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "shared/model/chat_template.h"

namespace edgedraft::test {

// Whether a conversation ends where the assistant's answer begins, or behind its last message.
enum class Prompt { open, closed };

// The day that templates are told.
inline constexpr auto kToday =
    std::chrono::sys_days(std::chrono::July / 26 / 2024) + std::chrono::hours(11);

// What a template makes of a conversation.
inline Result<std::string> render(const std::string& source,
                                  const std::vector<ChatMessage>& messages, Prompt prompt) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.error();
  const auto text = parsed->render({.messages = messages,
                                    .bos_token = "<s>",
                                    .eos_token = "</s>",
                                    .add_generation_prompt = prompt == Prompt::open,
                                    .now = kToday});
  if (!text) return text.error();
  return text->text();
}

}  // namespace edgedraft::test
