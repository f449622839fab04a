#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "shared/model/chat_template.h"

namespace edgedraft::test {

// `open` ends where the assistant's answer begins, `closed` after the last message.
enum class Prompt { open, closed };

// Date passed to templates.
inline constexpr auto kToday =
    std::chrono::sys_days(std::chrono::July / 26 / 2024) + std::chrono::hours(11);

// Renders a conversation with a template.
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

// Renders a template that needs no conversation.
inline std::string text_of(const std::string& source) {
  const auto text = render(source, {}, Prompt::closed);
  EXPECT_TRUE(text) << source << ": " << text.error().message;
  return text ? *text : "";
}

// Error of a template that cannot be rendered.
inline Error error_of(const std::string& source) {
  const auto text = render(source, {{"user", "hi"}}, Prompt::closed);
  EXPECT_FALSE(text) << source << " gives " << *text;
  return text ? Error{} : text.error();
}

}  // namespace edgedraft::test
