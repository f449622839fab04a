#pragma once

#include "client/serve/api_service.h"

namespace edgedraft::client {

// Endpoints that read or switch the service's state. They answer at once, without the workers'
// threads or an engine. References must outlive it.
struct StateApi {
  ApiResult<HttpAnswer> models(const HttpRequest& request);
  ApiResult<HttpAnswer> model(const HttpRequest& request);
  ApiResult<HttpAnswer> embeddings(const HttpRequest& request);
  // Ollama's list, facts of a model, and version.
  ApiResult<HttpAnswer> ollama_tags(const HttpRequest& request);
  ApiResult<HttpAnswer> ollama_show(const HttpRequest& request);
  ApiResult<HttpAnswer> ollama_version(const HttpRequest& request);
  ApiResult<HttpAnswer> health(const HttpRequest& request);
  ApiResult<HttpAnswer> metrics(const HttpRequest& request);
  ApiResult<HttpAnswer> props(const HttpRequest& request);
  ApiResult<HttpAnswer> remove_stream(const HttpRequest& request);
  ApiResult<HttpAnswer> look_up_streams(const HttpRequest& request);
  ApiResult<HttpAnswer> uplink(const HttpRequest& request);
  ApiResult<HttpAnswer> read_link(const HttpRequest& request);
  ApiResult<HttpAnswer> set_link(const HttpRequest& request);

  const ApiService::Options& options;
  const ApiCounters& counters;
  const Conversations& conversations;
  KeptStreams& kept;
  std::uint32_t context_count;  // the target's context in tokens; 0: unknown yet
};

}  // namespace edgedraft::client
