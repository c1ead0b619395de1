// What serving a model asks of HTTP, and the library that speaks it: libtensmith_http, which lies
// in generation/serving/http/ and is built where cpp-httplib is. What is served knows requests and
// answers as they are here, and nothing of sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tensmith::generation {

struct HttpRequest {
  std::string method, path, authorization, body;
  /// Whether the client has left.
  std::function<bool()> isGone;
};

/// False where the client has left.
using HttpWrite = std::function<bool(std::string_view)>;

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json", body;
  /// In place of a body: writes its pieces.
  std::function<void(const HttpWrite &write)> stream;
};

struct HttpSettings {
  /// Whether the body of a request is read, of which there is but the head; null: always. Where it
  /// isn't, the request is handled without one.
  std::function<bool(const HttpRequest &head)> isWelcome;
  std::string host = "127.0.0.1";
  int port = 8080;                      // 0: any that is free
  int64_t bodyBytes = int64_t(4) << 20; // more are refused with 413
  int64_t headBytes = 65536;
  int connections = 128; // that are served at a time; others wait
  /// That a client may take for a request's head, to read, and to send another request. A body has
  /// six times as long.
  int seconds = 10;
};

/// Called by many threads.
using HttpHandler = std::function<HttpAnswer(const HttpRequest &)>;

class HttpServer {
public:
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
  /// Until `stop`, which any thread or signal's thread may call; requests that run are ended first.
  virtual void serve() = 0;
  virtual void stop() = 0;
};

/// What libtensmith_http exports: null, and why, where it can't listen. `refuse` is what malformed
/// requests and those beyond a limit are answered with.
using OpenHttp = HttpServer *(*)(const HttpSettings &settings, const HttpHandler &handler,
                                 HttpAnswer (*refuse)(int status, const std::string &why),
                                 std::string &failure);
inline constexpr char kOpenHttp[] = "tensmith_open_http";

/// Opens the library, and by it a server. Throws Failure.
std::unique_ptr<HttpServer> openHttp(const HttpSettings &settings, const HttpHandler &handler,
                                     HttpAnswer (*refuse)(int status, const std::string &why));

} // namespace tensmith::generation
