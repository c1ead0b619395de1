// Keys, and entries that name files; see ModuleCache.h.
#include "client/ModuleCache.h"

#include "cache/LoadedPlugins.h"
#include "client/Identity.h"

#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace tensmith::client {
namespace {

constexpr int64_t kKeyFormat = 1; // of what is hashed, in which order

/// A folder's name even where the path is a file's name alone: none of an empty one is absolute.
std::string folderOf(const fs::path &path) {
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

std::optional<Hash128> hashOf(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return std::nullopt;
  auto hash = cache::hashFile(file);
  ::close(file);
  return hash;
}

void add(Hasher &hasher, const std::optional<Hash128> &hash) {
  hasher.add(hash ? toHex(*hash) : "none");
}

void add(Hasher &hasher, const char *text) {
  hasher.add(int64_t(text != nullptr));
  hasher.add(text ? text : "");
}

void add(Hasher &hasher, const char *const *texts, size_t count) {
  hasher.add(int64_t(count));
  for (size_t i = 0; i < count; ++i)
    add(hasher, texts[i]);
}

bool canBeKey(const ts_compile_options &options) {
  return !options.dump_ir_dir && !options.verify_each_pass && !options.derivative_count &&
         !options.training && options.calibration != TS_CALIBRATE_GIVEN;
}

/// All that has a part in the module, or in whether there is one.
void add(Hasher &hasher, const ts_compile_options &options) {
  static_assert(sizeof(ts_compile_options) == 408, // `seed` is of evaluations alone
                "whoever adds an option says here whether a module depends on it");
  add(hasher, options.shapes, options.shape_count);
  add(hasher, options.target);
  hasher.add(int64_t(options.optimization));
  hasher.add(int64_t(options.evaluate_by_reference));
  hasher.add(int64_t(options.precision));
  add(hasher, options.keep, options.keep_count);
  add(hasher, options.overridable, options.overridable_count);
  add(hasher, options.schedules ? hashOf(options.schedules) : std::nullopt);
  add(hasher, options.tuned ? options.tuned_state : nullptr);
  hasher.add(options.memory_budget);
  add(hasher, options.recomputation);
  add(hasher, options.libraries);
  add(hasher, options.device);
  hasher.add(int64_t(options.resident));
  hasher.add(int64_t(options.for_evaluation));
  hasher.add(int64_t(options.check_bounds));
  hasher.add(int64_t(options.fast_math));
  hasher.add(int64_t(options.debug_info));
  add(hasher, options.casts, options.cast_count);
  add(hasher, options.made_of);
  add(hasher, options.folder);
  add(hasher, options.function);
  hasher.add(int64_t(options.calibration));
  for (int64_t limit : {options.memory_limit, options.node_limit, int64_t(options.nesting_limit)})
    hasher.add(limit);
  hasher.add(std::to_string(options.time_limit));
}

/// The kernel's own time, which it stamps files with.
timespec timeOfFiles() {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now;
}

bool isBefore(const timespec &a, const timespec &b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/// A file that was written in this tick of that clock could be written again without a trace.
timespec beginAfter(const std::string &path) {
  struct stat status;
  timespec now = timeOfFiles();
  for (int tries = 0; tries < 10 && ::stat(path.c_str(), &status) == 0 &&
                      !isBefore(status.st_ctim, now) && status.st_ctim.tv_sec <= now.tv_sec;
       ++tries) {
    ::usleep(1000);
    now = timeOfFiles();
  }
  return now;
}

cache::Store::Warning warningOf(const ts_compile_options &options) {
  return [warn = options.warn, context = options.warn_context](const std::string &message) {
    if (warn)
      warn(context, message.c_str());
  };
}

} // namespace

ModuleCache::ModuleCache(const std::string &path, std::optional<std::span<const std::byte>> bytes,
                         const ts_compile_options &options)
    : store_(options.cache_dir ? options.cache_dir : cache::defaultFolder(), cache::defaultLimit(),
             warningOf(options)),
      path_(path), folder_(folderOf(path)), isFile_(!bytes) {
  if (store_.folder().empty() || !canBeKey(options))
    return;
  std::string compiler = compilerIdentity();
  began_ = isFile_ ? beginAfter(path) : timeOfFiles();
  auto model = bytes ? std::optional(hash128(*bytes)) : hashOf(path);
  if (compiler.empty() || !model)
    return;
  Hasher hasher;
  hasher.add(kKeyFormat);
  hasher.add(compiler);
  hasher.add(cache::loadedPlugins());
  hasher.add(machineIdentity());
  hasher.add(fs::path(path).extension().string()); // decides what it is read as
  hasher.add(int64_t(isFile_));
  add(hasher, model);
  add(hasher, options);
  key_ = hasher.finish();
}

bool ModuleCache::readModel() {
  auto text = key_ ? store_.find(cache::Kind::Model, *key_) : std::nullopt;
  if (!text)
    return false;
  auto json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return false;
  interface_ = json.value("interface", "");
  warnings_.clear();
  for (const auto &warning : json["warnings"])
    warnings_.push_back(warning.get<std::string>());
  files_.clear();
  for (const auto &file : json["files"])
    files_.insert(file.get<std::string>());
  return true;
}

/// Nothing where a file is gone.
std::optional<Hash128> ModuleCache::moduleKey() const {
  Hasher hasher;
  hasher.add(toHex(*key_));
  for (const std::string &file : files_) {
    auto hash = hashOf(fs::path(folder_) / file);
    if (!hash)
      return std::nullopt;
    hasher.add(file);
    add(hasher, hash);
  }
  return hasher.finish();
}

std::optional<ModuleCache::Found> ModuleCache::find() {
  auto key = readModel() ? moduleKey() : std::nullopt;
  auto entry = key ? store_.open(cache::Kind::Module, *key) : std::nullopt;
  return entry ? std::optional(Found{std::move(*entry), interface_, warnings_}) : std::nullopt;
}

void ModuleCache::begin(ts_compile_options &options) {
  files_.clear();
  if (!store_.refusal().empty()) // which was told of
    options.cache_dir = "";
  warnings_.clear();
  warn_ = options.warn, warnContext_ = options.warn_context;
  options.warn_context = this;
  options.warn = [](void *self, const char *message) {
    auto *cache = static_cast<ModuleCache *>(self);
    cache->warnings_.push_back(message);
    if (cache->warn_)
      cache->warn_(cache->warnContext_, message);
  };
  options.read_context = this;
  options.read = [](void *self, const char *path) {
    auto *cache = static_cast<ModuleCache *>(self);
    fs::path below = fs::absolute(path).lexically_relative(fs::absolute(cache->folder_));
    cache->files_.insert(below.empty() ? fs::absolute(path).string() : below.string());
  };
}

/// Since its hash was taken, or, of those beside the model, since before they were read.
bool ModuleCache::isUnchanged(const std::string &path) const {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && isBefore(status.st_ctim, began_);
}

bool ModuleCache::keepModel(const std::string &interface) {
  auto module = moduleKey();
  if (!module)
    return false;
  nlohmann::json json = {{"model", isFile_ ? fs::absolute(path_).string() : path_},
                         {"module", toHex(*module)},
                         {"files", files_},
                         {"warnings", warnings_},
                         {"interface", interface}};
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return store_.insert(cache::Kind::Model, *key_, text);
}

template <typename Insert> bool ModuleCache::keep(const std::string &interface, Insert insert) {
  if (!key_ || (isFile_ && !isUnchanged(path_)))
    return false;
  for (const std::string &file : files_)
    if (!isUnchanged(fs::path(folder_) / file))
      return false;
  auto key = moduleKey();
  bool kept = key && insert(*key) && keepModel(interface);
  store_.trim();
  return kept;
}

bool ModuleCache::keepFile(const std::string &module, const std::string &interface) {
  return keep(interface, [&](const Hash128 &key) {
    return store_.insertFile(cache::Kind::Module, key, module);
  });
}

bool ModuleCache::keepBytes(std::string_view module, const std::string &interface) {
  return keep(interface,
              [&](const Hash128 &key) { return store_.insert(cache::Kind::Module, key, module); });
}

void ModuleCache::keepInterface(const std::string &interface) {
  if (key_)
    keepModel(interface_ = interface);
}

} // namespace tensmith::client
