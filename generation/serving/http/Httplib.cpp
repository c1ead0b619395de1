// The library of Http.h, by cpp-httplib, which reads requests and writes answers; sockets and their
// limits are here.
//
// httplib's own reading of a request's head has no bound on a line and none on the time that a
// client takes for all of it, and its limit on bodies doesn't count those in chunks. So a
// connection is read through a stream that counts and has a deadline, and bodies are read piece by
// piece. It asks for heads byte by byte, which the stream has in a buffer. What is refused closes
// the connection, after what the client still sends is read for a moment: else the kernel would
// throw the answer away.
#include "generation/serving/Http.h"

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

namespace tensmith::generation {
namespace {

using Clock = std::chrono::steady_clock;
using Refuse = HttpAnswer (*)(int status, const std::string &why);

constexpr int kSliceMs = 100;  // between looks at whether the server ends
constexpr int kDrainMs = 2000; // that a refused client is still read
constexpr int64_t kDrainBytes = 64 << 20;
constexpr size_t kReceived = 16384;    // bytes that are received at a time
constexpr int kSendBuffer = 256 << 10; // bytes that wait for a client who doesn't read

/// A client's socket, and what was received of it and not read yet.
struct Connection {
  int socket;
  std::string received;
  size_t read = 0;

  bool hasReceived() const { return read < received.size(); }
  bool wait(short event, int ms) const {
    pollfd of{socket, event, 0};
    return ::poll(&of, 1, ms) > 0;
  }
};

/// A connection while one request is read and answered.
class BoundedStream : public httplib::Stream {
public:
  BoundedStream(Connection &connection, const HttpSettings &settings,
                const std::atomic<bool> &stops)
      : connection_(connection), settings_(settings), stops_(stops), left_(settings.headBytes),
        deadline_(Clock::now() + std::chrono::seconds(settings.seconds)) {}

  void beginBody() {
    left_ = 4 * settings_.bodyBytes + settings_.headBytes; // with marks of chunks
    deadline_ = Clock::now() + std::chrono::seconds(6 * settings_.seconds);
  }
  bool isGone() const {
    pollfd of{connection_.socket, POLLRDHUP, 0}; // also where more was sent than is read
    if (::poll(&of, 1, 0) > 0 && (of.revents & (POLLRDHUP | POLLHUP | POLLERR)))
      return true;
    char byte;
    ssize_t got = ::recv(connection_.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }
  bool isTooLong() const { return left_ <= 0; }
  bool isLate() const { return isLate_; }
  bool hasRead() const { return hasRead_; }

  bool mustClose = false;

  bool is_readable() const override {
    return connection_.hasReceived() || connection_.wait(POLLIN, 0);
  }
  bool is_writable() const override {
    return connection_.wait(POLLOUT, settings_.seconds * 1000) && !isGone();
  }
  ssize_t read(char *to, size_t size) override {
    size = size_t(std::min<int64_t>(int64_t(size), left_));
    if (!size || (!connection_.hasReceived() && !receive()))
      return -1;
    size = std::min(size, connection_.received.size() - connection_.read);
    std::memcpy(to, connection_.received.data() + connection_.read, size);
    connection_.read += size;
    left_ -= int64_t(size);
    hasRead_ = true;
    return ssize_t(size);
  }
  ssize_t write(const char *from, size_t size) override {
    if (!connection_.wait(POLLOUT, settings_.seconds * 1000))
      return -1;
    return ::send(connection_.socket, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void get_remote_ip_and_port(std::string &, int &) const override {}
  void get_local_ip_and_port(std::string &, int &) const override {}
  socket_t socket() const override { return connection_.socket; }

private:
  /// False at the end, at the deadline, and where the server ends.
  bool receive() {
    while (!stops_) {
      auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
      isLate_ = ms.count() <= 0;
      if (isLate_)
        return false;
      if (!connection_.wait(POLLIN, int(std::min<int64_t>(ms.count() + 1, kSliceMs))))
        continue;
      connection_.received.resize(kReceived), connection_.read = 0;
      ssize_t got = ::recv(connection_.socket, connection_.received.data(), kReceived, 0);
      connection_.received.resize(size_t(std::max<ssize_t>(got, 0)));
      if (got >= 0 || errno != EINTR)
        return got > 0;
    }
    return false;
  }

  Connection &connection_;
  const HttpSettings &settings_;
  const std::atomic<bool> &stops_;
  int64_t left_; // bytes that may still be read
  Clock::time_point deadline_;
  bool isLate_ = false, hasRead_ = false;
};

thread_local BoundedStream *current = nullptr;

void give(HttpAnswer answer, httplib::Response &to) {
  to.status = answer.status;
  if (!answer.stream)
    return to.set_content(answer.body, answer.type);
  to.set_header("Cache-Control", "no-cache");
  to.set_chunked_content_provider(
      answer.type, [stream = std::move(answer.stream)](size_t, httplib::DataSink &sink) {
        bool isThere = true;
        stream([&](std::string_view piece) {
          isThere = isThere && sink.write(piece.data(), piece.size());
          return isThere;
        });
        if (isThere)
          sink.done();
        else
          current->mustClose = true;
        return isThere;
      });
}

class HttplibServer : public HttpServer, httplib::Server {
public:
  HttplibServer(const HttpSettings &settings, const HttpHandler &handler, Refuse refusal)
      : settings_(settings), handler_(handler), refuse_(refusal) {
    new_task_queue = [this] { return new httplib::ThreadPool(size_t(settings_.connections)); };
    set_tcp_nodelay(true);
    set_keep_alive_timeout(settings_.seconds);
    auto plain = [this](const httplib::Request &request, httplib::Response &answer) {
      handle(request, {}, answer);
    };
    auto withBody = [this](const httplib::Request &request, httplib::Response &answer,
                           const httplib::ContentReader &reader) {
      readBody(request, answer, reader);
    };
    // Two servers on one port would share its clients.
    set_socket_options([](socket_t socket) {
      int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_pre_routing_handler([this](const httplib::Request &request, httplib::Response &answer) {
      if (std::string why = whyNoHead(request); !why.empty())
        refuse(400, why, answer);
      else if (!settings_.isWelcome || settings_.isWelcome(headOf(request)))
        return HandlerResponse::Unhandled;
      else
        current->mustClose = true, handle(request, {}, answer);
      return HandlerResponse::Handled;
    });
    Get(".*", plain), Options(".*", plain);
    Post(".*", withBody), Put(".*", withBody), Patch(".*", withBody), Delete(".*", withBody);
    // Only what httplib refuses itself has no body.
    set_error_handler([this](const httplib::Request &, httplib::Response &answer) {
      if (answer.body.empty())
        refuseUnread(answer);
    });
    set_exception_handler(
        [this](const httplib::Request &, httplib::Response &answer, std::exception_ptr) {
          refuse(500, "the request failed here", answer);
        });
  }

  bool listen(std::string &failure) {
    errno = 0;
    port_ = settings_.port;
    bool isBound = port_ ? bind_to_port(settings_.host, port_)
                         : (port_ = bind_to_any_port(settings_.host)) > 0;
    // httplib's own queue of 5 connections resets clients that come together.
    if (isBound)
      isBound = ::listen(svr_sock_, SOMAXCONN) == 0;
    if (!isBound)
      failure = errno ? std::strerror(errno) : "there is no such address here";
    return isBound;
  }

  int port() const override { return port_; }
  void serve() override { listen_after_bind(); }
  void stop() override {
    stops_ = true;
    httplib::Server::stop();
  }

private:
  void refuse(int status, const std::string &why, httplib::Response &answer) {
    current->mustClose = true;
    answer.set_header("Connection", "close");
    give(refuse_(status, why), answer);
  }

  /// Why a request is refused by its head alone: what httplib would read of its body without the
  /// bounds of readBody, or leave behind for the next request to begin with. Empty: it isn't.
  static std::string whyNoHead(const httplib::Request &request) {
    static const std::set<std::string> kWithout = {"GET", "HEAD", "OPTIONS"},
                                       kWith = {"POST", "PUT", "PATCH", "DELETE"};
    bool mayHaveBody = kWith.contains(request.method);
    if (!mayHaveBody && !kWithout.contains(request.method))
      return "there is no such method here";
    if (request.path.find_first_of("\r\n") != std::string::npos)
      return "the path has a line's end in it";
    if (request.has_header("Content-Encoding"))
      return "bodies are not compressed here";
    size_t lengths = request.get_header_value_count("Content-Length"),
           encodings = request.get_header_value_count("Transfer-Encoding");
    if (lengths + encodings > 1)
      return "the request says more than once how long its body is";
    if (lengths && request.get_header_value("Content-Length").empty())
      return "Content-Length is no number";
    if (encodings && request.get_header_value("Transfer-Encoding") != "chunked")
      return "Transfer-Encoding is chunked, or absent";
    bool hasBody = encodings || (lengths && request.get_header_value("Content-Length") != "0");
    return hasBody && !mayHaveBody ? "a " + request.method + " has no body here" : "";
  }

  /// Of what httplib gave up on.
  void refuseUnread(httplib::Response &answer) {
    if (current->isTooLong())
      return refuse(431, "the request's head is too long", answer);
    if (current->isLate())
      return refuse(408, "the request's head was not all there in time", answer);
    refuse(answer.status,
           answer.status == 414 ? "the request's path is too long"
                                : "the request is no HTTP that is understood here",
           answer);
  }

  static HttpRequest headOf(const httplib::Request &request) {
    return {request.method, request.path, request.get_header_value("Authorization"), {}, {}};
  }

  void handle(const httplib::Request &request, std::string body, httplib::Response &answer) {
    BoundedStream *stream = current;
    auto isGone = [this, stream] { return stops_ || stream->isGone(); };
    HttpRequest whole = headOf(request);
    whole.body = std::move(body), whole.isGone = isGone;
    give(handler_(whole), answer);
  }

  void readBody(const httplib::Request &request, httplib::Response &answer,
                const httplib::ContentReader &reader) {
    if (request.is_multipart_form_data())
      return refuse(415, "bodies are JSON, not forms", answer);
    if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding"))
      return refuse(411, "the request has no Content-Length", answer);
    std::string tooLong =
        "the body has more than " + std::to_string(settings_.bodyBytes) + " bytes";
    std::string length = request.get_header_value("Content-Length");
    if (!std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return refuse(400, "Content-Length is no number", answer);
    if (length.size() > 18 || (!length.empty() && std::stoll(length) > settings_.bodyBytes))
      return refuse(413, tooLong, answer);
    current->beginBody();
    std::string body;
    bool isRead = reader([&](const char *data, size_t size) {
      body.append(data, size);
      return int64_t(body.size()) <= settings_.bodyBytes;
    });
    if (int64_t(body.size()) > settings_.bodyBytes || current->isTooLong())
      return refuse(413, tooLong, answer);
    if (!isRead)
      return refuse(current->isLate() ? 408 : 400, "the body is not all there", answer);
    handle(request, std::move(body), answer);
  }

  /// A request's head that httplib gave up on, because of a limit.
  void answerHead(BoundedStream &stream) {
    if (!stream.isTooLong() && !(stream.isLate() && stream.hasRead()))
      return;
    HttpAnswer answer = stream.isTooLong() ? refuse_(431, "the request's head is too long")
                                           : refuse_(408, "the request's head is not all there");
    std::string text =
        "HTTP/1.1 " + std::to_string(answer.status) +
        (stream.isTooLong() ? " Request Header Fields Too Large" : " Request Timeout") +
        "\r\nConnection: close\r\nContent-Type: " + answer.type +
        "\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
    stream.write(text.data(), text.size());
  }

  bool awaitRequest(const Connection &connection) const {
    if (connection.hasReceived())
      return true;
    for (int waited = 0; waited < settings_.seconds * 1000 && !stops_; waited += kSliceMs) {
      if (connection.wait(POLLIN, kSliceMs))
        return true;
    }
    return false;
  }

  void drain(const Connection &connection) const {
    ::shutdown(connection.socket, SHUT_WR);
    auto end = Clock::now() + std::chrono::milliseconds(kDrainMs);
    char bytes[65536];
    for (int64_t total = 0; total < kDrainBytes && Clock::now() < end && !stops_;) {
      if (!connection.wait(POLLIN, kSliceMs))
        continue;
      ssize_t got = ::recv(connection.socket, bytes, sizeof bytes, MSG_DONTWAIT);
      if (got <= 0)
        return;
      total += got;
    }
  }

  /// An answer is given whole, whatever piece of it is asked for, and however often.
  static void withoutRanges(httplib::Request &request) { request.ranges.clear(); }

  bool process_and_close_socket(socket_t socket) override {
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
    Connection connection{socket, {}};
    bool isClosed = false;
    while (!isClosed && awaitRequest(connection)) {
      BoundedStream stream(connection, settings_, stops_);
      current = &stream;
      bool isDone = process_request(stream, false, isClosed, withoutRanges);
      current = nullptr;
      if (!isDone)
        answerHead(stream);
      if (!isDone || stream.mustClose) {
        drain(connection);
        break;
      }
    }
    ::close(socket);
    return true;
  }

  HttpSettings settings_;
  HttpHandler handler_;
  Refuse refuse_;
  int port_ = 0;
  std::atomic<bool> stops_ = false;
};

} // namespace

extern "C" __attribute__((visibility("default"))) HttpServer *
tensmith_open_http(const HttpSettings &settings, const HttpHandler &handler, Refuse refuse,
                   std::string &failure) {
  auto server = std::make_unique<HttplibServer>(settings, handler, refuse);
  return server->listen(failure) ? server.release() : nullptr;
}

} // namespace tensmith::generation
