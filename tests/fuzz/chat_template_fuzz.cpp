#include <array>
#include <cstdlib>

#include "shared/model/chat_template.h"

// Any template renders text within the limit, with the marks in order, or fails.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  const auto parsed =
      ChatTemplate::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!parsed) return 0;
  const std::array<ChatMessage, 3> messages = {
      {{"system", "Be brief."}, {"user", " What? "}, {"assistant", "That."}}};
  const auto text = parsed->render({.messages = messages,
                                    .bos_token = "<s>",
                                    .eos_token = "</s>",
                                    .add_generation_prompt = true});
  if (!text) return 0;
  if (text->size() > kTemplateOutputBytesMax) std::abort();
  std::size_t end = 0;
  for (const MarkedText::Span& span : text->spans()) {
    if (span.begin < end || span.end <= span.begin || span.end > text->size()) std::abort();
    end = span.end;
  }
  return 0;
}
