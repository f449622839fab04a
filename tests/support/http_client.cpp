#include "tests/support/http_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace edgedraft::testing {

std::string HttpResult::header(const std::string& name) const {
  for (const auto& [field, value] : headers) {
    if (boost::beast::iequals(field, name)) return value;
  }
  return {};
}

HttpResult ask(std::uint16_t port, const HttpQuestion& question) {
  namespace http = boost::beast::http;
  boost::asio::io_context io;
  boost::beast::tcp_stream stream(io);
  stream.connect({boost::asio::ip::address_v4::loopback(), port});
  http::request<http::string_body> request(http::string_to_verb(question.method), question.path,
                                           11);
  request.set(http::field::host, "127.0.0.1:" + std::to_string(port));
  for (const auto& [name, value] : question.headers) request.set(name, value);
  request.body() = question.body;
  request.prepare_payload();
  request.keep_alive(false);
  http::write(stream, request);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(64u << 20);
  http::read(stream, buffer, parser);
  HttpResult result{
      .status = parser.get().result_int(), .headers = {}, .body = parser.get().body()};
  for (const auto& field : parser.get()) {
    result.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  return result;
}

std::vector<std::string> event_data(const std::string& stream) {
  std::vector<std::string> data;
  std::size_t begin = 0;
  while (begin < stream.size()) {
    const std::size_t end = std::min(stream.find("\n\n", begin), stream.size());
    if (stream.compare(begin, 6, "data: ") == 0) {
      data.push_back(stream.substr(begin + 6, end - begin - 6));
    }
    begin = end + 2;
  }
  return data;
}

}  // namespace edgedraft::testing
