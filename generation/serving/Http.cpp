// HTTP by the library that is built where cpp-httplib is; see Http.h.
#include "generation/serving/Http.h"

#include "files/Failure.h"
#include "train/BesideRuntime.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tensmith::generation {

std::unique_ptr<HttpServer> openHttp(const HttpSettings &settings, const HttpHandler &handler,
                                     HttpAnswer (*refuse)(int status, const std::string &why)) {
  std::string path = train::besideRuntime("libtensmith_http.so");
  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Failure(std::string("serving needs libtensmith_http.so, which is built where cpp-httplib "
                              "is (libcpp-httplib-dev): ") +
                  ::dlerror());
  auto open = reinterpret_cast<OpenHttp>(::dlsym(library, kOpenHttp));
  if (!open)
    throw Failure("libtensmith_http.so is of another version than this program");
  std::string failure;
  std::unique_ptr<HttpServer> server(open(settings, handler, refuse, failure));
  if (!server)
    throw Failure(fmt::format("can't listen on {}:{}: {}", settings.host, settings.port, failure));
  return server;
}

} // namespace tensmith::generation
