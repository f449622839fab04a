#pragma once

#include <string_view>

#include "client/serve/json/api_error.h"
#include "shared/model/tokenizer.h"
#include "shared/net/http/http_message.h"

namespace edgedraft::client {

// llama-server's /tokenize and /detokenize: {"content", "add_special", "parse_special",
// "with_pieces"} to {"tokens"}, and {"tokens"} to {"content"}.
ApiResult<HttpAnswer> tokenize(std::string_view body, const Tokenizer& tokenizer);
ApiResult<HttpAnswer> detokenize(std::string_view body, const Tokenizer& tokenizer);

}  // namespace edgedraft::client
